"""`ServerSettings`: the settings of a server, checked before anything is loaded."""

from __future__ import annotations

import ipaddress
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from inweights._errors import Problems

TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")


def new_token() -> str:
    """A token that cannot be guessed: 192 random bits."""
    return secrets.token_urlsafe(24)


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server.

    - `root`: the one folder that the server writes to and reads names from.
    - `models`: the models that a request may name; nothing else is ever loaded.
    - `host`, `port`: where it listens. Any other host than a loopback address needs a token of the user's own.
    - `token`: what every request must carry; `given` if the user chose it.
    """

    root: Path
    models: tuple[str, ...] = ("smollm2",)
    host: str = "127.0.0.1"
    port: int = 8265
    token: str = ""
    given: bool = False
    compare: Path | None = None

    def check(self) -> ServerSettings:
        """Raises `InputError` with everything that is wrong."""
        problems = Problems()
        problems.unless(bool(self.models), "--model names no model: name at least one.")
        problems.unless(0 <= self.port < 65536, f"--port is {self.port}, but must be between 0 and 65535.")
        problems.unless(
            bool(TOKEN.fullmatch(self.token)), "--token must have 16 to 128 letters, digits, hyphens or underscores."
        )
        problems.unless(
            self.given or is_loopback(self.host),
            f"--host is {self.host!r}, which others can reach: give a --token of at least 16 characters, too.",
        )
        problems.stop()
        return self

    @property
    def cookie(self) -> str:
        """The cookie of this server: cookies are shared by all ports of a host."""
        return f"inweights-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the Host header that are answered."""
        names = {"127.0.0.1", "localhost", "[::1]"} if is_loopback(self.host) else set()
        names.add(f"[{self.host}]" if ":" in self.host else self.host)
        return frozenset(f"{name}:{self.port}" for name in names)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server on `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
