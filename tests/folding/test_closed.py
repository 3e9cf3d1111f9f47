"""The closed form: exact where it can be, the ridge that it says it is, and better than simpler folds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from solving import answers, changed, examples, losses, model, same
from torch import Tensor

from inweights import InputError
from inweights.folding._closed import closed_form
from inweights.folding._examples import Examples
from inweights.folding._layers import _Layers
from inweights.folding._parts import left_out, parts_of, with_attention
from inweights.folding._ridge import RidgeFit
from inweights.folding._simple import mean_rank_one, thought_vector
from inweights.running._hidden import run
from inweights.running._precision import KeepFloat64
from inweights.running._walk import chain_of
from inweights.theory import Update, exchanged

FAMILIES = ["llama", "gpt2", "qwen3", "phi", "bloom", "opt", "mamba"]


# --- what it does ------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [(1,), ()])
@pytest.mark.parametrize("family", FAMILIES)
def test_few_tokens_are_folded_exactly(family: str, before: tuple[int, ...]) -> None:
    """With fewer tokens than inputs and next to no ridge, the fold is a static patch."""
    of = model(family)
    made = examples(of, 4, before)
    updates = closed_form(of, made, ridge=1e-12)
    goal = answers(of, made, prompted=True)
    assert float((answers(of, made, updates) - goal).abs().max()) < 1e-6
    assert float((answers(of, made) - goal).abs().max()) > 1e-2


@pytest.mark.parametrize("family", FAMILIES)
def test_the_closed_form_beats_the_simpler_folds_and_doing_nothing(family: str) -> None:
    of = model(family)
    made = examples(of, 40)
    ours, ranked, bare, mean, mean_ranked, vector = losses(
        of, made, closed_form(of, made), closed_form(of, made, rank=4), None,
        mean_rank_one(of, made), mean_rank_one(of, made, rank=4), thought_vector(of, made),
    )  # fmt: skip
    assert ours <= ranked <= bare
    assert ours < 0.7 * bare
    assert ours <= mean
    assert ranked <= mean_ranked
    assert ours <= vector


def test_it_does_what_the_formulas_say() -> None:
    """Against the three regressions of each Llama layer, written out on dense matrices of all tokens at once."""
    of = model()
    made = examples(of, 30)
    net, result = of.model, {}
    with KeepFloat64(), torch.no_grad():
        batch = made.batch(list(range(30)))
        w = torch.where(batch.answers, 10.0, 1.0)[:, 1:][batch.real[:, 1:]]
        full = torch.cat([batch.ids[:, :1], torch.tensor(made.frame.folded).expand(30, -1), batch.ids[:, 1:]], 1)
        goal, h = net.model.embed_tokens(full), net.model.embed_tokens(batch.ids)

        def attended(layer: torch.nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
            fed: list[Tensor] = []
            hook = layer.self_attn.o_proj.register_forward_pre_hook(lambda m, a: fed.append(a[0]))
            n = x.shape[1]
            rope = net.model.rotary_emb(x, torch.arange(n).unsqueeze(0))
            mask = torch.full((n, n), -torch.inf).triu(1).expand(1, 1, n, n)
            a = layer.self_attn(layer.input_layernorm(x), position_embeddings=rope, attention_mask=mask)[0]
            hook.remove()
            return x + a, fed[0]

        def ridge(x: Tensor, y: Tensor) -> Tensor:
            X, Y = x[:, 1:][batch.real[:, 1:]], y[:, -x.shape[1] + 1 :][batch.real[:, 1:]]
            Xw = X * w.unsqueeze(-1)
            G = Xw.mT @ X
            return torch.linalg.solve(G + 0.3 * G.diagonal().mean() * torch.eye(len(G)), Xw.mT @ Y).mT

        for k, layer in enumerate(net.model.layers):
            T = h.shape[1]
            v_goal, (v, fed) = attended(layer, goal)[0], attended(layer, h)
            o = ridge(fed, v_goal[:, -T:] - v)
            v = v + fed @ o.mT
            z_goal, z = (layer.post_attention_layernorm(x) for x in (v_goal, v))
            M = ridge(z, z_goal[:, -T:] - z)
            gate, up = (m.weight @ (torch.eye(len(M)) + M) for m in (layer.mlp.gate_proj, layer.mlp.up_proj))
            inner = layer.mlp.act_fn(z @ gate.mT) * (z @ up.mT)
            goal, h = v_goal + layer.mlp(z_goal), v + layer.mlp.down_proj(inner)
            down = ridge(inner, goal[:, -T:] - h)
            h = h + inner @ down.mT
            at = f"model.layers.{k}."
            result[f"{at}self_attn.o_proj.weight"], result[f"{at}mlp.down_proj.weight"] = o, down
            result[f"{at}mlp.gate_proj.weight"] = layer.mlp.gate_proj.weight @ M
            result[f"{at}mlp.up_proj.weight"] = layer.mlp.up_proj.weight @ M
    updates = closed_form(of, made)
    assert updates.keys() == result.keys()
    for name, update in updates.items():
        assert update.name == name
        torch.testing.assert_close(update.dense(), result[name], rtol=0, atol=1e-9)


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi", "mamba"])
def test_many_batches_and_spilling_change_nothing(family: str) -> None:
    of = model(family)
    made = examples(of, 20)
    whole = closed_form(of, made, batch_tokens=10_000, rank=5)
    same(closed_form(of, made, batch_tokens=16, rank=5), whole)
    same(closed_form(of, made, batch_tokens=40, rank=5, limit=0), whole)
    same(closed_form(of, made, batch_tokens=40, rank=5, limit=10_000), whole)


@pytest.mark.parametrize("family", ["llama", "gpt2", "bloom"])
def test_what_is_solved_on_is_what_the_patched_model_says(family: str) -> None:
    """The stream after the last block, cut updates and all, is that of a plain forward with these weights."""
    of = model(family)
    made = examples(of, 12)
    streams: list[Tensor] = []

    class Watching(_Layers):
        def solve(self, k: int, part: object) -> dict[str, Update]:
            result = super().solve(k, part)  # type: ignore[arg-type]
            streams.append(self.bare[0].clone())
            return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("inweights.folding._layers._Layers", Watching)
        updates = closed_form(of, made, rank=3, batch_tokens=10_000)
    last, seen = of.anatomy.blocks[-1].name, []
    with KeepFloat64(), torch.no_grad(), exchanged(of.model, changed(of, updates)):
        hook = of.model.get_submodule(last).register_forward_hook(lambda m, a, o: seen.append(o))
        run(of.model, made.batches(10_000)[0][1].ids)
        hook.remove()
    out = seen[0] if isinstance(seen[0], Tensor) else seen[0][0]
    torch.testing.assert_close(streams[-1], out, rtol=0, atol=1e-9)


@pytest.mark.parametrize("fold", [closed_form, mean_rank_one, thought_vector])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_the_model_is_left_unchanged(family: str, fold: Callable[..., dict[str, Update]]) -> None:
    of = model(family)
    held = dict(of.model.named_parameters())
    before = {name: p.detach().clone() for name, p in held.items()}
    fold(of, examples(of, 6))
    assert all(p is held[name] and torch.equal(p, before[name]) for name, p in of.model.named_parameters())
    assert not any("forward" in vars(m) or m._forward_hooks or m._forward_pre_hooks for m in of.model.modules())


@pytest.mark.parametrize("fold", [closed_form, mean_rank_one, thought_vector])
def test_the_first_token_is_not_fitted(fold: Callable[..., dict[str, Update]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor padding; and answers count ten times in the closed form, and alone in the others."""
    seen: list[Tensor] = []
    fit = _Layers._fit

    def noting(self: _Layers, f: RidgeFit, i: int, x: Tensor, missing: Tensor) -> None:
        seen.append(self.weights[i])
        fit(self, f, i, x, missing)

    monkeypatch.setattr(_Layers, "_fit", noting)
    of = model()
    made = examples(of, 5, before=())
    fold(of, made, batch_tokens=10_000)
    (_, batch) = made.batches(10_000)[0]
    rest = torch.where(batch.answers, 10.0, 1.0) * batch.real if fold is closed_form else batch.answers.float()
    rest[:, 0] = 0
    assert seen
    assert all(torch.equal(w, rest) for w in seen)


