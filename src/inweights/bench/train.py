"""Training steps of the same model, against the training loop in common use since Garg et al. 2022."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from inweights.bench._measure import Result, Row
from inweights.lab.models import DecoderModel
from inweights.lab.training import Processes, Recipe, Run, parse

DIMS, POINTS, BATCH = 20, 41, 64


class Reference(nn.Module):
    """GPT-2 of transformers between two linear maps, with one token for each input and one for each label."""

    def __init__(self, layers: int, width: int, heads: int) -> None:
        super().__init__()
        from transformers import GPT2Config, GPT2Model

        config = GPT2Config(
            n_positions=2 * POINTS, n_embd=width, n_layer=layers, n_head=heads,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False,
        )  # fmt: skip
        self.read_in, self.backbone = nn.Linear(DIMS, width), GPT2Model(config)
        self.read_out = nn.Linear(width, 1)

    def forward(self, xs: Tensor, ys: Tensor) -> Tensor:
        wide = torch.cat([ys.unsqueeze(-1), ys.new_zeros(*ys.shape, DIMS - 1)], -1)
        tokens = torch.stack([xs, wide], 2).flatten(1, 2)
        hidden = self.backbone(inputs_embeds=self.read_in(tokens)).last_hidden_state
        return self.read_out(hidden)[:, ::2, 0]


def reference_loop(model: Reference, device: torch.device) -> Callable[[int], None]:
    """The rival's training loop: batches sampled on the CPU and copied, float32, Adam, loss read after each step."""
    adam = torch.optim.Adam(model.parameters(), lr=1e-4)

    def steps(count: int) -> None:
        for _ in range(count):
            xs = torch.randn(BATCH, POINTS, DIMS)
            ys = (xs @ torch.randn(BATCH, DIMS, 1)).squeeze(-1)
            xs, ys = xs.to(device), ys.to(device)
            adam.zero_grad()
            loss = (model(xs, ys) - ys).square().mean()
            loss.backward()
            adam.step()
            loss.item()

    return steps


def copy_weights(ours: DecoderModel, reference: Reference) -> None:
    """Copies the weights of the reference to our decoder, so that their outputs can be compared."""
    with torch.no_grad():
        ours.read_in.weight[:, :DIMS] = reference.read_in.weight
        ours.read_in.weight[:, DIMS] = reference.read_in.weight[:, 0]
        ours.read_in.bias.copy_(reference.read_in.bias)
        ours.read_out.load_state_dict(reference.read_out.state_dict())
        theirs: Any = reference.backbone
        ours.positions.copy_(theirs.wpe.weight)
        ours.norm.load_state_dict(theirs.ln_f.state_dict())
        for a, b in zip(ours.blocks, theirs.h, strict=True):
            block: Any = a
            block.norm1.load_state_dict(b.ln_1.state_dict())
            block.norm2.load_state_dict(b.ln_2.state_dict())
            for mine, conv in (
                (block.qkv, b.attn.c_attn),
                (block.out, b.attn.c_proj),
                (block.up, b.mlp.c_fc),
                (block.down, b.mlp.c_proj),
            ):
                mine.weight.copy_(conv.weight.mT)
                mine.bias.copy_(conv.bias)


def recipe(layers: int, width: int, heads: int, precision: str, tokens: str = "two") -> Recipe:
    model = {"kind": "decoder", "layers": layers, "width": width, "heads": heads, "tokens": tokens}
    return parse(
        {
            "task": {"kind": "linear", "dims": DIMS}, "model": model, "points": POINTS, "steps": 10**6, "batch": BATCH,
            "rate": 1e-4, "schedule": "constant", "precision": precision, "clip": 0.0,
        },
        "bench train",
    )  # fmt: skip


def run() -> Result:
    """Runs the benchmark: on a GPU with the decoder of the paper, 12 layers of width 256; on a CPU 6 of width 128."""
    on_gpu = torch.cuda.is_available()
    shape = (12, 256, 8) if on_gpu else (6, 128, 4)
    processes = Processes("cuda" if on_gpu else "cpu")
    torch.manual_seed(0)
    reference = Reference(*shape).to(processes.device)
    theirs = reference_loop(reference, processes.device)
    rows = []
    error = 0.0
    best = "bfloat16" if on_gpu else "float32"
    sides = {"equal arithmetic": ("two", best), "one token a point": ("one", best)}
    if on_gpu:
        sides["equal arithmetic, float32"] = ("two", "float32")
    for name, (tokens, precision) in sides.items():
        ours = Run(recipe(*shape, precision, tokens), processes)
        assert isinstance(ours.model, DecoderModel)
        if tokens == "two":
            copy_weights(ours.model, reference)
            error = _difference(ours.model, reference, processes.device)
        a, b = _race(_many(ours), theirs, 100 if on_gpu else 2, processes.device)
        speed = {"steps_per_second_ours": 1 / a, "steps_per_second_rival": 1 / b, "tasks_per_second_ours": BATCH / a}
        rows.append(Row(name, a, b, "seconds", goal=7.0 if on_gpu else 1.0, beside=speed))
    setting = f"decoder of {shape[0]} layers, width {shape[1]}, {shape[2]} heads, batch {BATCH}, {2 * POINTS} tokens, "
    setting += (
        f"{torch.cuda.get_device_name()}; rival in float32, ours in bfloat16 unless stated otherwise, compiled, one "
        "CUDA graph a step"
        if on_gpu
        else f"CPU, {torch.get_num_threads()} threads, float32 on both sides"
    )
    return Result(setting, "equal arithmetic", tuple(rows), error, 1e-4)


def _many(ours: Run) -> Callable[[int], None]:
    def steps(count: int) -> None:
        for _ in range(count):
            ours.advance()

    return steps


@torch.no_grad()
def _difference(ours: DecoderModel, reference: Reference, device: torch.device) -> float:
    """The largest difference between the outputs of the two models with the same weights, in float32."""
    xs = torch.randn(8, POINTS, DIMS, device=device)
    ys = torch.randn(8, POINTS, device=device)
    return (ours(xs, ys) - reference.eval()(xs, ys)).abs().max().item()


def _race(
    ours: Callable[[int], None], rival: Callable[[int], None], count: int, device: torch.device
) -> tuple[float, float]:
    """Median seconds per step of both sides, alternating, after a warm-up of both."""
    taken: tuple[list[float], list[float]] = ([], [])
    for job in (ours, rival):
        job(max(2, count // 10))
    for _ in range(5):
        for job, record in ((ours, taken[0]), (rival, taken[1])):
            if device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            job(count)
            if device.type == "cuda":
                torch.cuda.synchronize()
            record.append((time.perf_counter() - start) / count)
    return median(taken[0]), median(taken[1])
