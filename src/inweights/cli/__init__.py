"""The command line. Importing this loads neither torch nor transformers: commands load what they need."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from inweights import __version__
from inweights.cli._exits import exit_code
from inweights.cli.anatomy import anatomy
from inweights.cli.app import app_command
from inweights.cli.bench import bench
from inweights.cli.claims import claims
from inweights.cli.combine import combine
from inweights.cli.compare import compare
from inweights.cli.data import data
from inweights.cli.demo import demo
from inweights.cli.evaluate import evaluate
from inweights.cli.export import export
from inweights.cli.families import families
from inweights.cli.fold import fold
from inweights.cli.generate import generate
from inweights.cli.lab import lab
from inweights.cli.patch import patch
from inweights.cli.report import report
from inweights.cli.rows import rows_command
from inweights.cli.trace import trace
from inweights.cli.verify import verify

app = typer.Typer(
    name="inweights",
    help="Context becomes weights: the exact weight update that is equivalent to a prompt, computed, proved and shown.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    demo,
    fold,
    evaluate,
    combine,
    export,
    generate,
    verify,
    patch,
    trace,
    compare,
    anatomy,
    families,
    bench,
    report,
):
    app.command()(command)
app.command("rows")(rows_command)
app.command("app")(app_command)
app.add_typer(data, name="data")
app.add_typer(lab, name="lab")
app.add_typer(claims, name="claims")


def _version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"inweights {__version__}\n")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> NoReturn:
    """The entry point: every command ends with one of the exit codes of `_exits`, without a traceback."""
    sys.exit(exit_code(app))
