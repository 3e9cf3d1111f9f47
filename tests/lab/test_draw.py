"""Counted random numbers: their laws, their independence, and that they depend only on their indices."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from inweights.lab import Draw
from inweights.lab._draw import GOLDEN, mix

# Some hundred laws are tested: p-values below this would mean that one does not hold, not bad luck.
LIKELY = 1e-5
COUNT = 20_000


def fits(values: Tensor, law: str, *args: float) -> bool:
    return bool(stats.kstest(values.flatten().double().numpy(), law, args).pvalue > LIKELY)


def even(counts: Tensor) -> bool:
    return bool(stats.chisquare(counts.numpy()).pvalue > LIKELY)


def dependent(a: Tensor, b: Tensor) -> bool:
    """By rank correlation of the values, and of their distances from the middle."""
    pairs = [(a, b), ((a - a.mean()).abs(), (b - b.mean()).abs())]
    return any(stats.spearmanr(x.flatten().numpy(), y.flatten().numpy()).pvalue < LIKELY for x, y in pairs)


def draw(seed: int | Tensor = 1, step: int | Tensor = 0, rows: int = 4, **place: object) -> Draw:
    return Draw(seed, step, rows, **{"dtype": torch.float64, **place})  # type: ignore[arg-type]


class Stuck(Draw):
    """A generator that does not count its draws: each is the first one again."""

    def bits(self, *shape: int) -> Tensor:
        self._draws = 0
        return super().bits(*shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("seed", [0, 1, -1_000_003, 2**63 + 5])
def test_laws(seed: int, dtype: torch.dtype) -> None:
    d = draw(seed, dtype=dtype)
    uniform, normal = d.uniform(COUNT // 4), d.normal(COUNT // 4)
    assert uniform.dtype == normal.dtype == dtype
    assert fits(uniform, "uniform")
    assert fits(normal, "norm")
    assert fits(d.uniform(COUNT // 4, low=-2, high=3), "uniform", -2, 5)
    assert not fits(uniform * 1.1, "uniform")
    assert not fits(normal * 1.15, "norm")
    assert 0 < uniform.min() <= uniform.max() <= 1


@pytest.mark.parametrize("rows", [1, COUNT])
def test_laws_hold_along_indexes_and_along_rows(rows: int) -> None:
    d = draw(rows=rows)
    assert fits(d.uniform(COUNT // rows), "uniform")
    assert fits(d.normal(COUNT // rows), "norm")
    steps = torch.cat([draw(step=step, rows=1).uniform() for step in range(2000)])
    seeds = torch.cat([draw(seed, rows=1).uniform() for seed in range(2000)])
    assert fits(steps, "uniform")
    assert fits(seeds, "uniform")


def test_p_values_are_themselves_uniform() -> None:
    """Over 300 seeds, with few numbers each: finds what a test of many numbers from one seed overlooks."""

    def values(law: str) -> Tensor:
        made = [getattr(draw(seed, rows=100), law)() for seed in range(300)]
        tests = [stats.kstest(each.numpy(), {"normal": "norm"}.get(law, law)).pvalue for each in made]
        return torch.tensor(tests)

    assert fits(values("uniform"), "uniform")
    assert fits(values("normal"), "uniform")
    # Numbers that avoid each other, as of a lattice, fit too well.
    lattice = [stats.kstest(((torch.arange(100) + 0.5) / 100).numpy(), "uniform").pvalue for _ in range(300)]
    assert not fits(torch.tensor(lattice), "uniform")


def test_extremes_of_normals_are_as_rare_as_they_should_be() -> None:
    normal = draw(rows=100).normal(10_000)
    for bound in (3.0, 4.0):
        wanted = 2 * stats.norm.sf(bound) * normal.numel()
        assert abs((normal.abs() > bound).sum().item() - wanted) < 4 * math.sqrt(wanted)
    # Both of a pair, and an odd number of them.
    assert draw().normal(7).shape == (4, 7)
    assert not dependent(normal[:, :5000], normal[:, 5000:])


def test_nothing_depends_on_its_neighbours() -> None:
    d = draw(rows=200)
    first, second = d.uniform(100), d.uniform(100)
    others = {
        "draws": (first, second),
        "rows": (first[:-1], first[1:]),
        "indexes": (first[:, :-1], first[:, 1:]),
        "steps": (first, draw(step=1, rows=200).uniform(100)),
        "seeds": (first, draw(2, rows=200).uniform(100)),
        "row and index": (first[:100], first[:100].T),
        "diagonals": (first[1:, :-1], first[:-1, 1:]),
        "row and step": (first[1:], draw(step=1, rows=199).uniform(100)),
        "draw and row": (first[1:], second[:-1]),
    }
    assert [name for name, pair in others.items() if dependent(*pair)] == []


def test_a_generator_that_reuses_its_counter_is_caught() -> None:
    stuck = Stuck(1, 0, 200, dtype=torch.float64)
    assert dependent(stuck.uniform(100), stuck.uniform(100))
    assert dependent(stuck.normal(100), stuck.normal(100))
    # Rows that begin one index later, without mixing, are the same numbers.
    keys = torch.arange(200).unsqueeze(1) * GOLDEN
    shared = (mix(keys + torch.arange(100) * GOLDEN) >> 40).double()
    assert dependent(shared[1:, :-1], shared[:-1, 1:])


def test_mixing_has_no_collisions_and_moves_half_of_the_bits() -> None:
    numbers = torch.arange(100_000)
    assert len(mix(numbers).unique()) == len(numbers)
    flipped = mix(numbers) ^ mix(numbers ^ 1)
    bits = torch.stack([(flipped >> i) & 1 for i in range(64)]).double().mean(1)
    assert (bits - 0.5).abs().max() < 5 * 0.5 / math.sqrt(len(numbers))
    weak = numbers ^ (numbers ^ 1)
    assert torch.stack([(weak >> i) & 1 for i in range(64)]).double().mean() < 0.1


def test_the_mixer_is_splitmix64() -> None:
    """Against plain integers of Python."""
    mask = 2**64 - 1
    for number in (0, 1, 2**40 + 3, 2**63, mask):
        x = number
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
        x ^= x >> 31
        signed = number - 2**64 if number >= 2**63 else number
        assert mix(torch.tensor([signed])).item() % 2**64 == x


@pytest.mark.parametrize("kind", ["bits", "uniform", "normal"])
def test_a_place_has_one_number(kind: str) -> None:
    def made(**place: object) -> Tensor:
        return getattr(draw(**place), kind)(5)  # type: ignore[arg-type]

    whole = made(rows=10)
    assert torch.equal(whole, made(rows=10))
    assert torch.equal(whole, made(rows=10, step=torch.tensor(0)))
    assert torch.equal(whole[3:7], made(rows=4, first=3))
    assert torch.equal(whole[:1], made(rows=1))
    assert not torch.equal(whole, made(rows=10, first=1))
    assert not torch.equal(whole, made(rows=10, step=1))
    assert not torch.equal(whole, made(rows=10, seed=2))
    assert torch.equal(made(step=2**40), made(step=torch.tensor(2**40)))


def test_steps_can_be_counted_in_place() -> None:
    """As in a CUDA graph: the tensor goes on, the code stays."""
    step = torch.zeros((), dtype=torch.int64)
    for at in range(3):
        assert torch.equal(draw(step=step).uniform(3), draw(step=at).uniform(3))
        step += 1


def test_integers_and_coins_are_even() -> None:
    d = draw(rows=50)
    for high in (1, 2, 7, 64):
        drawn = d.integers(high, 400)
        assert drawn.dtype == torch.int64
        assert 0 <= drawn.min() <= drawn.max() < high
        assert high == 1 or even(drawn.flatten().bincount(minlength=high))
    assert not even((d.integers(6, 400) % 4).flatten().bincount(minlength=4))
    for p in (0.0, 0.2, 0.5):
        ones = d.bernoulli(p, 400)
        assert set(ones.flatten().tolist()) <= {0.0, 1.0}
        assert abs(ones.mean().item() - p) <= 4 * math.sqrt(p * (1 - p) / ones.numel())
    levels = torch.linspace(0, 1, 50, dtype=torch.float64).unsqueeze(1)
    assert (d.bernoulli(levels, 400).mean(1) - levels.squeeze(1)).abs().max() < 0.12


def test_rows_can_be_chosen() -> None:
    chosen = torch.tensor([5, 0, 5])
    assert torch.equal(Draw(1, 0, chosen).normal(3), Draw(1, 0, 6).normal(3)[chosen])


def test_empty_shapes_are_one_number_for_each_row() -> None:
    assert draw().uniform().shape == draw().normal().shape == draw().integers(3).shape == (4,)


def test_rows_of_several_seeds_are_those_of_each_alone() -> None:
    """The same bits; those of other seeds differ."""
    together = draw(torch.tensor([5, 2]), rows=3)
    for shape in ((4,), (2, 3)):  # a second draw of both, too
        whole = together.normal(*shape)
        assert len(whole) == 6
    alone = [draw(seed, rows=3) for seed in (5, 2)]
    for each in alone:
        each.normal(4)
    assert torch.equal(whole, torch.cat([each.normal(2, 3) for each in alone]))
    assert not torch.equal(whole[:3], whole[3:])
