"""What the server does not answer, and what it makes harmless."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from serving import TOKEN, Server

from inweights._errors import InputError
from inweights.app import ServerSettings, new_token
from inweights.app._limits import BODY, UPLOAD
from inweights.app._names import under


def test_a_request_with_the_token_is_answered(server: Server) -> None:
    """The control of all refusals below."""
    answer = server.ask("/api/state")
    assert answer.status == 200
    assert answer.json["models"] == [server.model]
    assert "'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1.evil.example:{port}"]
)
def test_a_foreign_host_is_refused(server: Server, host: str) -> None:
    assert server.ask("/api/state", Host=host.format(port=server.port)).status == 400
    assert server.ask("/static/style.css", Host=host.format(port=server.port)).status == 400
    assert server.ask(f"/?token={TOKEN}", Host=host.format(port=server.port)).status == 400


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_a_foreign_origin_is_refused(server: Server, origin: str) -> None:
    assert server.post("/api/jobs/prompt", {}, Origin=origin.format(port=server.port)).status == 403
    assert server.ask("/api/state", Origin=origin.format(port=server.port)).status == 403


def test_the_own_origin_is_answered_and_another_site_is_not(server: Server) -> None:
    assert server.ask("/api/state", Origin=server.address).status == 200
    assert server.ask("/api/state", Sec_Fetch_Site="cross-site").status == 403
    assert "access-control-allow-origin" not in server.ask("/api/state", Origin=server.address).headers


@pytest.mark.parametrize("token", ["", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", "Bearer é"])
def test_without_the_token_nothing_is_answered(server: Server, token: str) -> None:
    for path in ("/", "/api/state", "/api/folds", "/api/ledger", "/nothing"):
        assert server.ask(path, Authorization=token.encode().decode("latin-1")).status == 401


def test_the_token_of_the_address_becomes_a_cookie(server: Server) -> None:
    answer = server.ask(f"/?token={TOKEN}", Authorization="")
    assert (answer.status, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    pair = cookie.partition(";")[0]
    assert server.ask("/api/state", Authorization="", Cookie=pair).status == 200
    assert server.ask("/api/state", Authorization="", Cookie=pair + "x").status == 401
    assert server.ask("/?token=wrong", Authorization="").status == 401


def test_an_oversize_body_is_refused(server: Server) -> None:
    assert server.ask("/api/jobs/prompt", b" " * (BODY + 1)).status == 413
    assert server.ask("/api/jobs/prompt", b"", "POST", Content_Length=str(10**15)).status == 413
    assert server.ask("/api/upload?name=a.txt", b" " * (UPLOAD + 1)).status == 413
    chunks = (
        b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [b"x" * 65536] * (BODY // 65536 + 1)) + b"0\r\n\r\n"
    )
    sent = server.ask("/api/jobs/prompt", chunks, Content_Length="", Transfer_Encoding="chunked")
    assert sent.status == 413


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"", 400),
        (b"\xff\xfe", 400),
        (b"[" * 5000, 400),
        (b"[]", 422),
        (b"null", 422),
        (b'{"a": NaN}', 400),
    ],
)
def test_malformed_json_is_refused_in_a_sentence(server: Server, body: bytes, status: int) -> None:
    answer = server.ask("/api/jobs/prompt", body)
    assert answer.status in (status, 422)
    assert 400 <= answer.status < 500
    assert answer.json["error"]


@pytest.mark.parametrize(
    "change",
    [
        {"model": "owner/other"}, {"model": "/etc"}, {"context": ""}, {"new_tokens": 65},
        {"new_tokens": "many"}, {"strength": 3}, {"more": 1}, {"dtype": "bfloat16"}, {"url": "http://evil.example/"},
        {"fold": "../jobs"},
    ],
)  # fmt: skip
def test_requests_outside_the_limits_are_refused(server: Server, change: dict[str, object]) -> None:
    answer = server.prompt(**change)
    assert answer.status in (404, 422)
    assert answer.json["error"]


def test_what_is_too_long_is_refused_as_such(server: Server) -> None:
    assert server.prompt(context="x" * 12_001).status == server.prompt(query="x" * 2001).status == 413
    fold = {"model": server.model, "context": "x", "questions": [{"query": "x", "answer": "x"}]}
    assert server.post("/api/jobs/fold", {**fold, "questions": 65 * fold["questions"]}).status == 413
    assert server.post("/api/jobs/fold", {**fold, "questions": [{"query": "x", "answer": ""}]}).status == 422
    assert (
        server.post("/api/jobs/chat", {"fold": "x", "query": "x", "bare": [{"query": "x", "answer": "x"}] * 9}).status
        == 413
    )


@pytest.mark.parametrize(
    "path",
    [
        "/static/../_server.py", "/static/..%2f_server.py", "/static/%2e%2e/_server.py", "/static//etc/passwd",
        "/api/folds/..%2f..%2fjobs/adapter.zip", "/api/jobs/..%2f..%2fetc/result", "/static/.hidden", "/static/a%00.js",
        "/api/folds/%2e%2e/adapter.zip",
    ],
)  # fmt: skip
def test_no_path_leads_out(server: Server, path: str) -> None:
    answer = server.ask(path)
    assert answer.status in (404, 405)
    assert b"root:" not in answer.body


def test_names_are_resolved_under_one_root(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.js").write_text("a")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    assert under(tmp_path / "in", "a.js") is not None
    for name in ("../secret", "link", "/etc/passwd", "", ".", "..", "a.js/", "a\0.js", "x" * 65):
        assert under(tmp_path / "in", name) is None


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(server: Server, method: str) -> None:
    assert server.ask("/api/state", method=method).status == 405


def test_text_and_markdown_are_returned_as_they_are(server: Server) -> None:
    """Markup stays text; characters that control a terminal or turn the direction of writing are dropped."""
    text = "# Title\n<script>alert(1)</script> [a](javascript:alert(1)) <img src=x onerror=alert(1)>"
    answer = server.ask("/api/upload?name=a.md", (text + "\x1b[2J\u202e\x00").encode())
    assert (answer.status, answer.json["text"]) == (200, text + "[2J")
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("name", "data", "status"),
    [
        ("a.exe", b"MZ", 415), ("a", b"a", 415), ("a.txt", b"", 422), ("a.txt", b"\xff\xff", 422),
        ("a.txt", b"x" * 60_001, 413), ("a.html", b"<b>", 415), ("../../a.txt", b" \n ", 422),
    ],
)  # fmt: skip
def test_documents_that_cannot_be_read_are_refused(server: Server, name: str, data: bytes, status: int) -> None:
    answer = server.ask(f"/api/upload?name={name}", data)
    assert answer.status == status
    assert answer.json["error"]


BOMB = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[2 0 R]/Count 99999999>>endobj\n"
)
BOMB += b"trailer<</Root 1 0 R>>\n%%EOF"


@pytest.mark.parametrize("data", [b"%PDF-1.7 nothing", b"\x00" * 100, BOMB], ids=["empty", "zeros", "loop"])
def test_a_hostile_pdf_is_refused(server: Server, data: bytes) -> None:
    """In a process of its own; the server goes on."""
    answer = server.ask("/api/upload?name=a.pdf", data)
    assert answer.status == (422 if find_spec("pypdf") else 415)
    assert server.ask("/api/state").status == 200


def test_the_process_that_reads_documents_has_limits(tmp_path: Path) -> None:
    """It can neither take more memory than allowed nor write a file."""
    code = "import inweights.app._parse as p\np.limit()\n"
    memory = subprocess.run([sys.executable, "-c", code + "bytearray(2 << 30)"], capture_output=True, check=False)
    assert b"MemoryError" in memory.stderr
    inside = subprocess.run([sys.executable, "-c", code + "bytearray(1 << 20)"], capture_output=True, check=False)
    assert inside.returncode == 0
    writing = code + f"import os\nos.write(os.open({str(tmp_path / 'new')!r}, os.O_CREAT | os.O_WRONLY), b'x')"
    assert subprocess.run([sys.executable, "-c", writing], capture_output=True, check=False).returncode != 0


def test_another_host_needs_a_token_of_the_users_own(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--token"):
        ServerSettings(root=tmp_path, host="0.0.0.0", token=new_token()).check()
    with pytest.raises(InputError, match="16"):
        ServerSettings(root=tmp_path, host="0.0.0.0", token="short", given=True).check()
    assert ServerSettings(root=tmp_path, host="0.0.0.0", token="x" * 16, given=True).check().hosts == {"0.0.0.0:8265"}
    assert new_token() != new_token()


def test_nothing_of_the_page_is_inline_or_from_elsewhere() -> None:
    static = Path(sys.modules["inweights.app"].__file__ or "").parent / "static"
    for path in static.iterdir():
        text = path.read_text()
        outside = [w for w in ("https://", "http://", "//cdn") if w in text.replace("http://www.w3.org/2000/svg", "")]
        assert outside == [], path
        assert "innerHTML" not in text, path
        assert "insertAdjacentHTML" not in text, path
    index = (static / "index.html").read_text()
    assert " style=" not in index
    assert " onclick=" not in index
    assert json.dumps(index).count("<script") == 1
