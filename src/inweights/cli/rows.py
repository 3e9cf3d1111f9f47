"""`inweights rows`: folds training rows of a table into the weights of TabPFN."""

from __future__ import annotations

from typing import Annotated

import typer

from inweights._errors import InputError, unknown
from inweights.cli._output import Json, Seed, emit, say, table


def rows_command(
    data: Annotated[str, typer.Option(help="The table: iris, wine or breast_cancer.", metavar="NAME")] = "iris",
    keep: Annotated[int, typer.Option(help="Training rows that stay in the context; the others become weights.")] = 10,
    rows: Annotated[int, typer.Option(help="Training rows in all.")] = 60,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fold training rows into the weights of TabPFN, and check that its predictions are the same as with the rows."""
    from inweights.models import SIZES, TOLERANCE
    from inweights.models import rows as fold

    if data not in SIZES:
        raise unknown("table", data, SIZES)
    if not 1 <= keep < rows:
        raise InputError(
            f"--keep is {keep} and --rows is {rows}: keep at least 1 training row, and fewer than all of them."
        )
    result = fold(data, keep, rows - keep, seed=seed)
    if as_json:
        emit(result.as_json())
    else:
        read = f"{keep} read"
        runs = [
            (f"all {rows} read", result.accuracy_all, 0.0),
            (f"{read}, {result.folded} in the weights", result.accuracy_patched, result.max_abs_logit_error),
            (read, result.accuracy_kept, result.bare_max_abs_logit_error),
            (f"{read}, random changes of equal norm", result.accuracy_control, result.control_max_abs_logit_error),
        ]
        lines = [(what, f"{accuracy:.3f}", _size(error)) for what, accuracy, error in runs]
        header = ("training rows", f"accuracy on {result.queries} others", "largest difference of logits")
        table(header, lines, title=f"TabPFN on {data}")
        say(f"Size of the changes, ‖ΔW‖/‖W‖, by block: {', '.join(f'{size:.3f}' for size in result.sizes)}")
    if not result.holds:
        typer.echo(
            f"The theorem does not hold: logits differ by more than {TOLERANCE:.0e}, or those of a control do not.",
            err=True,
        )
        raise typer.Exit(1)


def _size(error: float) -> str:
    if not error:
        return ""
    return f"{error:.1e}" if error < 1e-2 else f"{error:.2f}"
