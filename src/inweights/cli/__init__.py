"""The command line. Importing this loads neither torch nor transformers: commands load what they need."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from inweights import __version__
from inweights._errors import InputError
from inweights.cli.anatomy import anatomy
from inweights.cli.bench import bench
from inweights.cli.claims import claims
from inweights.cli.combine import combine
from inweights.cli.data import data
from inweights.cli.demo import demo
from inweights.cli.evaluate import evaluate
from inweights.cli.export import export
from inweights.cli.families import families
from inweights.cli.fold import fold
from inweights.cli.generate import generate
from inweights.cli.lab import lab
from inweights.cli.patch import patch
from inweights.cli.rows import rows_command
from inweights.cli.trace import trace
from inweights.cli.verify import verify

app = typer.Typer(
    name="inweights",
    help="Context becomes weights: the exact weight update that a prompt makes, computed, proved and shown.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, fold, evaluate, combine, export, generate, verify, patch, trace, anatomy, families, bench):
    app.command()(command)
app.command("rows")(rows_command)
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


NO_MEMORY = ("DefaultCPUAllocator", "out of memory", "Storage size calculation overflowed")


def main() -> None:
    """The entry point: bad input ends with its sentence and exit code 2, never with a traceback."""
    try:
        app()
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    except OSError as error:  # a disk that is full, a folder that is a file
        where = f" {error.filename!r}" if error.filename else ""
        sys.stderr.write(f"A file could not be used{where}: {error.strerror or error}.\n")
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        # torch has no class of its own for memory of the CPU that is not there.
        if not isinstance(error, MemoryError) and not any(said in str(error) for said in NO_MEMORY):
            raise
        sys.stderr.write("There is not enough memory for this: ask for less, e.g. a smaller batch, or fewer prompts.\n")
        sys.exit(2)
