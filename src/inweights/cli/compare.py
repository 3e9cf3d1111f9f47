"""`inweights compare`: in-context learning against gradient descent on the same demonstrations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from inweights._errors import InputError
from inweights.cli._model import Device, Dtype, ModelName, open_model
from inweights.cli._output import Json, Seed, emit, say, table
from inweights.cli._progress import progress

if TYPE_CHECKING:
    from inweights.compare import Comparison, Cost, Plan
    from inweights.models import Model


Rates = Annotated[
    list[float] | None, typer.Option(help="A learning rate; repeatable. Default: 1e-5, 5e-5, 1e-4, 5e-4.")
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        help="Another side: value-middle, value-deep, mlp, layer-causal, lora, sgd-N or adam-N (N = 1, 2, 4), "
        "patch or fold; or a further comparison: sizes, many, attention, updates or martingale. Repeatable.",
        metavar="WAY",
    ),
]
Controls = Annotated[bool, typer.Option("--controls/--no-controls", help="Untrained models and shuffled labels.")]
Out = Annotated[
    Path | None, typer.Option(help="Also write the table, the figures and the JSON to this folder.", metavar="DIR")
]


def compare(
    task: Annotated[str, typer.Option(help="sst2, rte, cb, past-tense, plurals or capitals.", metavar="TASK")],
    model: ModelName = "smollm2",
    demonstrations: Annotated[int, typer.Option(help="How many demonstrations, at least 2.")] = 4,
    orders: Annotated[int, typer.Option(help="How many orders of the demonstrations.")] = 10,
    queries: Annotated[int, typer.Option(help="How many test queries.")] = 100,
    epochs: Annotated[int, typer.Option(help="Epochs of gradient descent.")] = 200,
    every: Annotated[int, typer.Option(help="Epochs between checkpoints.")] = 20,
    rate: Rates = None,
    also: Also = None,
    also_epochs: Annotated[int, typer.Option(help="Fewer epochs for other sides than gd; 0: as many.")] = 0,
    controls: Controls = True,
    out: Out = None,
    dtype: Dtype = "float32",
    device: Device = "auto",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Compare in-context learning with gradient descent on the same demonstrations. Continues where it was stopped."""
    from inweights.compare import RATES, Plan

    if dtype not in ("float32", "float64"):
        raise InputError(f"--dtype is {dtype!r}, but gradient descent here needs float32 or float64.")
    plan = Plan(
        task,
        demonstrations,
        queries,
        orders,
        epochs,
        every,
        tuple(rate or RATES),
        ("gd", *(also or ())),
        controls,
        seed,
        also_epochs,
    ).check()
    if out is not None:
        from inweights._files import folder_for

        folder_for("--out", out)
    result = _compared(open_model(model, dtype, device, quiet=as_json), plan)
    if out is not None:
        from inweights.report import write_comparison

        write_comparison(out, result)
    if as_json:
        emit(result.as_json())
    else:
        _show(result)
        if out is not None:
            say(f"Table, figures and JSON: {out}")


def _compared(model: Model, plan: Plan) -> Comparison:
    """The comparison, its expected time before it and its progress during it on standard error."""
    from inweights.compare import cost, run_comparison

    _announce(cost(model, plan, plan.shots(model)))
    with progress() as bars:
        bar = bars.add_task("comparing", total=None, note="")

        def after(part: str, done: int, total: int) -> None:
            bars.update(bar, description=part, completed=done, total=total)

        try:
            return run_comparison(model, plan, after=after)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("The same command resumes.") from None


def _announce(expected: Cost) -> None:
    """Prints the expected time before the work begins, on standard error."""
    parts = ", ".join(f"{name} {seconds / 60:.1f}" for name, seconds in expected.parts.items())
    typer.echo(f"Expected at most: {expected.seconds / 60:.0f} minutes ({parts}); parts that exist are read.", err=True)


def _show(result: Comparison) -> None:
    """Prints the table and the verdicts."""
    names = {
        "accuracy": "accuracy", "accuracy_labels": "over labels", "sensitivity": "order sens.",
        "sensitivity_labels": "over labels", "token_overlap": "overlap", "penalised": "cosine, penalised",
        "digest": "digest", "padded": "padded", "kl": "KL", "calibration": "ECE",
    }  # fmt: skip

    def cell(values: list[float] | None) -> str:
        if not values:
            return ""
        return f"{values[0]:.3g}" + (f" [{values[1]:.3g}, {values[2]:.3g}]" if len(values) == 3 else "")

    rows = [[name, *(cell(values.get(m)) for m in names)] for name, values in result.table().items()]
    table(("", *names.values()), rows, title=f"{result.setting['task']}, {result.setting['model']}")
    say("In the rows of gradient descent each measure is that of its own best checkpoint and rate.")
    say("Overlap and cosines are those with in-context learning; in its own row, of two orders with each other.")
    if "in-context, untrained" in result.table():
        say("Untrained models answer almost evenly: their high overlap and low sensitivity show no learning.")
    if several := result.setting["labels_of_several_tokens"]:
        say(f"Answers are judged by their first token; {several:.0%} of the labels have more than one.")
    if result.weights["quantised"]:
        say("The weights come from a quantised file: the shares of small ones, in the JSON, measure the quantiser.")
    for name, finding in result.findings().items():
        number = f"{finding.value:.3g} [{finding.low:.3g}, {finding.high:.3g}]"
        say(f"Hypothesis {finding.hypothesis}, {name}: {finding.verdict} ({finding.sentence}: {number})")
