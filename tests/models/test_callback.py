"""The callback for transformers' Trainer: it logs what a context does to the weights, and changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset

from inweights.models._tiny import tiny
from inweights.models.callback import ImplicitUpdates

CONTEXT, QUERY = [3, 5, 7, 2, 9], [4, 1]


class Noise(Dataset[dict[str, torch.Tensor]]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(2, 20, (12,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": ids, "labels": ids}


def trained(folder: Path, *callbacks: ImplicitUpdates) -> tuple[torch.nn.Module, list[dict[str, float]]]:
    from transformers import Trainer, TrainingArguments

    args = TrainingArguments(
        output_dir=str(folder), max_steps=6, logging_steps=2, per_device_train_batch_size=4, learning_rate=1e-2,
        report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True, seed=0,
    )  # fmt: skip
    trainer = Trainer(tiny("llama").float(), args, train_dataset=Noise(), callbacks=list(callbacks))
    trainer.train()
    return trainer.model, trainer.state.log_history


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_norms_are_logged_beside_the_loss_and_nothing_is_changed(tmp_path: Path) -> None:
    watching = ImplicitUpdates(CONTEXT, QUERY)
    watched, log = trained(tmp_path / "a", watching)
    plain, _ = trained(tmp_path / "b")
    for a, b in zip(watched.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b), "watching changed what was learned"
    assert [step for step, _ in watching.history][:3] == [2, 4, 6]
    blocks = {f"implicit_update/{name}" for name in watching.history[0][1]}
    assert len(blocks) == len(watched.model.layers)
    losses = [line for line in log if "loss" in line]
    assert losses
    assert all(blocks <= set(line) and line["implicit_update/mean"] > 0 for line in losses)
    first, last = watching.history[0][1], watching.history[-1][1]
    assert first != last, "training moved no weight, or the norms are not of these weights"


def test_what_a_block_adds_is_part_of_its_norm() -> None:
    """A Mamba block reads nothing by a matrix that could be changed: all of it is added."""
    assert min(ImplicitUpdates(CONTEXT, QUERY).measure(tiny("mamba")).values()) > 0


def test_the_norms_are_those_of_the_model_as_it_is() -> None:
    net = tiny("llama")
    before = ImplicitUpdates(CONTEXT, QUERY).measure(net)
    assert ImplicitUpdates(CONTEXT, QUERY).measure(net) == before
    assert ImplicitUpdates([3], QUERY).measure(net) != before
