"""`inweights claims`: lists, shows and runs claims of the literature; each is a program with a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inweights._errors import InputError, Problems, unknown
from inweights.cli._contradicted import contradicts, loose
from inweights.cli._device import Where, usable
from inweights.cli._live import live, numbers
from inweights.cli._output import Json, emit, say, table, with_former

if TYPE_CHECKING:
    from inweights.ledger import Claim, Entry

claims = typer.Typer(help="The ledger: claims of the literature, tested by programs.", no_args_is_help=True)


Ids = Annotated[
    list[str] | None, typer.Argument(help="Claims, or papers: dherin, oswald, … (`claims list`).", metavar="[ID]...")
]


EARLIER = "* measured with an earlier version of the code that it calls, which need not change a number."


@claims.command("list")
def list_command(ids: Ids = None, as_json: Json = False) -> None:
    """List claims by paper, with their cost and the verdicts of the last full run."""
    from inweights.papers import recorded
    from inweights.report import counted

    known, last = {c.id: c for c in _chosen(ids or [], everything=not ids)}, recorded()
    if as_json:
        listed = [_about(c) | _of_the_record(last.get(i)) for i, c in known.items()]
        emit({"claims": listed, "counts": counted(e for i, e in last.items() if i in known)})
        return
    for paper in dict.fromkeys(c.paper for c in known.values()):
        rows = [(c.id, _last(last.get(c.id)), _cost(c), _sentence(c)) for c in known.values() if c.paper == paper]
        table(("claim", "last verdict", "quick / full", ""), rows, title=f"{paper.key}: {paper}")
    _say_counts(counted(e for i, e in last.items() if i in known), sum(bool(c.uncounted) for c in known.values()))
    if any(e.changed for i, e in last.items() if i in known):
        say(EARLIER)
    if any(map(_to_train, known.values())):
        say("+ training: models that the zoo lacks; `claims run --train` trains them first, which may take hours.")


@claims.command("show")
def show_command(
    id: Annotated[str, typer.Argument(help="The claim; `claims list` shows all.", metavar="ID")], as_json: Json = False
) -> None:
    """Show one claim: its sentence and source, the paper's value, the measurement, the controls, the criteria."""
    from inweights.ledger import criteria, facts, remarks
    from inweights.papers import load_all, recorded

    known, last = load_all(), recorded().get(id)
    if id not in known:
        raise unknown("claim", id, known)
    claim, fact = known[id], facts()[id]
    if as_json:
        emit(_about(claim) | {"last": last and _values(last) | _of_the_record(last)})
        return
    say(f"{claim.id}: {_sentence(claim)}")
    say(f"{claim.paper}, {claim.where} {claim.paper.address}\n".replace("  ", " "))
    say(f"{'stratum':<13} {fact.stratum}: {fact.stratum.meaning}")
    say(f"{'paper':<13} {fact.paper_value}")
    for name, (ours, paper) in fact.scale.items():
        say(f"{'scale':<13} {name}: {ours:g}, paper {paper:g}, ratio {ours / paper:.3g}")
    for deviation in fact.deviations:
        say(f"{'deviation':<13} {deviation}")
    for what in ("measured", "control", "rival", "settings", "precondition", "pending"):
        if text := getattr(fact, what, "") or getattr(claim, what, ""):
            say(f"{what:<13} {text}")
    for name, criterion in criteria()[id].quantities.items():
        say(f"{'criterion':<13} {name}: {criterion}")
    say(f"{'needs':<13} {', '.join(claim.needs) or 'nothing'}; {_cost(claim)} (quick / full)")
    for name, missing in _to_train(claim).items():
        say(f"{'not trained':<13} {name}, {missing} of its seeds: `claims run {id} --train` trains them first")
    if last is not None:
        say(f"{'last verdict':<13} {_last(last)}: {numbers(last)}" + (f" ({last.why})" if last.why else ""))
        if last.changed:
            say(f"{'':<13} {EARLIER}")
        for made in last.made_with:
            say(f"{'made with':<13} {'; '.join(f'{k} {v}' for k, v in made.items())}")
    if id in remarks():
        say(f"{'remark':<13} {remarks()[id]}")


