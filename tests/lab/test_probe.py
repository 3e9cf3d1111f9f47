"""Hidden states are those that the model uses; a linear probe decodes linear functions."""

from __future__ import annotations

import pytest
import torch

from inweights._errors import InputError
from inweights.lab import Draw, after_examples, read_linearly, states
from inweights.lab.models import MODELS
from inweights.lab.models._pairs import turns
from inweights.lab.tasks import Linear


@pytest.mark.parametrize(("kind", "settings"), [("decoder", {}), ("decoder", {"tokens": "one"}), ("lstm", {})])
def test_the_last_layer_gives_the_answer(kind: str, settings: dict[str, str]) -> None:
    torch.manual_seed(0)
    model = MODELS.make(kind, **settings).build(Linear(dims=3), 6).double()
    sample = Linear(dims=3).sample(Draw(0, 0, 4, dtype=torch.float64), 6)
    seen = states(model, sample.xs, sample.ys)
    assert seen.shape == (3, 4, 6, 64)
    normed = [model.norm(h) if kind == "decoder" else h for h in seen]
    first, *_, last = (model.read_out(h).squeeze(-1) for h in normed)
    wanted = model(sample.xs, sample.ys)
    torch.testing.assert_close(last, wanted, rtol=1e-12, atol=1e-12)
    assert (first - wanted).abs().max() > 1e-3
    assert not any(block._forward_hooks for block in getattr(model, "blocks", []))


def test_other_models_are_refused() -> None:
    model = MODELS.make("lsa").build(Linear(dims=3), 6)
    with pytest.raises(InputError, match="not of LSAModel"):
        states(model, torch.zeros(1, 6, 3), torch.zeros(1, 6))


def test_what_is_linear_is_read_and_nothing_else() -> None:
    draw = Draw(0, 0, 400, dtype=torch.float64)
    h, turn = draw.normal(6), torch.randn(6, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    linear, even = 7 + h @ turn, h.square()[:, :2]
    for target, low, high in ((linear, 1 - 1e-9, 1.0), (even, -0.2, 0.1)):
        read = read_linearly(h[:300], target[:300], h[300:], penalty=1e-8)
        left = (read - target[300:]).square().sum() / (target[300:] - target[300:].mean(0)).square().sum()
        assert low <= 1 - left <= high


def test_the_state_after_examples_is_what_later_predictions_use() -> None:
    """Of an LSTM, float64, 1e-12: a query that follows gets the prediction of the whole prompt."""
    torch.manual_seed(0)
    model = MODELS.make("lstm", layers=2, width=8).build(Linear(dims=3), 6).double()
    sample = Linear(dims=3).sample(Draw(0, 0, 4, dtype=torch.float64), 6)
    state = after_examples(model, sample.xs[:, :5], sample.ys[:, :5])
    assert state.shape == (4, 2 * 2 * 8)
    hidden, cell = (part.unflatten(1, (2, 8)).transpose(0, 1).contiguous() for part in state.chunk(2, 1))
    query = model.read_in(turns(sample.xs[:, 5:], sample.ys[:, 5:]))[:, :1]

    def answer(hidden: torch.Tensor) -> torch.Tensor:
        return model.read_out(model.body.lstm(query, (hidden, cell))[0]).squeeze(-1)

    wanted = model(sample.xs, sample.ys)[:, -1:]
    torch.testing.assert_close(answer(hidden), wanted, rtol=0, atol=1e-12)
    assert (answer(0 * hidden) - wanted).abs().max() > 1e-4
    with pytest.raises(InputError, match="DecoderModel has none"):
        after_examples(MODELS.make("decoder").build(Linear(dims=3), 6), sample.xs, sample.ys)
