"""`inweights report`: one page of what commands leave in a folder, that loads nothing and repeats their numbers."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from talking import talker

import inweights.app
from inweights.report import POLICY

Run = Callable[..., Any]
RECORDED = Path(inweights.app.__file__).parent / "recorded"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    where = tmp_path_factory.mktemp("tiny")
    made = talker()
    made.model.save_pretrained(where)
    made.tokenizer.save_pretrained(where)
    return "--model", str(where)


class Reader(HTMLParser):
    """The text of a page, and every address that it could load something from."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.tags, self.addresses = "", set[str](), list[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [str(v) for name, v in attrs if name in ("href", "src", "xlink:href", "srcset", "action")]
        assert not [name for name, _ in attrs if name.startswith("on")], "no handler of events"

    def handle_data(self, data: str) -> None:
        self.text += data


def read(folder: Path) -> Reader:
    """The page of a report; what holds for all of them is checked."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    reader = Reader(page)
    assert POLICY in page
    assert "'unsafe-inline'" in POLICY
    assert "script" not in POLICY.replace("default-src 'none'", "")
    assert not reader.tags & {"script", "link", "iframe", "object", "embed"}
    for address in reader.addresses:
        assert address.startswith(("data:image/png;base64,", "#")) or (folder / address).is_file(), address
    assert re.findall(r"url\((?!#)", page) == []
    return reader


def test_a_proof_a_trajectory_and_a_fold_on_one_page(run: Run, tiny: tuple[str, str], tmp_path: Path) -> None:
    texts = ("--context", f"My $name is Bob {HOSTILE}. ", "--query", "I am", *tiny)
    proof = run("verify", *texts, "--json").out
    (tmp_path / "verify.json").write_text(proof)
    assert run("trace", *texts, "--out", tmp_path / "trace.png").code == 0
    queries = tmp_path / "queries.jsonl"
    queries.write_text("".join(json.dumps({"query": f"What is {i} {HOSTILE}?"}) + "\n" for i in range(10)))
    asked = tmp_path / "asked.txt"
    asked.write_text("".join(json.dumps({"query": f"What is {HOSTILE} {i}?", "answer": "9:30"}) + "\n" for i in (1, 2)))
    folded = run("fold", "--context", HOSTILE, "--calibration", queries, "--questions", asked, "--rank", "1", *tiny,
                 "--out", tmp_path / "adapter", "--json").out  # fmt: skip
    (tmp_path / "fold.json").write_text(folded)
    ended = run("report", tmp_path, "--json")
    assert json.loads(ended.out) == {"report": str(tmp_path / "report.html"), "left_out": []}
    page, values = read(tmp_path), json.loads(proof)
    assert f"{values['max_abs_logit_error']:.1e}" in page.text
    assert "PASS" in page.text
    assert json.loads(folded)["verdict"] in page.text
    assert "Which facts are known" in page.text
    assert page.text.count("9:30") == 2
    assert page.tags >= {"svg", "table", "figure"}
    with (tmp_path / "report-trace.csv").open() as file, (tmp_path / "trace.csv").open() as other:
        rows, drawn = list(csv.DictReader(file)), list(csv.DictReader(other))
    assert [(r["token"], round(float(r["norm"]), 5)) for r in rows] == [
        (r["token"], round(float(r["norm"]), 5)) for r in drawn
    ]
    with (tmp_path / "report-fold.csv").open() as file:
        first = next(csv.DictReader(file))
    assert float(first["value"]) == json.loads(folded)["recovered"]
    # Once more, with its own tables in the folder; and of the adapter folder alone.
    assert run("report", tmp_path).out == f"Report: {tmp_path / 'report.html'}\n"
    assert read(tmp_path).text == page.text
    assert run("report", tmp_path / "adapter").code == 0
    assert "recovered, folded" in read(tmp_path / "adapter").text


def test_claims_with_their_figures(run: Run, tmp_path: Path) -> None:
    listed = run("claims", "run", "dherin-theorem", "--quick", "--out", tmp_path, "--json").out
    assert run("report", tmp_path).code == 0
    page = read(tmp_path)
    assert "dherin-theorem" in page.text
    assert (tmp_path / "report-dherin-theorem.csv").is_file()
    (tmp_path / "results.jsonl").unlink()
    (tmp_path / "claims.json").write_text(listed)
    assert run("report", tmp_path).code == 0
    assert "each < 1e-10" in read(tmp_path).text


COMPARED = {
    "setting": {"task": HOSTILE, "model": "m"},
    "accuracy": {"in-context": {"accuracy_labels": [0.5, 0.4, 0.6]}},
    "order_sensitivity": {},
    "token_overlap": {"in-context": {"token_overlap": [0.7, 0.6, 0.8]}},
    "kl": {},
    "curves": {"gd": [{"rate": 0.1, "epoch": e, "token_overlap": 0.3, "accuracy_labels": 0.4} for e in (1, 2)]},
    "verdicts": {"order": {"hypothesis": 1, "verdict": "contradicted", "sentence": "s", "value": 1.0}},
}


def test_a_comparison(run: Run, tmp_path: Path) -> None:
    (tmp_path / "compare-x.json").write_text(json.dumps(COMPARED))
    assert run("report", tmp_path).code == 0
    assert "contradicted" in read(tmp_path).text


def test_a_comparison_shows_all_that_was_measured(run: Run, tmp_path: Path) -> None:
    """Every measure of every side of the committed records, with its interval, and every way of descent."""
    for path in sorted(RECORDED.glob("compare-*.json")):
        record = json.loads(path.read_text())
        (tmp_path / path.name).write_text(path.read_text())
        assert run("report", tmp_path).code == 0
        text = read(tmp_path).text
        cosines = record["overlap_cosine"].values()
        names = ("accuracy", "order_sensitivity", "token_overlap", "kl", "calibration")
        for sides in (*(record[name] for name in names), *cosines):
            for value, *interval in (v for measures in sides.values() for v in measures.values()):
                ends = " [{:.2g},\u00a0{:.2g}]".format(*interval) if interval else ""
                assert f"{value:.3g}{ends}" in text
        rows = (tmp_path / f"report-{path.stem}-curves.csv").read_text().splitlines()
        assert len(rows) == 1 + sum(len(points) for points in record["curves"].values())
        for made in tmp_path.iterdir():
            made.unlink()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (None, "", "There is nothing to report on in"),
        ("notes.json", '{"a": 1}', "There is nothing to report on in"),
        ("table.csv", "a,b\n1,2\n", "There is nothing to report on in"),
        ("v.json", "{", "cannot be read"),
        ("v.json", json.dumps(dict.fromkeys(("max_abs_logit_error", "bare_max_abs_logit_error", "top1_match",
                                             "verdict"), "x")), "is not what the command wrote"),
        ("t.json", '{"tokens": ["a"], "layers": ["0"], "norms": [[1, 2]], "totals": [[1]]}', "of another shape"),
        ("t.json", '{"tokens": [], "layers": [], "norms": [], "totals": []}', "of another shape"),
        ("f.json", '{"fidelity": [], "adapter": "a"}', "without 'sets' or 'verdict'"),
        ("c.json", json.dumps(COMPARED | {"curves": {}}), "no curve of 'token_overlap'"),
        ("inweights.json", '{"format": "other"}', "is not a card"),
        ("results.jsonl", "{}\n", "is damaged"),
    ],
)  # fmt: skip
def test_a_folder_that_no_report_can_be_made_of(
    run: Run, tmp_path: Path, name: str | None, content: str, sentence: str
) -> None:
    if name:
        (tmp_path / name).write_text(content)
    ended = run("report", tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "report.html").exists()


def test_a_malformed_file_is_left_out_and_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "compare-x.json").write_text(json.dumps(COMPARED))
    (tmp_path / "broken.json").write_text("{")
    ended = run("report", tmp_path)
    assert ended.code == 0
    assert ended.err.startswith("Left out: ")
    assert "broken.json" in ended.err
    assert "contradicted" in read(tmp_path).text
    (sentence,) = json.loads(run("report", tmp_path, "--json").out)["left_out"]
    assert "broken.json" in sentence
    (tmp_path / "compare-x.json").unlink()
    assert run("report", tmp_path).code == 2


def test_a_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    ended = run("report", tmp_path / "nowhere")
    assert ended.code == 2
    assert "which is not a folder" in ended.err


def test_the_name_of_a_file_is_no_address(run: Run, tmp_path: Path) -> None:
    grid = {"tokens": ["$x", HOSTILE, "\x1b[31m"], "layers": ["0"], "norms": [[1, 2, 0]], "totals": [[1, 2, 3]]}
    (tmp_path / "javascript:alert(1) #?.json").write_text(json.dumps(grid))
    assert run("report", tmp_path).code == 0
    page = (tmp_path / "report.html").read_text()
    assert 'href="javascript:' not in page
    assert 'href="report-javascript%3Aalert' in page