@claims.command("run")
def run_command(
    ids: Ids = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Smaller sizes, and 3 trials at most.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="A folder for results.jsonl and the figures.", file_okay=False)
    ] = None,
    train: Annotated[
        bool, typer.Option("--train", help="Train missing models, which may take hours; else their claims are not run.")
    ] = False,
    device: Where = "cpu",
    engine: Annotated[str, typer.Option(help="local: this machine. ray: trials in parallel on a cluster.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="HOST:PORT of a Ray head; without it, Ray is started here.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Trials at a time; by default 1, or with ray as many as can run.", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Run claims; a stopped run resumes from the cache. Exit code 1 if a negative control did not fail, if a claim's
    program failed, or if the verdict of an exact claim differs from the recorded one; 0 if every claim has a verdict,
    also where a rival explanation holds too. With --quick, FAIL and ERRATUM do not differ: both say that the sentence
    does not hold as it is written, and the corrected form needs all trials. Nor does a control count that fails on
    average, if only the interval of so few trials leaves it open."""
    from inweights._files import folder_for
    from inweights.ledger import Verdict, run_claims, side_by_side
    from inweights.ledger import results as written
    from inweights.papers import recorded
    from inweights.report import counted

    chosen = _chosen(ids or [], everything)
    device = usable(device)
    results = side_by_side(engine, jobs, address)
    if out is not None:
        folder_for("--out", out)
        written(out)  # damaged results are an error before any work
    entries: list[Entry] = []
    with live(chosen, quick, silent=as_json) as (after, show):
        for entry in run_claims(chosen, quick=quick, device=device, train=train, results=results, after=after):
            entries.append(entry)
            show(entry)
            if out is not None:  # after each claim, so that a stopped run loses nothing
                _keep(out, entry)
    last = recorded()
    of, counts = {c.id: c for c in chosen}, counted(entries)
    more = sum(bool(c.uncounted) for c in chosen)
    if as_json:
        emit({"claims": [_values(e) for e in entries], "counts": counts, "uncounted": more, "quick": quick})
    else:
        _say_counts(counts, more)
    ran = [e for e in entries if e.verdict is not Verdict.NOT_RUN]
    other = [e for e in ran if of[e.id].exact and e.id in last and contradicts(e.verdict, last[e.id].verdict, quick)]
    for e in other:
        typer.echo(f"{e.id} was {last[e.id].verdict} and is {e.verdict}.", err=True)
    if other or any(e.broken or loose(e, quick) for e in entries):
        raise typer.Exit(1)


def _chosen(ids: list[str], everything: bool) -> list[Claim]:
    from inweights.papers import load_all

    known = load_all()
    if everything == bool(ids):
        raise InputError("Name the claims to run, or give --all: `inweights claims list` shows them.")
    papers: dict[str, list[str]] = {}
    for claim in known.values():
        papers.setdefault(claim.paper.key, []).append(claim.id)
    problems = Problems()
    for id in ids:
        problems.unless(id in known or id in papers, str(unknown("claim", id, [*known, *papers])))
    problems.stop()
    wanted = list(known) if everything else [i for id in ids for i in papers.get(id, [id])]
    return [known[id] for id in dict.fromkeys(wanted)]


def _keep(out: Path, entry: Entry) -> None:
    """Adds an entry and its figure to the results of earlier runs. A NOT-RUN entry does not replace a verdict."""
    from inweights.ledger import append
    from inweights.report import write_figure

    if append(out, entry):
        write_figure(out, entry)


def _last(entry: Entry | None) -> str:
    if entry is None:
        return "–"
    if entry.stale:
        return f"{entry.verdict}, stale"
    return f"{entry.verdict} *" if entry.changed else entry.verdict


def _of_the_record(entry: Entry | None) -> dict[str, Any]:
    """The verdict of the last full run, and what has changed since."""
    if entry is None:
        return {"verdict": None}
    return {
        "verdict": entry.verdict,
        "stale": entry.stale or None,
        "changed_since": entry.changed,
        "result_registered": entry.registered or None,
        "why": entry.why,
        "trials": entry.trials,
        "seconds": entry.seconds,
        "made_with": entry.made_with,
        "quantities": _quantities(entry),
    }


def _to_train(claim: Claim) -> dict[str, int]:
    from inweights.ledger import criteria, to_train

    return to_train(claim.needs, criteria()[claim.id].seeds)


def _say_counts(counts: dict[str, dict[str, int]], uncounted: int) -> None:
    """One line for each stratum, as verdicts are never added across them."""
    for stratum, verdicts in counts.items():
        say(f"{stratum:<15} " + ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items()))
    if uncounted:
        say(f"{uncounted} more {'is' if uncounted == 1 else 'are'} not counted.")


def _sentence(claim: Claim) -> str:
    return claim.sentence + (f" ({claim.uncounted})" if claim.uncounted else "")


def _cost(claim: Claim) -> str:
    seconds = " / ".join(f"{s:.0f} s" if s < 120 else f"{s / 60:.0f} min" for s in claim.cost)
    return f"{seconds} + training" if _to_train(claim) else seconds


def _about(claim: Claim) -> dict[str, Any]:
    from inweights.ledger import criteria, facts, registration, remarks

    fact = facts()[claim.id]
    values = {
        "id": claim.id,
        "paper": claim.paper.title,
        "authors": claim.paper.authors,
        "arxiv": claim.paper.arxiv,
        "version": claim.paper.version or None,
        "published": claim.paper.published or None,
        "address": claim.paper.address or None,
        "where": claim.where,
        "stratum": fact.stratum,
        "sentence": claim.sentence,
        "paper_value": fact.paper_value,
        "scale": {
            name: {"ours": ours, "paper": paper, "ratio": ours / paper} for name, (ours, paper) in fact.scale.items()
        },
        "deviations": list(fact.deviations),
        "measured": claim.measured,
        "control": claim.control,
        "rival": fact.rival,
        "settings": claim.settings,
        "precondition": fact.precondition,
        "pending": fact.pending or None,
        "command": f"inweights claims run {claim.id}",
        "registered": registration(claim),
        "criteria": {name: str(c) for name, c in criteria()[claim.id].quantities.items()},
        "needs": list(claim.needs),
        "cost": list(claim.cost),
        "to_train": _to_train(claim),
        "remark": remarks().get(claim.id),
        "same_statement_as": claim.repeats or None,
        "not_counted_because": claim.aside or None,
    }
    return with_former(values, repeats="same_statement_as", aside="not_counted_because")


def _values(entry: Entry) -> dict[str, Any]:
    from inweights.ledger import CLAIMS

    return _about(CLAIMS[entry.id]) | {
        "verdict": str(entry.verdict),
        "why": entry.why,
        "trials": entry.trials,
        "seconds": entry.seconds,
        "told": entry.told,
        "made_with": entry.made_with,
        "broken": entry.broken,
        "quantities": _quantities(entry),
    }


def _quantities(entry: Entry) -> dict[str, Any]:
    """What is judged, by name: the value with its interval and the numbers of the trials, of both controls too."""
    from inweights.report import measured

    return {
        name: {
            "measured": j.value.value,
            "interval": [j.value.low, j.value.high],
            "criterion": wanted,
            "control": j.control and j.control.value,
            "rival": j.rival and j.rival.value,
            "verdict": str(j.verdict),
            "trials": entry.seen[name][0],
            "control_trials": entry.seen[name][1],
            "rival_trials": entry.rivals.get(name),
        }
        for (name, j), (_, _, wanted, *_) in zip(entry.quantities.items(), measured(entry), strict=True)
    }
