"""Readers of files of the user or a cache, one per format: limited in size and in nesting, without numbers that Python
or torch cannot represent. Malformed files are refused before they are parsed, with one sentence.

Every sentence is `WHAT 'PATH' cannot be read, REASON: FIX.`, where `what` names the option or the kind of the file.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inweights._errors import InputError, shown

CONFIG_LIMIT = 1 << 20
"""Bytes of a configuration or a card: PEFT and transformers write some KiB, with the name of every layer some 100."""
TOML_LIMIT = 1 << 16
"""Bytes of a recipe: the largest of the package has half a KiB."""
LINES_LIMIT = 16 << 20
"""Bytes of a file of JSON lines: fifty thousand queries of 300 characters."""
CACHE_LIMIT = 64 << 20
"""Bytes of a result in a cache: one with a figure of a million points, as this package writes it."""
TEXT_LIMIT = 16 << 20
"""Bytes of a text: some four million tokens, above every context window."""
MAX_LINES = 50_000
"""JSON lines of a file: each query costs at least one forward pass."""
MAX_DEPTH = 64
"""Levels of nesting: files of this package have up to 8, and Python's parsers fail near 1,000."""
MAX_DIGITS = 308
"""Digits of an integer: with one more it may exceed every float. (Tokenizers do write 10^30 for "no limit".)"""

FIX = "write it again, or name another file"


class MalformedError(ValueError):
    """Why a file cannot be read; the message ends a sentence."""


def read_bytes(path: Path, what: str, limit: int, fix: str, *, pipes: bool = False) -> bytes:
    """The bytes of a file, at most `limit`; a pipe, which may never end, only where it is allowed."""
    with _refusal(f"{what} {str(path)!r}", fix):
        try:
            if not pipes and not path.is_file():
                if not path.exists():
                    raise FileNotFoundError
                raise MalformedError("it is not a file")
            with path.open("rb") as file:
                data = file.read(limit + 1)
        except FileNotFoundError:
            raise InputError(f"{what} {str(path)!r} cannot be read, there is no such file: check its name.") from None
        except OSError as error:
            raise MalformedError(f"the system refuses it ({error.strerror or error})") from None
        if len(data) > limit:
            raise MalformedError(f"it is larger than {limit} bytes, the limit for such a file")
    return data


def read_text(path: Path, what: str, *, limit: int = TEXT_LIMIT, fix: str = FIX) -> str:
    """The text of a UTF-8 file, or of a pipe; without a byte order mark, with plain line ends."""
    data = read_bytes(path, what, limit, fix, pipes=True)
    with _refusal(f"{what} {str(path)!r}", fix):
        text = _decoded(data.removeprefix(b"\xef\xbb\xbf"))
        if "\0" in text:
            raise MalformedError("it is not text (it holds a NUL character)")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(
    path: Path, what: str, *, limit: int = CONFIG_LIMIT, fix: str = FIX, finite: bool = True
) -> dict[str, Any]:
    """The JSON object of a file; without `finite`, NaN and Infinity are numbers."""
    return parse_json(read_bytes(path, what, limit, fix), f"{what} {str(path)!r}", fix=fix, finite=finite)


