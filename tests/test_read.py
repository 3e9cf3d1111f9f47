"""The readers: malformed files are refused within a second and with a reason, valid files are read, and no input makes
them raise anything but `InputError`."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inweights import InputError
from inweights import _read as reading
from inweights._errors import LISTED, SHOWN, Problems, shown
from inweights._read import parse_json, parse_json_lines, parse_toml, read_json, read_json_lines, read_text, read_toml

BOM = b"\xef\xbb\xbf"
DEEP = "nested more than 64 levels deep"
LINES = reading.MAX_LINES

JSON: dict[str, tuple[bytes, str]] = {
    "lists": (b"[" * 10**5, DEEP),
    "objects": (b'{"a":' * 10**5, DEEP),
    "whole lists": (b"[" * 10**5 + b"]" * 10**5, DEEP),
    "one level too many": (b'{"a":' + b"[" * 64 + b"]" * 64 + b"}", DEEP),
    "brackets that end too soon": (b"]" * 10**3 + b"[" * 10**5, DEEP),
    "10^400": (b'{"a": 1' + b"0" * 400 + b"}", "an integer of 401 digits, above 308"),
    "a million digits": (b'{"a": ' + b"9" * 10**6 + b"}", "an integer of 1000000 digits"),
    "1e400": (b'{"a": 1e400}', "'1e400', a number larger than every float"),
    "-1e400": (b'{"a": -1e400}', "'-1e400', a number larger than every float"),
    "NaN": (b'{"a": NaN}', "NaN, which is not a number of JSON"),
    "Infinity": (b'{"a": [-Infinity]}', "-Infinity, which is not a number of JSON"),
    "a list": (b"[1]", "a list instead of a JSON object"),
    "a text": (b'"a"', "a text instead of a JSON object"),
    "a number": (b"7", "a number instead of a JSON object"),
    "null": (b"null", "null instead of a JSON object"),
    "two values": (b'{"a": 1, "a": 2}', "the key 'a' twice"),
    "half a character": (rb'{"a": "\ud800"}', "half a character"),
    "not UTF-8": (b'{"a": "\xff"}', r"not UTF-8 text \(byte 7\)"),
    "UTF-16": ('{"a": 1}'.encode("utf-16"), "not UTF-8 text"),
    "a byte order mark": (BOM + b"{}", "a byte order mark"),
    "empty": (b"", "it is empty"),
    "blank": (b" \n ", "it is empty"),
    "cut off": (b'{"a": [1, 2', "column 12 is not JSON"),
    "a second line": (b'{"a": 1,\n "b": x}', "line 2, column 7 is not JSON"),
    "a string without end": (b'"' + rb"\"" * (1 << 18), "is not JSON"),
    "quotes": (b'"' * (1 << 20), "is not JSON"),
    "too large": (b" " * (1 << 21), "larger than 1048576 bytes"),
}  # fmt: skip
TOML: dict[str, tuple[bytes, str]] = {
    "lists": (b"a = " + b"[" * 60_000, DEEP),
    "tables": (b"a = " + b"{a = " * 10_000, DEEP),
    "a long key": (b"a." * 30_000 + b"a = 1", DEEP),
    "a long header": (b"[" + b"a." * 30_000 + b"a]", DEEP),
    "a long key of texts": (b'"a b" . ' * 8_000 + b"a = 1", DEEP),
    "keys in tables": (b"a.a.a.a.a.a = {" * 20 + b"a = 1" + b"}" * 20, DEEP),
    "10^400": (b"a = 1" + b"0" * 400, "an integer of more than 64 bits"),
    "many digits": (b"a = " + b"9" * 50_000, "Exceeds the limit"),
    "1e400": (b"a = 1e400", "'1e400', a number larger than every float"),
    "inf": (b"a = inf", "'inf', a number larger"),
    "nan": (b"a = [nan]", "'nan', a number larger"),
    "a date": (b"a = 1979-05-27", "the date or time 1979-05-27"),
    "a key twice": (b"a = 1\na = 2", "Cannot overwrite a value"),
    "not UTF-8": (b"a = '\xff'", "not UTF-8 text"),
    "a byte order mark": (BOM + b"a = 1", "a byte order mark"),
    "empty": (b"", "it is empty"),
    "cut off": (b"a = [1,", "it is not TOML"),
    "too large": (b"#" * (1 << 17), "larger than 65536 bytes"),
}  # fmt: skip
TEXT: dict[str, tuple[bytes, str]] = {
    "not UTF-8": (b"caf\xe9", r"not UTF-8 text \(byte 3\)"),
    "binary": (b"a\0b", "a NUL character"),
    "too large": (b"a" * ((16 << 20) + 1), "larger than 16777216 bytes"),
}
JSON_LINES: dict[str, tuple[bytes, str]] = {
    "a list": (b'{"a": 1}\n[]', r"^Line 2 of WHAT .* a list instead"),
    "deep": (b"{}\n\n" + b"[" * 10**5, rf"^Line 3 of WHAT .* {DEEP}"),
    "the last of many": (b'{"a": "b"}\n' * (LINES - 2) + b"x", f"^Line {LINES - 1} of .* column 1 is not JSON"),
    "a million": (b"{}\n" * 10**6, f"1000001 lines, above {LINES}"),
    "too large": (b" " * ((16 << 20) + 1), "larger than 16777216 bytes"),
}

Reader = Callable[[Path, str], Any]


def lines(path: Path, what: str) -> list[Any]:
    return list(read_json_lines(path, what))


READERS: dict[str, tuple[Reader, dict[str, tuple[bytes, str]]]] = {
    "json": (read_json, JSON),
    "toml": (read_toml, TOML),
    "text": (read_text, TEXT),
    "lines": (lines, JSON_LINES),
}
CASES = [(kind, name) for kind, (_, table) in READERS.items() for name in table]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_what_is_malformed_is_refused_in_linear_time(kind: str, name: str, tmp_path: Path) -> None:
    reader, table = READERS[kind]
    data, reason = table[name]
    path = tmp_path / "file"
    path.write_bytes(data)
    start = time.process_time()
    with pytest.raises(InputError, match=reason) as error:
        reader(path, "WHAT")
    assert time.process_time() - start < 10  # more than quadratic work on these sizes takes minutes
    sentence = str(error.value)
    assert f"WHAT {str(path)!r} cannot be read, " in sentence
    assert sentence.endswith(": write it again, or name another file.")
    assert "\n" not in sentence
    assert len(sentence) < 400 + len(str(path))


def test_what_is_sound_is_read(tmp_path: Path) -> None:
    """The same files without their defects."""
    path = tmp_path / "file"
    nested: Any = 1
    for _ in range(reading.MAX_DEPTH - 1):
        nested = [nested]
    value = {"a": nested, "big": 10**30, "text": "[" * 10**5 + '\\"{', "half": "\U0001f600", "e": -1.5e300}
    path.write_text(json.dumps(value))
    assert read_json(path, "WHAT") == value
    path.write_bytes(b'{"a": 1, "a": 1}')
    assert read_json(path, "WHAT") == {"a": 1}
    path.write_bytes(b'{"a": NaN, "b": 1e400}')
    assert read_json(path, "WHAT", finite=False)["b"] == float("inf")
    path.write_text('# [[[[\na = \'[[[\'\nb.c = [1.5, 2.5, 3.5]\n[d.e]\nf = """\n[[[\\""""""\n')
    assert read_toml(path, "WHAT") == {"a": "[[[", "b": {"c": [1.5, 2.5, 3.5]}, "d": {"e": {"f": '[[["""'}}}
    path.write_bytes(b'{"a": 1}\r\n\n{"b": 2}')
    assert lines(path, "WHAT") == [(1, {"a": 1}), (3, {"b": 2})]
    path.write_bytes(BOM + "é\r\nb\rc".encode())
    assert read_text(path, "WHAT") == "é\nb\nc"


def test_what_is_no_file(tmp_path: Path) -> None:
    for reader, _ in READERS.values():
        with pytest.raises(InputError, match="there is no such file"):
            reader(tmp_path / "none", "WHAT")
        with pytest.raises(InputError, match=r"it is not a file|Is a directory"):
            reader(tmp_path, "WHAT")
    os.mkfifo(tmp_path / "pipe")  # would wait for ever
    with pytest.raises(InputError, match="it is not a file"):
        read_json(tmp_path / "pipe", "WHAT")


def test_a_text_may_come_from_a_pipe() -> None:
    end, begin = os.pipe()
    os.write(begin, b"from a pipe")
    os.close(begin)
    assert read_text(Path(f"/dev/fd/{end}"), "WHAT") == "from a pipe"
    os.close(end)


def test_lines_are_checked_one_by_one() -> None:
    """A caller that refuses the first line does not wait for the others."""
    result = parse_json_lines(b'{"a": 1}\n' + b"[" * 1000, "WHAT")
    assert next(result) == (1, {"a": 1})
    with pytest.raises(InputError, match=DEEP):
        next(result)


PIECES = [b'{"a": ', b"}", b"[", b"]", b'"', b"\\", b"\\ud800", b"1e999", b"NaN", b"9" * 400, b"a.a.a", b" = ", b"\n",
          b"'''", b'"""', b"#", b",", b"\xff", BOM, b"1979-05-27", b"0x", b"-", b"\0", b"{}", b"true"]  # fmt: skip
noise = st.binary(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join)


@given(noise)
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for parse in (parse_json, parse_toml, lambda d, what: list(parse_json_lines(d, what))):
        for content in (data, data.decode(errors="surrogateescape")):
            try:
                parse(content, "WHAT")
            except InputError as error:
                assert "cannot be read, " in str(error)  # noqa: PT017


SOUND = {
    parse_json: json.dumps({"r": 4, "alpha": 1.5, "of": ["é", {"b": None}], "on": True}).encode(),
    parse_toml: b"steps = 10\nrate = 1e-3\n[task]\nkind = 'linear'\nlist = [1, 2]\n",
}


@given(st.sampled_from(sorted(SOUND, key=str)), st.data())
def test_no_change_of_a_sound_file_raises_anything_else(parse: Callable[..., Any], data: st.DataObject) -> None:
    sound = SOUND[parse]
    at = data.draw(st.integers(0, len(sound)))
    changed = sound[:at] + data.draw(noise) + sound[at + data.draw(st.integers(0, 5)) :]
    try:
        assert isinstance(parse(changed, "WHAT"), dict)
    except InputError as error:
        assert "cannot be read, " in str(error)  # noqa: PT017


def test_long_values_and_many_problems_are_cut() -> None:
    assert shown("x") == "'x'"
    assert len(shown("x" * 10**6)) == len(shown(list(range(10**6)))) == SHOWN + 1
    problems = Problems()
    for i in range(1000):
        problems.unless(False, f"Problem {i}.")
    with pytest.raises(InputError) as error:
        problems.stop()
    assert str(error.value).splitlines()[LISTED - 1 :] == [f"Problem {LISTED - 1}.", f"And {1000 - LISTED} more."]
