"""`inweights app`: the web page, on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from inweights.cli._output import say


def app_command(
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.")] = 8265,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    model: Annotated[
        list[str] | None,
        typer.Option(help="A model that the page may use; repeatable. The default is smollm2.", metavar="NAME"),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to serve at; other than loopback needs --token.")
    ] = "127.0.0.1",
    token: Annotated[str, typer.Option(help="The token that requests need; by default a new one at each start.")] = "",
    folder: Annotated[
        Path | None, typer.Option(help="Where jobs and adapters are kept; by default in the cache.", file_okay=False)
    ] = None,
    compare: Annotated[Path | None, typer.Option(help="A folder of `compare --out` to show.", file_okay=False)] = None,
) -> None:
    """Open the web page: prompts to weights, folds, trajectories, the ledger, on models of this machine."""
    from inweights._fetch import cache
    from inweights._files import folder_for, locked
    from inweights.app import ServerSettings, new_token, serve

    root = folder_for("--folder", folder or cache() / "app")
    settings = ServerSettings(
        root=root.resolve(), models=tuple(model or ["smollm2"]), host=host, port=port, token=token or new_token(),
        given=bool(token), compare=compare,
    )  # fmt: skip
    with locked(root, otherwise="the page is being served already from there: open its address, or give --folder and "
                "--port for a second one"):  # fmt: skip
        serve(settings.check(), lambda address: say(f"inweights is at {address}\nCtrl-C ends it."), browser=browser)