def test_attention_and_mlp_run_once_in_each_stream() -> None:
    of = model()
    made = examples(of, 8)
    runs = {"self_attn": 0, "mlp": 0}
    batches = len(made.batches(24))

    def note(name: str) -> Callable[..., None]:
        def hook(m: object, args: object, kwargs: dict[str, Tensor]) -> None:
            runs[name] += 1

        return hook

    counted: list[dict[str, int]] = []
    hooks = [
        of.model.get_submodule(f"model.layers.1.{name}").register_forward_pre_hook(note(name), with_kwargs=True)
        for name in runs
    ]
    _ = of.anatomy, parts_of(of)
    closed_form(of, made, batch_tokens=24, after=lambda done, of: counted.append(dict(runs)))
    for hook in hooks:
        hook.remove()
    assert batches > 1
    # The attention is called again, but by a stand-in that adds nothing; the bare MLP runs once it is solved.
    assert counted[1]["mlp"] - counted[0]["mlp"] == 2 * batches
    assert counted[1]["self_attn"] - counted[0]["self_attn"] == 3 * batches


def test_the_matrix_of_the_attention_is_found() -> None:
    result = {}
    for family in ("llama", "gpt2", "bloom", "phi"):
        of = model(family)
        with KeepFloat64(), torch.no_grad():
            parts = with_attention(chain_of(of.model, [b.name for b in of.anatomy.blocks]), parts_of(of))
        control = parts[0].attention
        result[family] = (control.name.rpartition("h.0.")[2], control.transposed) if control else None
        assert bool(parts[0].child) == (family in ("llama", "gpt2")), "Bloom adds the stream inside its attention"
    assert result == {
        "llama": ("model.layers.0.self_attn.o_proj.weight", False),
        "gpt2": ("attn.c_proj.weight", True),
        "bloom": ("self_attention.dense.weight", False),
        "phi": None,
    }


