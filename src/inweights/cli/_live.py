"""Progress display of a run of claims: a live table on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from inweights.cli._output import say

if TYPE_CHECKING:
    from inweights.ledger import Claim, Entry, Job, Kept


@contextmanager
def live(
    chosen: list[Claim], quick: bool, *, silent: bool
) -> Iterator[tuple[Callable[[Job, Kept], None], Callable[[Entry], None]]]:
    """Yields two callbacks, for a finished trial and for a finished claim. They fill a live table on a terminal, and
    print lines elsewhere; nothing if `silent`."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.text import Text

    from inweights.ledger import seeds_of

    console = Console(stderr=True)
    left = {c.id: len(seeds_of(c, quick=quick)) for c in chosen}  # trials
    begun: set[str] = set()
    bars = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total} trials"),
                    TimeElapsedColumn(), console=console)  # fmt: skip
    bar = bars.add_task("quick run" if quick else "full run", total=sum(left.values()))
    live = Live(console=console, transient=True) if console.is_terminal and not silent else None
    width = max(len(id) for id in ("claim", *left))

    def row(verdict: str, id: str, result: str, style: str = "") -> None:
        """Prints one line, cut to the width of the terminal; as `Text`, so that brackets are not read as markup."""
        line = Text(f"{verdict:<20} {id:<{width}} {' '.join(result.split())}", style)
        console.print(line, no_wrap=True, overflow="ellipsis")

    def below() -> Group:
        """The progress bar and the unfinished claims."""
        some = [id for id, trials in left.items() if trials and id in begun]
        waiting = sum(id not in begun for id in left)
        parts = [f"under way: {', '.join(some)}"] if some else []
        parts += [f"{waiting} claim{'s' if waiting > 1 else ''} waiting"] if waiting else []
        return Group(bars, Text("; ".join(reversed(parts)), no_wrap=True, overflow="ellipsis"))

    def after(job: Job, kept: Kept) -> None:
        left[job.id] -= 1
        begun.add(job.id)
        bars.update(bar, advance=1)
        if live:
            live.update(below())

    def show(entry: Entry) -> None:
        result = numbers(entry) + (f"  ({entry.why})" if entry.why else "")
        if live:
            row(entry.verdict, entry.id, result)
        elif not silent:
            say(f"{entry.verdict:<20} {entry.id:<28} {result}")

    if live is None:
        yield after, show
    else:
        row("verdict", "claim", "measured", "bold")
        live.update(below())
        with live:
            yield after, show


def numbers(entry: Entry) -> str:
    """The measured quantities of a result, as one line."""
    from inweights.report import measured

    return "; ".join(
        f"{name} {result} ({wanted}; control {control}" + (f"; rival {rival})" if rival != "–" else ")")
        for name, result, wanted, control, rival in measured(entry)
    )