def read_json_lines(
    path: Path, what: str, *, limit: int = LINES_LIMIT, fix: str = FIX
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of a file, one a line, with the number of their line; each is checked when it is requested."""
    return parse_json_lines(read_bytes(path, what, limit, fix), f"{what} {str(path)!r}", fix=fix)


def read_toml(path: Path, what: str, *, limit: int = TOML_LIMIT, fix: str = FIX) -> dict[str, Any]:
    """The table of a TOML file."""
    return parse_toml(read_bytes(path, what, limit, fix), f"{what} {str(path)!r}", fix=fix)


def parse_json(data: bytes | str, named: str, *, fix: str = FIX, finite: bool = True) -> dict[str, Any]:
    """The JSON object of a text inside another file; `named` begins the sentence of a refusal."""
    with _refusal(named, fix):
        value = _json(data.encode(errors="surrogatepass") if isinstance(data, str) else data, finite)
        if not isinstance(value, dict):
            raise MalformedError(f"it holds {_kind(value)} instead of a JSON object")
    return value


def parse_json_array(data: str, named: str, *, fix: str = FIX) -> list[Any]:
    """As `parse_json`, of a text that holds a JSON array."""
    with _refusal(named, fix):
        value = _json(data.encode(errors="surrogatepass"), finite=True)
        if not isinstance(value, list):
            raise MalformedError("it holds no JSON array")
        if len(value) > MAX_LINES:
            raise MalformedError(f"it has {len(value)} entries, above {MAX_LINES}")
    return value


def parse_json_lines(data: bytes | str, named: str, *, fix: str = FIX) -> Iterator[tuple[int, dict[str, Any]]]:
    """As `read_json_lines`, of a text."""
    lines = (data.encode(errors="surrogatepass") if isinstance(data, str) else data).split(b"\n")
    with _refusal(named, fix):
        if len(lines) > MAX_LINES:
            raise MalformedError(f"it has {len(lines)} lines, above {MAX_LINES}")
    return (
        (number, parse_json(line, f"Line {number} of {inside(named)}", fix=fix))
        for number, line in enumerate(lines, 1)
        if line.strip()
    )


def inside(named: str) -> str:
    """The name of a file in the middle of a sentence."""
    return "the " + named.removeprefix("The ") if named.startswith("The ") else named


def parse_toml(data: bytes | str, named: str, *, fix: str = FIX, finite: bool = True) -> dict[str, Any]:
    """As `read_toml`, of a text; without `finite`, inf and nan are numbers, and so is 1e400."""
    with _refusal(named, fix):
        return _toml(data.encode(errors="surrogatepass") if isinstance(data, str) else data, finite)


@contextmanager
def _refusal(named: str, fix: str) -> Iterator[None]:
    """Turns a `MalformedError` into the sentence of an `InputError`."""
    try:
        yield
    except MalformedError as error:
        raise InputError(f"{named} cannot be read, {error}: {fix}.") from None


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"it is not UTF-8 text (byte {error.start})") from None


def _plain(data: bytes) -> str:
    """The text of a file of JSON or TOML, neither of which begins with a byte order mark."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise MalformedError("it begins with a byte order mark, which UTF-8 does not need")
    text = _decoded(data)
    if not text.strip():
        raise MalformedError("it is empty")
    return text


_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # one that does not end goes to the end: linear
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _check_brackets(data: bytes) -> None:
    """Refuses brackets in brackets in brackets, in what is left of a file without its strings."""
    level = 0
    for char in data.translate(None, _NO_BRACKETS):
        if char in b"[{":
            level += 1
            if level > MAX_DEPTH:
                raise _too_deep()
        elif level:
            level -= 1


def _too_deep() -> MalformedError:
    return MalformedError(f"it is nested more than {MAX_DEPTH} levels deep")


def _json(data: bytes, finite: bool) -> Any:
    text = _plain(data)
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        _check_brackets(_JSON_STRING.sub(b"", data))
    try:
        value = (_FINITE if finite else _ANY).decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if "\n" in text else ""
        raise MalformedError(f"{line}column {error.colno} is not JSON ({error.msg})") from None
    if b"\\ud" in data.lower():  # half of a pair of escapes is a character that no file and no tokenizer takes
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise MalformedError("it holds half a character (a lone surrogate)") from None
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise MalformedError(f"it holds an integer of {len(text)} digits, above {MAX_DIGITS}")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise MalformedError(f"it holds {shown(text)}, a number larger than every float")
    return value


def _no_constant(text: str) -> float:
    raise MalformedError(f"it holds {text}, which is not a number of JSON")


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key with two values would mean one thing here and another elsewhere."""
    results: dict[str, Any] = {}
    for key, value in pairs:
        if key in results and results[key] != value:
            raise MalformedError(f"it has the key {shown(key)} twice, with different values")
        results[key] = value
    return results


_ANY = json.JSONDecoder(parse_int=_integer, object_pairs_hook=_without_twins)
_FINITE = json.JSONDecoder(
    parse_int=_integer, parse_float=_finite, parse_constant=_no_constant, object_pairs_hook=_without_twins
)

_TOML_STRING = re.compile(
    rb'"""(?:[^\\]|\\.)*?(?:"""|\Z)|' + rb"'''.*?(?:'''|\Z)|" + rb'"(?:[^"\\\n]|\\.)*"?|' + rb"'[^'\n]*'?|#[^\n]*",
    re.DOTALL,
)
_TOML_KEY = re.compile(rb"[\w-]+(?:[ \t]*\.[ \t]*[\w-]+)*")


def _toml(data: bytes, finite: bool) -> dict[str, Any]:
    text = _plain(data)
    bare = _TOML_STRING.sub(lambda result: b"" if result[0].startswith(b"#") else b"s", data)
    _check_brackets(bare)
    # Each part of a key is a level, and the time that Python's parser takes grows with the square of their number.
    if any(key.count(b".") >= MAX_DEPTH for key in _TOML_KEY.findall(bare)):
        raise _too_deep()
    try:
        value = tomllib.loads(text, parse_float=_finite if finite else float)
        _check_values(value)
    except RecursionError:
        raise _too_deep() from None
    except tomllib.TOMLDecodeError as error:
        raise MalformedError(f"it is not TOML ({error})") from None
    except ValueError as error:
        if isinstance(error, MalformedError):
            raise
        # An integer beyond Python's limit of digits, or a date that is none.
        raise MalformedError(f"one of its values is not valid ({str(error).partition(';')[0]})") from None
    return value


def _check_values(value: dict[str, Any]) -> None:
    """Refuses what TOML has and no file of this package: dates; and integers of more than 64 bits, which it has not."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH + 1):
        if not level:
            return
        for one in level:
            if isinstance(one, datetime.date | datetime.time):
                raise MalformedError(f"it holds the date or time {one}, where a number, a text or a list belongs")
            if isinstance(one, int) and not -(2**63) <= one < 2**63:
                raise MalformedError("it holds an integer of more than 64 bits")
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    raise _too_deep()


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")
