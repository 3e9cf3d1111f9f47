"""Which device runs a model: what `auto` chooses, and what is refused, with one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inweights._errors import InputError
from inweights.models import choose_device, describe_device, device_names, load, to_float64
from inweights.models._device import present
from inweights.models._tiny import tiny

no_gpu = pytest.mark.skipif(len(present()) > 1, reason="there is a GPU")


@no_gpu
def test_auto_is_the_cpu_where_there_is_nothing_else() -> None:
    assert choose_device("auto", torch.float32) == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_auto_is_cuda_where_there_is_one() -> None:
    assert choose_device("auto", torch.float64) == "cuda"
    assert choose_device("cuda:0", torch.float64) == "cuda:0"


@no_gpu
@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("cuda", "`device` is 'cuda', but torch finds only cpu here: use one of these, or auto."),
        ("cuda:99", "`device` is 'cuda:99', but torch finds only cpu here: use one of these, or auto."),
        ("mps", "`device` is 'mps', but torch finds only cpu here: use one of these, or auto."),
        ("tpu", "`device` is 'tpu', but must be auto, cpu, cuda, cuda:N, mps or spread; torch finds cpu here."),
        ("cuda:x", "`device` is 'cuda:x', but must be auto, cpu, cuda, cuda:N, mps or spread; torch finds cpu here."),
        ("", "`device` is '', but must be auto, cpu, cuda, cuda:N, mps or spread; torch finds cpu here."),
    ],
)
def test_what_is_not_here_is_refused(device: str, sentence: str) -> None:
    with pytest.raises(InputError) as error:
        choose_device(device, torch.float32)
    assert str(error.value) == sentence
    assert choose_device("cpu", torch.float32) == "cpu"


@no_gpu
def test_a_gpu_that_is_named_but_does_not_work_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver says that there are two GPUs and MPS; the computation on them is real, and fails."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto", torch.float32) == "cpu"
    with pytest.raises(InputError, match="`device` is 'mps', but a small product fails there"):
        choose_device("mps", torch.float32)
    with pytest.raises(InputError, match="`device` is 'mps', which has no float64"):
        choose_device("mps", torch.float64)
    with pytest.raises(InputError, match="'cuda:7', but torch finds only cpu, cuda:0, cuda:1, mps here"):
        choose_device("cuda:7", torch.float32)


@no_gpu
def test_a_gpu_that_is_full_is_not_left_for_a_slower_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch, "ones", full)
    with pytest.raises(torch.OutOfMemoryError):
        choose_device("auto", torch.float32)


def test_a_model_says_where_it_is(tmp_path: Path) -> None:
    tiny("llama").float().save_pretrained(tmp_path)
    loaded = load(str(tmp_path), device="cpu")
    assert device_names(loaded.model) == "cpu"
    assert describe_device(loaded.model).startswith("cpu (")
    assert to_float64(next(loaded.model.parameters())).dtype == torch.float64


def test_spreading_without_accelerate_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inweights.models._device.find_spec", lambda name: None)
    with pytest.raises(InputError, match="which needs the accelerate package: pip install accelerate"):
        choose_device("spread", torch.float32)


def test_accelerate_spreads_a_model(tmp_path: Path) -> None:
    tiny("llama").float().save_pretrained(tmp_path)
    assert load(str(tmp_path), device="spread").anatomy.supported
