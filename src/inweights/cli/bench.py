"""`inweights bench`: runs a benchmark against a rival, both measured in the same run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from inweights._errors import InputError
from inweights.cli._output import Json, emit, say, table


def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark; `list` shows them.", metavar="NAME")] = "list",
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only this prompt of `fold`, or number of facts of `knowledge`; repeatable.", metavar="X"),
    ] = None,
    model: Annotated[str, typer.Option(help="The model of `knowledge` and `app`: a name or a folder.")] = "smollm2",
    seconds: Annotated[float | None, typer.Option(help="How long `app` is under load; 300 by default.", min=1)] = None,
    as_json: Json = False,
) -> None:
    """Measure ours against the rival, taking turns in one process, and check that both agree."""
    from inweights.bench import BENCHES, load

    if name == "list":
        if as_json:
            emit({"benches": BENCHES})
        else:
            table(("benchmark", "what it measures"), list(BENCHES.items()))
        return
    job = load(name)
    if only and name not in ("fold", "knowledge"):
        raise InputError(f"--only is for the benchmarks fold and knowledge, but this is {name}.")
    if model != "smollm2" and name not in ("knowledge", "app"):
        raise InputError(f"--model is for the benchmarks knowledge and app, but this is {name}.")
    if seconds is not None and name != "app":
        raise InputError(f"--seconds is for the benchmark app, but this is {name}.")
    chosen: dict[str, Any] = {"only": tuple(only)} if only else {}
    chosen |= {"seconds": seconds} if seconds is not None else {}
    result = job(**chosen, **({"model": model} if name in ("knowledge", "app") else {}))
    if as_json:
        emit(result.as_json())
    else:
        rows = [
            (r.name, _amount(r.ours, r.unit), _amount(r.rival, r.unit), f"{r.ratio:.1f}", f"{r.goal:g}")
            for r in result.rows
        ]
        table(("", "ours", "rival", "ratio", "goal"), rows, title=f"{name}: {result.setting}")
        for r in result.rows:
            if r.beside:
                values = ", ".join(f"{k} {v:.3f}" for k, v in r.beside.items() if isinstance(v, float))
                say(f"{r.name}: {values}")
            if r.ratio < r.goal:
                say(f"{r.name}: {r.ratio:.1f} is below its goal of {r.goal:g} in this run.")
        word = "agree" if result.agrees else "DISAGREE"
        say(f"The two sides {word}: largest difference {result.error:.1e}, allowed {result.tolerance:.0e}.")
    if not result.agrees:
        raise typer.Exit(1)


def _amount(value: float, unit: str) -> str:
    return f"{value * 1e3:.3g} ms" if unit == "seconds" else f"{value / 2**20:.3g} MiB"
