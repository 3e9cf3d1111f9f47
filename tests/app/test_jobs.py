"""Jobs: the numbers of the library, the queue, cancelling, a server that is killed, and load."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from serving import OVER, PATIENCE, Server

import inweights as iw
from inweights.app._limits import QUEUE
from inweights.bench import load as bench
from inweights.models import step_alignment


def test_a_prompt_gives_the_numbers_of_the_library(server: Server) -> None:
    """Equal up to the six digits that the page is sent; the proof passes, and its control does not."""
    got = server.result(server.prompt(query="Who is it"))
    model = iw.load(server.model, dtype="float64")
    prompt = iw.Prompt(model, context="My name is Bob.", query="Who is it")
    norms = torch.tensor(got["heat"]["norms"], dtype=torch.float64)
    torch.testing.assert_close(norms, iw.trace(prompt).norms, rtol=1e-5, atol=1e-9)
    proof = iw.verify(prompt, iw.patch(prompt))
    assert got["proof"]["verdict"] == proof.verdict == "PASS"
    assert got["proof"]["max_abs_logit_error"] < 1e-9 < 1e-2 < got["proof"]["bare_max_abs_logit_error"]
    assert got["proof"]["bare_max_abs_logit_error"] == pytest.approx(proof.bare_max_abs_logit_error, rel=1e-9)
    texts = iw.generate(prompt, 3)
    assert got["texts"]["texts"]["prompted"] == model.tokenizer.decode(texts.prompted)
    assert got["texts"]["texts"]["patched"] == model.tokenizer.decode(texts.patched)
    assert got["texts"]["texts"]["prompted"] != got["texts"]["texts"]["bare"]


def test_strength_goes_from_bare_to_prompted(server: Server) -> None:
    """At strength 0 the patched model is the bare one; at 1 it is the prompted one."""
    at = {s: server.result(server.prompt(strength=s, new_tokens=8))["texts"]["texts"] for s in (0.0, 1.0)}
    assert at[0.0]["patched"] == at[0.0]["bare"] != at[0.0]["prompted"]
    assert at[1.0]["patched"] == at[1.0]["prompted"]


def test_a_layer_has_the_update_of_the_library(server: Server) -> None:
    got = server.result(server.post("/api/jobs/layer", server.request(layer=1, token=2, query="Who is")))
    prompt = iw.Prompt(iw.load(server.model, dtype="float64"), context="My name is Bob.", query="Who is")
    block = iw.patch(prompt).blocks[1]
    update = block.at(prompt.asked - 1).changes(prompt.model.model).updates[0]
    assert got["norm"] == pytest.approx(float(update.frobenius()), rel=1e-6)
    assert got["report"]["rank"] == 1
    assert all(got["alignment"][i][i] == pytest.approx(1, abs=1e-9) for i in range(prompt.asked))
    assert len(got["spectrum"]) == 3
    alike = step_alignment(prompt, 1)
    assert got["steps"] == pytest.approx(alike[2].tolist(), rel=1e-4, abs=1e-6)
    assert got["steps"] != pytest.approx(alike[3].tolist(), rel=1e-2)
    for wrong in ({"layer": 7}, {"layer": 0, "token": 77}):
        id = server.post("/api/jobs/layer", server.request(**wrong)).json["id"]
        assert "7" in server.over(id)["error"]


def test_events_come_in_order_and_only_once(server: Server) -> None:
    id = server.prompt(new_tokens=5).json["id"]
    server.over(id)
    whole = server.ask(f"/api/jobs/{id}").json
    kinds = [n["what"] for n in whole["news"]]
    assert kinds[:3] == ["tokens", "heat", "proof"]
    assert kinds.count("text") == 15
    assert server.ask(f"/api/jobs/{id}?since=3").json["news"] == whole["news"][3:]


def test_a_full_queue_answers_429_and_every_accepted_job_ends(server: Server) -> None:
    with server.paused():  # or the first ones could be done before the last ones come
        answers = [server.prompt(new_tokens=12) for _ in range(QUEUE + 6)]
    accepted = [a.json["id"] for a in answers if a.status == 202]
    refused = [a for a in answers if a.status == 429]
    assert len(accepted) + len(refused) == len(answers)
    assert refused
    assert refused[0].headers["retry-after"]
    last = server.ask(f"/api/jobs/{accepted[-1]}/cancel", b"{}")
    assert last.json["state"] == "cancelled"  # it waited: at once
    states = [server.over(id)["state"] for id in accepted]
    assert states == ["done"] * (len(accepted) - 1) + ["cancelled"]


def fold(server: Server, method: str = "match", calibration: int = 64) -> str:
    text = "You are Captain Orla of the ship Fenn. Always answer in rough pirate speech."
    request = {"model": server.model, "context": text, "method": method, "calibration": calibration}
    answer = server.post("/api/jobs/fold", request)
    assert answer.status == 202
    return str(answer.json["id"])


def reached(server: Server, id: str, stages: tuple[str, ...]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        view = server.ask(f"/api/jobs/{id}").json
        assert view["state"] not in OVER, view
        if view["progress"].get("stage") in stages:
            return
        time.sleep(0.02)
    raise AssertionError(view)


def test_a_running_job_is_cancelled(server: Server) -> None:
    id = fold(server)
    reached(server, id, ("studying the prompt", "queries", "answers", "fitting the adapter"))
    server.ask(f"/api/jobs/{id}/cancel", b"{}")
    assert server.over(id)["state"] == "cancelled"
    assert not (server.root / "folds" / f"{id}.unfinished").exists()
    assert server.result(server.prompt())["proof"]["verdict"] == "PASS"  # the worker goes on


@pytest.mark.parametrize("cancelled_first", [True, False])
def test_a_cancellation_that_comes_before_the_work_begins_is_not_lost(
    folder: str, tmp_path: Path, cancelled_first: bool
) -> None:
    """Nor does it end the job after it: the worker as the server starts it, all lines there before it reads one."""
    request = {"model": folder, "context": "My name is Bob.", "query": "Who", "new_tokens": 1}
    first, after = ({"kind": "prompt", "id": id, "request": request} for id in ("a", "b"))
    lines = [{"cancel": "a"}, first] if cancelled_first else [first, {"cancel": "a"}]
    command = [sys.executable, "-m", "inweights.app._worker", json.dumps({"root": str(tmp_path), "models": [folder]})]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        worker.stdin.write("".join(json.dumps(line) + "\n" for line in [*lines, after]))
        worker.stdin.flush()
        states = []
        while len(states) < 2:
            message = json.loads(worker.stdout.readline())
            states += [message["state"]] if "state" in message else []
        worker.stdin.close()
    assert states == ["cancelled", "done"]


def test_a_fold_of_a_killed_server_resumes_and_other_work_is_reported(folder: str, tmp_path: Path) -> None:
    server = Server(folder, tmp_path)
    id = fold(server, calibration=8)
    waiting = server.prompt().json["id"]
    reached(server, id, ("fitting the adapter",))
    with server.paused():  # it cannot end before it is killed
        assert {j["id"] for j in server.ask("/api/state").json["jobs"] if j["state"] not in OVER} == {id, waiting}
        server.kill()
    server.start()
    view = server.ask(f"/api/jobs/{id}").json
    assert view["resumed"]
    assert server.ask(f"/api/jobs/{waiting}").json["state"] == "interrupted"
    assert "stopped" in server.ask(f"/api/jobs/{waiting}").json["error"]
    ended = server.over(id)
    assert ended["state"] == "done", ended
    result = server.ask(f"/api/jobs/{id}/result").json
    assert result["resumed"]
    archive = server.ask(f"/api/folds/{id}/adapter.zip")
    assert archive.body[:2] == b"PK"
    server.stop()


def test_fifty_clients_at_once(folder: str) -> None:
    """No answer but 200, 202 and 429, and every accepted job is done; memory is judged by the long run."""
    result = bench("app")(seconds=20, model=folder)
    about = result.rows[0].beside
    assert (about["errors"], about["unfinished"]) == (0, 0), about
    assert about["accepted"] >= 3
    assert [row.name for row in result.rows] == ["memory", "answer", "drawn"]
    assert result.rows[2].ours > 0
    assert about["refused_429"] > 0
    assert result.agrees
