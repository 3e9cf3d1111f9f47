"""Models from a hub, here a small server on this machine with the hub's own addresses."""

from __future__ import annotations

import hashlib
import json
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from huggingface_hub import constants

from inweights import InputError
from inweights.models import Prompt, load, patch, to_peft
from inweights.models._tiny import tiny

SHA = "0123456789abcdef0123456789abcdef01234567"
REPO = "owner/name"
DOWN = "model.layers.1.mlp.down_proj.weight"


@dataclass
class Hub:
    """What the server serves, and the files that it was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    card: dict[str, Any] = field(default_factory=lambda: {"license": "apache-2.0"})
    gated: bool = False
    lost: set[str] = field(default_factory=set)
    sent: list[str] = field(default_factory=list)
    sha: str = SHA

    def info(self) -> bytes:
        listed = [{"rfilename": name, "size": len(content)} for name, content in self.files.items()]
        return json.dumps({"id": REPO, "sha": self.sha, "siblings": listed, "cardData": self.card}).encode()


def handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def answer(self, status: int, content: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == f"/api/models/{REPO}/revision/main":
                return self.answer(200, hub.info(), Content_Type="application/json")
            name = path.removeprefix(f"/{REPO}/resolve/{hub.sha}/")
            if not path.startswith(f"/{REPO}/"):
                return self.answer(404, b"", X_Error_Code="RepoNotFound")
            if hub.gated:
                return self.answer(403, b"", X_Error_Code="GatedRepo")
            if name not in hub.files or name in hub.lost:
                return self.answer(404, b"", X_Error_Code="EntryNotFound")
            content = hub.files[name]
            if self.command == "GET":
                hub.sent.append(name)
            tag = hashlib.sha256(content).hexdigest()
            return self.answer(200, content, ETag=f'"{tag}"', X_Repo_Commit=hub.sha)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one whole model."""
    folder = tmp_path / "served"
    tiny("llama").float().save_pretrained(folder)
    served = Hub({p.name: p.read_bytes() for p in folder.iterdir()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(served))
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    use(monkeypatch, f"http://127.0.0.1:{server.server_port}", tmp_path / "hub")
    yield served
    server.shutdown()
    server.server_close()


def use(monkeypatch: pytest.MonkeyPatch, address: str, cache: Path) -> None:
    """Lets huggingface_hub, which reads its environment when it is imported, talk to this address."""
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def settings(hub: Hub, name: str = "config.json", **values: Any) -> None:
    hub.files[name] = json.dumps({**json.loads(hub.files.get(name, b"{}")), **values}).encode()


def test_a_model_of_the_hub_knows_its_revision(hub: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    of = load(REPO)
    assert (of.name, of.revision, Path(of.path).name) == (REPO, SHA, SHA)
    assert torch.equal(of.model.get_parameter(DOWN), tiny("llama").float().get_parameter(DOWN))
    out, err = capfd.readouterr()
    size = len(hub.files["model.safetensors"]) / 1e6
    assert err == f"Downloading {REPO} at revision {SHA[:12]} from the hub: {size:.1f} MB, licence: apache-2.0.\n"
    assert out == ""


def test_what_is_there_is_not_downloaded_or_announced_again(hub: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    load(REPO)
    hub.sent.clear()
    capfd.readouterr()
    assert load(REPO).revision == SHA
    assert hub.sent == []
    assert capfd.readouterr().err == ""


def test_a_new_revision_is_a_new_model(hub: Hub) -> None:
    load(REPO)
    hub.sha = SHA[::-1]
    assert load(REPO).revision == SHA[::-1]


def test_only_what_a_model_needs_is_downloaded(hub: Hub) -> None:
    hub.files |= dict.fromkeys(("pytorch_model.bin", "train.py", "onnx/model.onnx", "original/tokenizer.model"), b"x")
    hub.files |= dict.fromkeys(("README.md", "consolidated.safetensors"), b"x")
    load(REPO)
    assert sorted(hub.sent) == ["config.json", "generation_config.json", "model.safetensors"]


def test_a_licence_that_is_not_stated_is_called_so(hub: Hub, capfd: pytest.CaptureFixture[str]) -> None:
    hub.card = {}
    load(REPO)
    assert "licence: not stated." in capfd.readouterr().err


def test_shards_are_downloaded_by_their_index(hub: Hub, tmp_path: Path) -> None:
    tiny("llama").float().save_pretrained(tmp_path / "shards", max_shard_size="40KB")
    hub.files = {p.name: p.read_bytes() for p in (tmp_path / "shards").iterdir()}
    hub.files["model-unused.safetensors"] = b"x"
    of = load(REPO)
    assert torch.equal(of.model.get_parameter(DOWN), tiny("llama").float().get_parameter(DOWN))
    assert "model-unused.safetensors" not in hub.sent
    gone = next(name for name in hub.files if name.startswith("model-0"))
    del hub.files[gone]
    with pytest.raises(InputError, match=f"whose index names '{gone}', but the repository has no such file"):
        load(REPO)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_keys_are_refused_before_the_weights_are_downloaded(hub: Hub, name: str) -> None:
    settings(hub, name, auto_map={"AutoModel": "evil.Model"})
    with pytest.raises(InputError, match=rf"{name}' asks for code of its own \(auto_map\): not run here"):
        load(REPO)
    assert "model.safetensors" not in hub.sent


def test_an_implementation_from_a_repository_is_refused(hub: Hub) -> None:
    settings(hub, _attn_implementation="owner/kernel")
    with pytest.raises(InputError, match="sets _attn_implementation to 'owner/kernel'"):
        load(REPO)
    assert "model.safetensors" not in hub.sent


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("adapter_config.json", r"holds an adapter \(adapter_config.json\)"),
        ("adapter_model.safetensors", r"holds an adapter \(adapter_model.safetensors\)"),
        ("modeling_evil.py", r"brings code of its own \(modeling_evil.py\)"),
        ("custom_generate/generate.py", r"brings code of its own \(custom_generate/generate.py\)"),
    ],
)
def test_a_repository_is_refused_by_its_list_of_files(hub: Hub, name: str, words: str) -> None:
    hub.files[name] = b"{}"
    with pytest.raises(InputError, match=rf"is the hub repository '{REPO}', which {words}"):
        load(REPO)
    assert hub.sent == []


def test_pickled_weights_alone_are_refused(hub: Hub) -> None:
    hub.files["pytorch_model.bin"] = hub.files.pop("model.safetensors")
    with pytest.raises(InputError, match="which has only pickled weights, which can run code when opened"):
        load(REPO)
    assert hub.sent == []


def test_weights_under_another_name_are_refused(hub: Hub) -> None:
    hub.files["consolidated.safetensors"] = hub.files.pop("model.safetensors")
    with pytest.raises(InputError, match=r"has no model.safetensors.index.json: its weights are in no form"):
        load(REPO)


def test_a_missing_tensor_is_refused_as_in_a_folder(hub: Hub) -> None:
    from safetensors.torch import load as unpacked
    from safetensors.torch import save as packed

    tensors = unpacked(hub.files["model.safetensors"])
    del tensors[DOWN]
    hub.files["model.safetensors"] = packed(tensors, metadata={"format": "pt"})
    with pytest.raises(InputError, match=rf"'{REPO}' lacks 1 tensor \({DOWN}\)"):
        load(REPO)


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("owner/unknown", "no such repository on the hub that you may read"),
        ("owner/na me", "neither a folder nor a hub id"),
    ],
)
def test_unknown_repositories_are_called_so(spec: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        load(spec)


def test_a_gated_repository_says_what_to_do(hub: Hub) -> None:
    hub.gated = True
    with pytest.raises(InputError, match="asks for consent before a download: give it on the hub's page"):
        load(REPO)


# --- without the hub --------------------------------------------------------------------------------------


def test_a_listed_file_that_does_not_come_is_named(hub: Hub) -> None:
    hub.lost = {"model.safetensors"}
    with pytest.raises(InputError, match=r"'model.safetensors' of .* could not be downloaded .404 .*: try again"):
        load(REPO)
    hub.lost = set()
    assert load(REPO).revision == SHA


def test_offline_the_cache_serves(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    online = load(REPO)
    hub.sent.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    again = load(REPO)
    assert (again.revision, again.fingerprint) == (SHA, online.fingerprint)
    assert hub.sent == []


def test_a_hub_that_is_not_there_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, "http://127.0.0.1:9", tmp_path)
    start = time.monotonic()
    with pytest.raises(InputError, match="the cache does not hold that hub id, and the hub could not be reached") as e:
        load(REPO)
    assert time.monotonic() - start < 5
    assert "\n" not in str(e.value)


def test_a_hub_that_never_answers_is_given_up_on_within_5_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        start = time.monotonic()
        with pytest.raises(InputError, match="the hub could not be reached"):
            load(REPO)
        assert time.monotonic() - start < 5


def test_an_adapter_names_the_repository_and_its_revision(hub: Hub, tmp_path: Path) -> None:
    assert hub.sha == SHA
    of = load(REPO)
    ids = torch.arange(3, 15)
    folder = to_peft(patch(Prompt(of, ids[:8], ids[8:]), "static"), of, tmp_path / "adapter")
    about = json.loads((folder / "adapter_config.json").read_text())
    assert (about["base_model_name_or_path"], about["revision"]) == (REPO, SHA)
