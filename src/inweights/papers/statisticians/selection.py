"""Bai et al. 2023: selection of an algorithm in context, by validation and by a test of the labels."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from inweights.lab.predictors import OLS, LogisticPredictor, PreTest, Ridge, Validation
from inweights.lab.tasks import Linear, MixedNoise, Sample, Sign
from inweights.ledger import Measurement, Plot, Trial, claim
from inweights.papers._asked import asked_weights
from inweights.papers._descent import Answers
from inweights.papers._papers import BAI
from inweights.papers.statisticians._written import Head, Layer, Places, read_heads, run

DIMS, EXAMPLES = 5, 20
PENALTIES = (0.01, 10.0, 1000.0)
LENGTHS = (20, 40, 80, 160)


@claim("bai-validation", BAI, "Proposition 15, Theorem 16: post-ICL validation", exact=True, cost=(0.6, 5))
@torch.no_grad()
def validation(trial: Trial) -> Measurement:
    """Three further layers select among K algorithms by validation: they predict with a convex combination of those
    with a validation loss of at most γ above the least.

    Measured: the validation loss of the combined weights minus the least one of the K, as a share of γ. The weights are
    measured with all unit vectors as queries.

    Control: the same layers with validation losses of the opposite sign, which select the worst.

    Settings: weights written by hand, float64; d = 5, noise 0.5, 20 examples, of which 10 are for validation; K = 3:
    ridge regression with the penalties 0.01, 10 and 1000 on the others; absolute loss, a sum of two ReLUs; γ = 1e-3,
    where one algorithm is left, and 0.3, where there are several (control: 1e-3); 32 prompts (full: 256).
    """
    half = EXAMPLES // 2
    sample = Linear(dims=DIMS, noise=0.5).sample(trial.draw(trial.size(32, 256), dtype=torch.float64), EXAMPLES + 1)
    base = torch.stack([Ridge(penalty=p).weights(sample.xs, sample.ys)[:, half] for p in PENALTIES], 1)
    held_out = slice(half, EXAMPLES)

    def loss(w: Tensor) -> Tensor:
        """The validation losses of weights `(batch, any, dims)`: `(batch, any)`."""
        return (sample.xs[:, held_out] @ w.mT - sample.ys[:, held_out, None]).abs().mean(1)

    least = loss(base).amin(1)

    def excess(margin: float, sign: float = 1.0) -> Tensor:
        own = asked_weights(validating(base, margin, half, sign), sample.xs, sample.ys)
        return (loss(own.unsqueeze(1)).squeeze(1) - least) / margin

    return Measurement({"excess": (torch.cat([excess(1e-3), excess(0.3)]), excess(1e-3, -1.0))})


def validating(base: Tensor, margin: float, half: int, sign: float) -> Answers:
    """Layers that predict with the best of weights `(batch, K, dims)`, by the examples after the first `half`.

    1. Two heads for each algorithm compute its validation loss `L_k`, two its prediction; the MLP adds up
       `c_k = Σ_l relu(L_k − L_l) / γ`, which is 0 for the best.
    2. The MLP computes `u_k = relu(1 − c_k)`, which is 1 for the best, and 0 for all that are worse by γ.
    3. With `U_k = u_1 + … + u_k`, the shares `min(1, U_k) − min(1, U_{k−1})` add up to 1, as one of the u is 1. Heads
       multiply them with the predictions, since `min(1, U) = U − relu(U − 1)` and u and U are never below 0.
    """
    count, dims = base.shape[1], base.shape[2]
    sizes = {f"w{k}": dims for k in range(count)} | {"late": 1, "loss": count, "c": count, "u": count, "f": count}
    at = Places(dims, sizes)
    one = at["one"]

    def answers(xs: Tensor, ys: Tensor) -> Tensor:
        tokens = xs.shape[1]
        late = (torch.arange(tokens) >= half).to(xs).view(1, -1, 1) * torch.ones_like(ys).unsqueeze(-1)
        late[:, -1] = 0
        copies = len(xs) // len(base)
        given = {f"w{k}": base[:, k].repeat_interleave(copies, 0).unsqueeze(1) for k in range(count)}
        first = [h for k in range(count) for h in _loss_heads(at, k, tokens, half, sign)]
        first += [h for k in range(count) for h in _prediction_heads(at, k, tokens)]
        pairs = [(k, other) for k in range(count) for other in range(count) if k != other]
        compared = torch.stack([at["loss"][k] - at["loss"][other] for k, other in pairs]) / margin
        added = torch.stack([at["c"][k] for k, _ in pairs]).mT
        layers = [
            Layer(first, (compared, added)),
            Layer(mlp=(one - at["c"], at["u"].mT)),
            Layer(_mixing_heads(at, tokens)),
        ]
        return run(layers, at.tokens(xs, ys, late=late, **given))[:, -1:] @ at["answer"][0]

    return answers


def _loss_heads(at: Places, k: int, tokens: int, half: int, sign: float) -> list[Head]:
    """`|⟨w_k, x⟩ − y|` of the examples for validation, as two ReLUs, in the coordinate `loss` of k."""
    residual = at.forms(at[f"w{k}"], at["x"]) - at.forms(at["one"], at["y"])
    early = 1e4 * at.forms(at["one"], at["one"] - at["late"])
    out = sign * tokens / (tokens - 1 - half) * at["loss"][k : k + 1].mT @ at["one"]
    return [Head(side * residual - early, out) for side in (1, -1)]


def _prediction_heads(at: Places, k: int, tokens: int) -> list[Head]:
    """The product of `w_k` with the query, in the coordinate `f` of k."""
    heads = read_heads(at, tokens - 1, f"w{k}", "answer")
    return [Head(h.compare, at["f"][k : k + 1].mT @ at["answer"] @ h.out) for h in heads]


def _mixing_heads(at: Places, tokens: int) -> list[Head]:
    """The sum of the predictions at the query with the shares of step 3, in the coordinate `answer`."""
    heads, total = [], torch.zeros_like(at["one"])
    for k in range(len(at["u"])):
        own, before, total = at["u"][k : k + 1], total, total + at["u"][k : k + 1]
        for form, sign in ((own, 1), (total - at["one"], -1), (before - at["one"], 1)):
            score = at.ignoring(at.forms(form, at["one"]), "examples")
            heads.append(Head(score, sign * tokens * at["answer"].mT @ at["f"][k : k + 1]))
    return heads


@claim("bai-pretest", BAI, "Lemma 18, Proposition 19: pre-ICL testing", exact=True, cost=(0.3, 5))
@torch.no_grad()
def pretest(trial: Trial) -> Measurement:
    """A layer with six heads tests whether all labels are classes, and the transformer then predicts like logistic
    regression if they are, and like least squares if not.

    Measured: the difference of its prediction from that of the right algorithm, on contexts of both kinds.

    Control: the test with five heads, on classes.

    Settings: weights written by hand, float64; d = 5, 20 examples, linear functions with noise 0.5, and their signs
    without; the test is the mean of a function that is 1 for labels 1 and −1 and 0 from a distance of 0.1 on, two
    bumps of three ReLUs; a share above ½ counts. The weights of both algorithms are given. 64 prompts of each kind
    (full: 512).
    """
    count = trial.size(64, 512)
    kinds: list[tuple[Linear | Sign, LogisticPredictor | OLS]] = [
        (Sign(dims=DIMS), LogisticPredictor()), (Linear(dims=DIMS, noise=0.5), OLS()),
    ]  # fmt: skip
    samples = [
        task.sample(trial.draw(count, step, dtype=torch.float64), EXAMPLES + 1) for step, (task, _) in enumerate(kinds)
    ]
    wanted = [PreTest().predict_prefixes(s.xs, s.ys)[:, -1] for s in samples]
    right = [p.predict_prefixes(s.xs, s.ys)[:, -1] for s, (_, p) in zip(samples, kinds, strict=True)]
    trial.require(all(map(torch.equal, wanted, right)), "the lab's own test of the labels selects another algorithm")
    errors = [(by_test(s) - w).abs() for s, w in zip(samples, wanted, strict=True)]
    return Measurement({"difference": (torch.cat(errors), (by_test(samples[0], 5) - wanted[0]).abs())})


def by_test(sample: Sample, heads: int = 6, width: float = 0.1) -> Tensor:
    """The predictions `(batch,)` of layers that test the labels with this number of heads."""
    xs, ys = sample.xs, sample.ys
    at, tokens = Places(DIMS, {"logistic": DIMS, "squares": DIMS, "test": 1, "binary": 1, "f": 2}), xs.shape[1]
    one, y = at["one"], at["y"]
    out = tokens / (tokens - 1) * at["test"].mT @ one
    bumps = [
        Head(at.ignoring(at.forms(one, (y - label * one) / width + shift * one), "query"), size * out)
        for label in (1, -1)
        for shift, size in ((1, 1), (0, -2), (-1, 1))
    ]
    reads = []
    for k, name in enumerate(("logistic", "squares")):
        for head in read_heads(at, tokens - 1, name, "answer"):
            reads.append(Head(head.compare, at["f"][k : k + 1].mT @ at["answer"] @ head.out))
    gate = (2 * at["test"] - one, at["binary"].mT)
    mixed = [
        Head(at.ignoring(at.forms(form, one), "examples"), tokens * at["answer"].mT @ at["f"][k : k + 1])
        for k, form in enumerate((at["binary"], one - at["binary"]))
    ]
    weights = {"logistic": LogisticPredictor().weights(xs, ys), "squares": OLS().weights(xs, ys)}
    given = {name: w[:, -1:] for name, w in weights.items()}
    layers = [Layer([*bumps[:heads], *reads], gate), Layer(mixed)]
    return run(layers, at.tokens(xs, ys, **given))[:, -1] @ at["answer"][0]


@claim("bai-one-penalty", BAI, "Section 6, Figure 4", cost=(1.5, 40))
def one_penalty(trial: Trial) -> Measurement:
    """At noise 0.1 and 0.5 the ridge regressions with the penalties of each, which are Bayes-optimal, have mean squared
    errors of 0.115 and 0.647, and neither is near at the other noise: a learner that is has to select.

    Measured: the mean squared error of ridge regression with the penalty d σ² after 20 examples, for both σ.

    Control: the penalty of the other noise.

    Settings: d = 20, w from N(0, I/d), labels of queries with noise, as in the paper; 16,384 prompts (full: 131,072).
    """
    measured = {}
    for level, other, name in ((0.1, 0.5, "low_noise"), (0.5, 0.1, "high_noise")):
        task, count = MixedNoise(dims=20, levels=(level,)), trial.size(16384, 131072)
        errors: dict[float, list[Tensor]] = {level: [], other: []}
        for step in range(count // 1024):
            sample = task.sample(trial.draw(1024, step), 21)
            for noise, into in errors.items():
                answers = Ridge(penalty=20 * noise**2).predict_prefixes(sample.xs, sample.ys)[:, -1]
                into.append((answers - sample.ys[:, -1]).square())
        measured[name] = (float(torch.cat(errors[level]).mean()), float(torch.cat(errors[other]).mean()))
    return Measurement(measured, reported={"paper, noise 0.1": 0.115, "paper, noise 0.5": 0.647})


@claim("bai-both-noises", BAI, "Section 6, Figure 4b", needs=("mixed-noise-short",), cost=(6, 40))
def both_noises(trial: Trial) -> Measurement:
    """One transformer, trained on a mixture of noise levels, is nearly Bayes-optimal at noise 0.1 and at 0.5 at once.

    Measured: its mean squared error after d examples, divided by that of Bayes' rule, which knows the four levels of
    the training but not which of them a prompt has, at both.

    Control: ridge regression with the penalty of the other noise.

    Settings: `mixed-noise-short`, d = 8, 8 examples, an encoder with ReLU attention of 6 layers of width 48 (the paper:
    d = 20, 20 examples, 12 layers of width 64); labels of queries with noise. 2,048 prompts (full: 16,384).
    """
    model, measured, reported = trial.trained("mixed-noise-short"), {}, {}
    for level, other, name in ((0.1, 0.5, "low_noise"), (0.5, 0.1, "high_noise")):
        sample = MixedNoise(dims=8, levels=(level,)).sample(trial.draw(trial.size(2048, 16384)), 9)
        with torch.no_grad():
            own = model(sample.xs, sample.ys)[:, -1]
        best = bayes(Sample(sample.xs.double(), sample.ys.double(), {}), MixedNoise().levels)
        ridges = [Ridge(penalty=8 * s**2).predict_prefixes(sample.xs, sample.ys)[:, -1] for s in (level, other)]
        errors = [float((a - sample.ys[:, -1]).square().mean()) for a in (own, best, *ridges)]
        measured[name] = (errors[0] / errors[1], errors[3] / errors[1])
        reported[f"over ridge regression, noise {level:g}"] = errors[0] / errors[2]
    return Measurement(measured, reported=reported)


@claim("bai-near-bayes", BAI, "Theorem 17", cost=(20, 60))
def near_bayes(trial: Trial) -> Measurement:
    """On mixtures of K levels of noise, selection by validation is nearly Bayes-optimal: its excess risk falls with the
    number N of examples at least as (log K / N)^⅓.

    Measured: the slope of the logarithm of the excess against the logarithm of N. The excess is the mean squared
    difference from the predictions of Bayes' rule, which knows the levels and weighs them by their evidence.

    Control: algorithms that are fitted to the first 10 examples, whatever N; the others are for validation.

    Settings: d = 5, w from N(0, I/d), noise 0.1, 0.25, 0.5 and 1, K = 4 ridge regressions with the penalties d σ², half
    of the examples for validation; N = 20, 40, 80, 160; 512 prompts (full: 2,048).
    """
    task = MixedNoise(dims=DIMS)
    ridges = tuple(Ridge(penalty=DIMS * s**2) for s in task.levels)
    lines: dict[str, list[float]] = {"half of them": [], "the first 10": []}
    for n in LENGTHS:
        gaps: dict[str, list[Tensor]] = {name: [] for name in lines}
        for step in range(trial.size(512, 2048) // 256):
            sample = task.sample(trial.draw(256, step, dtype=torch.float64), n + 1)
            best = bayes(sample, task.levels)
            for name, share in (("half of them", 0.5), ("the first 10", 10 / n)):
                own = Validation(among=ridges, share=share).predict_prefixes(sample.xs, sample.ys)[:, -1]
                gaps[name].append((own - best).square())
        for name, each in gaps.items():
            lines[name].append(float(torch.cat(each).mean()))
    value, control = (slope(line) for line in lines.values())
    plot = Plot("Excess of selection by validation", "examples", "squared difference", LENGTHS, lines, log="xy")
    return Measurement({"exponent": (value, control)}, plot)


def bayes(sample: Sample, levels: tuple[float, ...]) -> Tensor:
    """The posterior mean of the last label, `(batch,)`: ridge regressions weighted by the evidence for their noise."""
    X, y = sample.xs[:, :-1], sample.ys[:, :-1]
    dims, n = X.shape[2], X.shape[1]
    evidence, answers = [], []
    for level in levels:
        covariance = X @ X.mT / dims + level**2 * torch.eye(n, dtype=X.dtype)
        factor = torch.linalg.cholesky(covariance)
        surprise = torch.linalg.solve_triangular(factor, y.unsqueeze(-1), upper=False)
        logs = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        evidence.append(-surprise.square().sum((1, 2)) / 2 - logs)
        answers.append(Ridge(penalty=dims * level**2).predict_prefixes(sample.xs, sample.ys)[:, -1])
    return (torch.stack(evidence).softmax(0) * torch.stack(answers)).sum(0)


def slope(line: list[float]) -> float:
    """The slope of the logarithm of values at `LENGTHS` against the logarithm of the length, by least squares."""
    x = torch.tensor([math.log(n) for n in LENGTHS], dtype=torch.float64)
    y = torch.tensor(line, dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())