@pytest.mark.parametrize(("family", "why"), [("gemma2", "a norm stands"), ("mixtral", "it has experts")])
def test_models_without_a_block_to_solve_are_named(family: str, why: str) -> None:
    of = model(family)
    assert {reason.startswith(why) for reason in left_out(of).values()} == {True}
    assert list(left_out(of)) == [b.name for b in of.anatomy.blocks]
    with pytest.raises(InputError, match=f"No block of {of.name} can be folded in closed form: {why}"):
        closed_form(of, examples(of, 3))


def test_blocks_that_cannot_be_solved_are_passed_by() -> None:
    """A model of dense blocks and mixtures: the dense ones are folded, and the stream goes on through the rest."""
    of = model("deepseek_v3")
    made = examples(of, 30)
    passed = left_out(of)
    assert 0 < len(passed) < len(of.anatomy.blocks)
    done: list[tuple[int, int]] = []
    updates = closed_form(of, made, after=lambda *now: done.append(now))
    assert not any(name.startswith(f"{block}.") for name in updates for block in passed)
    n = len(of.anatomy.blocks)
    assert done == [(k + 1, n) for k in range(n)]
    folded, bare = losses(of, made, updates, None)
    assert folded < bare


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_solves_in_float32(dtype: torch.dtype) -> None:
    of, exact = model(dtype=dtype), model()
    updates = closed_form(of, examples(of, 20))
    assert {u.u.dtype for u in updates.values()} == {torch.float32}
    goal = closed_form(exact, examples(exact, 20))
    for name in goal:
        off = torch.linalg.norm(updates[name].dense() - goal[name].dense()) / goal[name].frobenius()
        assert float(off) < (0.2 if dtype == torch.bfloat16 else 1e-4), name


def test_arguments_are_checked_together() -> None:
    of = model()
    with pytest.raises(InputError, match=r"(?s)`ridge` is 0.*`answer_weight` is -1.*`rank` is 0.*`energy` is 2"):
        closed_form(of, examples(of, 2), ridge=0, answer_weight=-1, rank=0, energy=2)
    with pytest.raises(InputError, match="`rank` is 0"):
        mean_rank_one(of, examples(of, 2), rank=0)
    with pytest.raises(InputError, match="no examples"):
        closed_form(of, examples(of, 0))


# --- the simple ones ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["llama", "gpt2", "phi"])
def test_the_simple_folds_help_and_have_their_rank(family: str) -> None:
    of = model(family)
    made = examples(of, 40)
    vectors, means = thought_vector(of, made), mean_rank_one(of, made, rank=3)
    assert {u.columns for u in vectors.values()} == {1}
    assert {u.columns for u in means.values()} == {3}
    assert len(vectors) == 3
    with_vectors, with_means, bare = losses(of, made, vectors, means, None)
    assert with_vectors < bare
    assert with_means < bare


def test_one_token_gives_the_theorem() -> None:
    """With one answer token the mean of the rank-one updates is the theorem's own, and exact."""
    of = model()
    made = examples(of, 1)
    made = Examples(made.frame, made.queries, made.asked, (made.answers[0][:1],))
    updates = mean_rank_one(of, made)
    assert {int(u.rank(1e-9)) for u in updates.values()} == {1}
    torch.testing.assert_close(answers(of, made, updates), answers(of, made, prompted=True), rtol=0, atol=1e-9)


# --- the regression ----------------------------------------------------------------------------------
