"""Starting the server."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable
from dataclasses import replace

from inweights._errors import InputError
from inweights.app._settings import ServerSettings


def serve(settings: ServerSettings, say: Callable[[str], object], *, browser: bool = True) -> None:
    """Serves the page until it is interrupted; `say` is called with the address, the token in it."""
    import uvicorn

    from inweights.app._server import make_app

    settings = settings.check()
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
        except OSError as error:
            raise InputError(
                f"--port {settings.port} of {settings.host} cannot be used ({error.strerror}): name another --port."
            ) from None
        listening.listen(256)  # from now on requests to the printed address are accepted
        settings = replace(settings, port=listening.getsockname()[1])
        shown = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{shown}:{settings.port}/?token={settings.token}"
        say(address)
        config = uvicorn.Config(
            make_app(settings), log_level="warning", access_log=False, server_header=False, ws="none",
            timeout_graceful_shutdown=2, timeout_keep_alive=30, backlog=256,
        )  # fmt: skip
        if browser:
            webbrowser.open(address)
        uvicorn.Server(config).run(sockets=[listening])
