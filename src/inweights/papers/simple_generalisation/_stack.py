"""The transformer of *A simple generalisation …* (arXiv 2512.11255), as the authors' code trains it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from inweights.blocks import Dense, Joint, Residual, SoftmaxAttention
from inweights.lab.section4 import LinearTask, Prompts, predict
from inweights.ledger import Trial, kept

DIMS, HEADS, BLOCKS = 2, 3, 5
STEPS = tuple(range(0, 100, 10))
"""The steps of training at which the authors show alignments."""


class Deep(Dense):
    """Two hidden layers: the first is the one that the update changes."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__(width, hidden)
        self.second = nn.Linear(hidden, hidden)

    def inner(self, z: Tensor) -> Tensor:
        return self.activation(self.second(super().inner(z)))


class Skips(Residual):
    """`v = x + A(n C, n x)`, out `v + mlp(n v)`; `n` is a LayerNorm, or nothing."""

    def __init__(self, width: int, *, norms: bool) -> None:
        super().__init__(SoftmaxAttention(width, heads=HEADS), Deep(width, 4 * width))
        self.before, self.norm = (nn.LayerNorm(width) if norms else nn.Identity() for _ in range(2))

    def enter(self, tokens: Tensor) -> Tensor:
        return self.before(tokens)

    def join(self, a: Tensor, query: Tensor) -> Joint:
        return Joint(query + a, self.norm(query + a))

    def everywhere(self, tokens: Tensor) -> Joint:
        """The joint at every position of a sequence `(..., n, width)`."""
        return self.join(self.layer.sequence(self.enter(tokens)), tokens)

    def sequence(self, tokens: Tensor) -> Tensor:
        """The output of the block at every position, `(..., n, width)`."""
        joint = self.everywhere(tokens)
        return self.leave(joint.stream, self.mlp(joint.read))

    def alone(self, query: Tensor) -> Joint:
        """The joint of a token `(..., width)` without a context."""
        return self.joint(query.unsqueeze(-2)[..., :0, :], query)


class Stack(nn.Module):
    """A stack of blocks over tokens `(x, y)`, with the query, without its label, as the last."""

    def __init__(self, *, norms: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Skips(DIMS + 1, norms=norms) for _ in range(BLOCKS))

    def forward(self, tokens: Tensor) -> Tensor:
        for block in self.each():
            tokens = block.sequence(tokens)
        return tokens

    def each(self) -> list[Skips]:
        """The blocks, with their type."""
        return [block for block in self.blocks if isinstance(block, Skips)]

    def entering(self, tokens: Tensor) -> list[tuple[Skips, Tensor]]:
        """Each block with its input tokens."""
        results = []
        for block in self.each():
            results.append((block, tokens))
            tokens = block.sequence(tokens).detach()
        return results


def tokens_of(prompts: Prompts) -> Tensor:
    """Examples and query as one sequence, `(batch, n + 1, dims + 1)`."""
    return torch.cat([prompts.context, prompts.query.unsqueeze(-2)], -2)


def examples(trial: Trial) -> int:
    """The number of examples before the query; the authors use 50."""
    return trial.size(20, 50)


def trained(trial: Trial, *, norms: bool = False) -> Stack:
    """The trained stack, trained once: 100 steps of Adam on 128 new functions each, or 64 in a quick run."""
    return _kept(trial.seed, norms, examples(trial), trial.size(64, 128), 100)


def during(trial: Trial, steps: int) -> Stack:
    """The trained stack after its first steps."""
    return _kept(trial.seed, False, examples(trial), trial.size(64, 128), steps)


def untrained(trial: Trial) -> Stack:
    """The same untrained stack."""
    return _trained(trial.seed, False, examples(trial), 1, 0)


@cache
def _kept(seed: int, norms: bool, examples: int, batch: int, steps: int) -> Stack:
    name = "-".join(["stack", "norms" if norms else "plain", *map(str, (seed, examples, batch, steps))])
    result = kept(name, lambda: _trained(seed, norms, examples, batch, steps).state_dict())
    with torch.random.fork_rng(devices=[]):
        net = Stack(norms=norms).double()
    net.load_state_dict(result)
    return net


@cache
def _trained(seed: int, norms: bool, examples: int, batch: int, steps: int) -> Stack:
    """Trains the stack and returns it in float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Stack(norms=norms)
    optimiser = torch.optim.Adam(net.parameters(), 0.05)
    for step in range(steps):
        prompts = LinearTask(DIMS).prompts(batch, examples, seed=seed, step=step)
        loss = F.mse_loss(predict(net(tokens_of(prompts))[:, -1]), prompts.target) / 2
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
    return net.double()


def new_tokens(trial: Trial, prompts: int) -> Tensor:
    """Sequences that no training has seen, float64."""
    return tokens_of(LinearTask(DIMS).prompts(prompts, examples(trial), seed=trial.seed + 1_000_003)).double()


def loss_of(net: Stack, trial: Trial) -> float:
    """The mean squared error on new prompts; that of always answering 0 is 2."""
    prompts = LinearTask(DIMS).prompts(500, examples(trial), seed=trial.seed + 1_000_003)
    with torch.no_grad():
        return F.mse_loss(predict(net(tokens_of(prompts).double())[:, -1]), prompts.target.double()).item()
