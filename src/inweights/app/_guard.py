"""`Guard`: the checks of every request (Host, Origin, token, size, count), and the headers of every answer."""

from __future__ import annotations

import asyncio
import json
import secrets
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from inweights.app._limits import AT_ONCE, BODY, LINGER, UPLOAD, WAIT
from inweights.app._settings import ServerSettings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LOST = "The token is missing or of an earlier start: open the address that `inweights app` printed."


class Refused(Exception):  # noqa: N818  (an answer, and no error of ours)
    """A request that is not passed on: the status, and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Guard:
    """An ASGI application around another, which gets only requests of this page and of clients with the token."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self.settings, self.busy = app, settings, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        if scope["type"] != "http":
            return None
        with_headers = _adding(send)
        try:
            if self.busy >= AT_ONCE:
                raise Refused(429, "Too many requests at once: try again in a second.")
            self.busy += 1
            try:
                if await self._entered(scope, with_headers):
                    return None
                self.check(scope)
                body = await _body(scope, receive)
                return await self.app(scope, _again(body, receive), with_headers)
            finally:
                self.busy -= 1
        except Refused as refused:
            return await _refuse(receive, with_headers, refused)

    def check(self, scope: Scope) -> None:
        """Raises `Refused` unless the request is one of ours."""
        headers = _headers(scope)
        self._check_host(headers)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            raise Refused(405, "Only GET and POST are answered.")
        origins = headers.get("origin", [])
        allowed = {f"http://{host}" for host in self.settings.hosts}
        if any(origin not in allowed for origin in origins):
            raise Refused(403, "This request comes from another page.")
        if headers.get("sec-fetch-site", ["none"])[0] not in ("same-origin", "none"):
            raise Refused(403, "This request comes from another page.")
        if scope["path"].startswith("/static/"):  # the same files for everyone, and nothing of the user's
            return
        if not self._has_token(headers):
            raise Refused(401, LOST)

    def _check_host(self, headers: dict[str, list[str]]) -> None:
        hosts = headers.get("host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self.settings.hosts:
            raise Refused(400, "This server does not answer to that host name.")

    def _has_token(self, headers: dict[str, list[str]]) -> bool:
        candidates = [h.removeprefix("Bearer ") for h in headers.get("authorization", []) if h.startswith("Bearer ")]
        for line in headers.get("cookie", []):
            try:
                cookies = SimpleCookie(line)
            except CookieError:
                continue
            if self.settings.cookie in cookies:
                candidates.append(cookies[self.settings.cookie].value)
        wanted = self.settings.token.encode()
        return any(secrets.compare_digest(c.encode(), wanted) for c in candidates)

    async def _entered(self, scope: Scope, send: Send) -> bool:
        """Whether this was the first visit, with the token in the address: it becomes a cookie and leaves the address.

        A page elsewhere may link here, but neither knows the token nor reads the answer.
        """
        if scope["path"] != "/" or not scope["query_string"].startswith(b"token="):
            return False
        self._check_host(_headers(scope))
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self.settings.token.encode()):
            raise Refused(401, LOST)
        cookie = f"{self.settings.cookie}={self.settings.token}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return True


def _headers(scope: Scope) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for name, value in scope["headers"]:
        result.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
    return result


async def _body(scope: Scope, receive: Receive) -> bytes:
    """The whole body; refused when it is larger than allowed, whatever its header states, or too slow."""
    limit = UPLOAD if scope["path"] == "/api/upload" else BODY
    sentence = f"The request is larger than {limit // 1024} kB."
    for length in _headers(scope).get("content-length", []):
        if not length.isdecimal() or int(length) > limit:
            raise Refused(413, sentence)
    parts, size, more = [], 0, True
    try:
        async with asyncio.timeout(WAIT):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(400, "The request ended early.")
                parts.append(message.get("body", b""))
                size, more = size + len(parts[-1]), message.get("more_body", False)
                if size > limit:
                    raise Refused(413, sentence)
    except TimeoutError:
        raise Refused(408, "The request took too long to arrive.") from None
    return b"".join(parts)


def _again(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the body that was read, then what comes after it."""
    given = False

    async def once() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return once


def _adding(send: Send) -> Send:
    async def adding(message: Message) -> None:
        if message["type"] == "http.response.start":
            extra = [(k.encode(), v.encode()) for k, v in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *extra]}
        await send(message)

    return adding


async def _refuse(receive: Receive, send: Send, refused: Refused) -> None:
    """Answers, then discards for a short while what the client still sends: closing a connection with unread data
    resets it, and the client would lose the answer."""
    data = json.dumps({"error": refused.sentence}).encode()
    headers: list[tuple[bytes, Any]] = [(b"content-type", b"application/json")]
    headers += [(b"content-length", str(len(data)).encode()), (b"connection", b"close")]
    headers += [(b"retry-after", b"1")] if refused.status == 429 else []
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": data, "more_body": True})
    size, more = 0, True
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER):
            while more and size <= 2 * UPLOAD:
                message = await receive()
                size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.body", "body": b""})
