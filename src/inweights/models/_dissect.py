"""Looking inside one block: it is run again with gradients, and its structure is read off the graph."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from inweights.running import (
    Block,
    Control,
    Product,
    Tail,
    Tape,
    hidden,
    hooked,
    matrices,
    stream,
    with_stream,
    without_cache,
)


@dataclass
class _Norm:
    name: str
    module: nn.Module
    x: Tensor
    y: Tensor


def dissect(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Block:
    """Runs one block again, with gradients, and reads its structure off the graph."""
    prefix = f"{name}."
    watched = matrices(module, prefix)
    args, kwargs = without_cache(args, kwargs)
    with (
        _grounded(args, kwargs) as (args, kwargs, x),
        _norms(module, prefix) as norms,
        Tape(watched) as tape,
    ):
        out = hidden(module.forward(*args, **kwargs))
    products = [p for p in tape.products if p.made.requires_grad]
    if x is None or not products:
        return Block(name, reason="no product of its hidden states with a parameter was seen")
    if out.ndim != 3:
        return Block(name, reason=f"its output has {out.ndim} dimensions instead of 3")
    tail, norm, goal = _tail(out, norms, products)
    if goal is None:
        return Block(name, reason="no last matrix adds to its output through scaling alone")
    adding = _adding(goal, products, out.shape[1])
    last = _last(goal, adding, out.shape[1])
    names = {p.name for p in adding}
    inputs = _inputs(goal, [p for p in products if p.name not in names], x, out.shape[1])
    scale = shift = ""
    if tail == "branch-norm" and norm is not None:
        own = dict(norm.module.named_parameters())
        scale = f"{norm.name}.weight" if "weight" in own else ""
        shift = f"{norm.name}.bias" if "bias" in own else ""
    return Block(
        name,
        inputs=controls(inputs, watched),
        outputs=controls(last, watched),
        tail=tail,
        norm=norm.name if norm else "",
        scale=scale,
        shift=shift,
        unit=_is_unit(goal, last, out.shape[1]),
        entry=next((n.name for n in norms if inputs and _same(n.y.reshape(-1, n.y.shape[-1]), inputs[0].x[0])), ""),
    )


@contextmanager
def _grounded(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[Any, Any, Tensor | None]]:
    """The block's inputs with the hidden states as a leaf of the graph."""
    x = stream(args, kwargs)
    if x is None:
        yield args, kwargs, None
        return
    leaf = x.detach().clone().requires_grad_()
    yield *with_stream(args, kwargs, leaf), leaf


@contextmanager
def _norms(module: nn.Module, prefix: str) -> Iterator[list[_Norm]]:
    """The leaf modules that behave as norms: their output keeps its size when their input is doubled."""
    seen: list[_Norm] = []
    busy = False

    def hook(name: str) -> Any:
        def look(m: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], y: Any) -> None:
            nonlocal busy
            if busy or not isinstance(y, Tensor) or not args or not isinstance(args[0], Tensor):
                return
            x = args[0]
            if x.shape != y.shape or any(p.ndim > 1 for p in m.parameters()):
                return
            busy = True
            with torch.no_grad():
                # Far from zero, where the ε of the norm does not count.
                big = m.forward(x.detach() * 1e4, *args[1:]), m.forward(x.detach() * 2e4, *args[1:])
            busy = False
            if torch.allclose(big[0], big[1], rtol=1e-3, atol=1e-6) and not torch.allclose(big[0], x.detach() * 1e4):
                seen.append(_Norm(prefix + name, m, x, y))

        return look

    leaves = [(name, m) for name, m in module.named_modules() if name and not any(True for _ in m.children())]
    with hooked(after=[(m, hook(name)) for name, m in leaves]):
        yield seen


def _tail(out: Tensor, norms: list[_Norm], products: list[Product]) -> tuple[Tail, _Norm | None, Tensor | None]:
    """The operations between the last matrices and the output, and the tensor that these matrices add to."""
    tokens = out.shape[1]
    if _adding(out, products, tokens):
        return "sum", None, out
    for norm in reversed(norms):
        if norm.y.shape != out.shape or not norm.x.requires_grad:
            continue
        if _same(norm.y, out) and _adding(norm.x, products, tokens):
            return "post-norm", norm, norm.x
        if _scales(out, norm.y, tokens) and _adding(norm.x, products, tokens):
            return "branch-norm", norm, norm.x
    return "sum", None, None


def _same(a: Tensor, b: Tensor) -> bool:
    return a is b or (a.shape == b.shape and torch.equal(a, b))


def _probe(goal: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """Two cotangents at the last token: ones, and noise. `goal` has shape `(1, tokens, width)`."""
    ones, noise = torch.zeros_like(goal), torch.zeros_like(goal)
    ones[:, tokens - 1] = 1
    generator = torch.Generator().manual_seed(0)
    r = torch.randn(goal.shape[-1], generator=generator, dtype=torch.float64).to(goal)
    noise[:, tokens - 1] = r
    return ones, noise


def _scales(goal: Tensor, source: Tensor, tokens: int) -> bool:
    """Whether `source` reaches `goal`, at the last token, by scaling its coordinates and nothing else."""
    ones, noise = _probe(goal, tokens)
    g1, g2 = (torch.autograd.grad(goal, source, c, retain_graph=True, allow_unused=True)[0] for c in (ones, noise))
    return g1 is not None and g2 is not None and _diagonal(g1, g2, noise[0, tokens - 1])


def _diagonal(g1: Tensor, g2: Tensor, r: Tensor) -> bool:
    if g1.shape[-1] != r.shape[0] or not bool((g1 != 0).any()) or not bool(g1.isfinite().all()):
        return False
    tolerance = 1e-6 if g1.dtype == torch.float64 else 1e-3
    return torch.allclose(g2, g1 * r, rtol=tolerance, atol=tolerance * float(g1.abs().max()))


def _adding(goal: Tensor, products: list[Product], tokens: int) -> list[Product]:
    """The products that add to `goal` through scaling alone."""
    ones, noise = _probe(goal, tokens)
    made = [p.made for p in products]
    g1s = torch.autograd.grad(goal, made, ones, create_graph=True, allow_unused=True)
    g2s = torch.autograd.grad(goal, made, noise, retain_graph=True, allow_unused=True)
    r = noise.reshape(-1, goal.shape[-1])[tokens - 1]
    return [
        p
        for p, g1, g2 in zip(products, g1s, g2s, strict=True)
        if g1 is not None
        and g2 is not None
        and _diagonal(p.rows(g1).detach(), p.rows(g2), r)
        and _constant(g1, p.made)
        and _alone(p, p.rows(g1), tokens)
    ]


def _alone(p: Product, g: Tensor, tokens: int) -> bool:
    """Whether a row affects its own token only: a convolution behind the last matrix would mix them."""
    return p.experts is not None or p.x.shape[1] != tokens or not bool((g[0, :-1] != 0).any())


def _constant(g: Tensor, made: Tensor) -> bool:
    """Whether the scaling does not depend on what is scaled: a sigmoid acts on coordinates too, but is not linear."""
    if not g.requires_grad:
        return True
    bend = torch.autograd.grad(g.sum(), made, retain_graph=True, allow_unused=True)[0]
    return bend is None or not bool((bend.abs() > 1e-9 * g.detach().abs().max()).any())


def _last(goal: Tensor, adding: list[Product], tokens: int) -> list[Product]:
    """The output controls among them: one that serves every token is enough, otherwise all together.

    A matrix behind a gate does not serve every token: the gate may be closed.
    """
    for p in reversed(adding):
        if p.experts is None and p.x.shape[1] == tokens and not _scale(goal, p, tokens).requires_grad:
            return [p]
    return adding


def _scale(goal: Tensor, p: Product, tokens: int) -> Tensor:
    """The factor of a product in `goal`, `(rows, out)`; without a graph if it is a constant."""
    ones, _ = _probe(goal, tokens)
    return p.rows(torch.autograd.grad(goal, p.made, ones, create_graph=True)[0])[0]


def _is_unit(goal: Tensor, last: list[Product], tokens: int) -> bool:
    if len(last) != 1 or last[0].experts is not None:
        return False
    g = _scale(goal, last[0], tokens)
    # A gate that happens to be fully open passes a gradient of 1 as well, but one that depends on something.
    return not g.requires_grad and bool((g[-1] == 1).all()) and bool((g[:-1] == 0).all())


def _inputs(goal: Tensor, products: list[Product], x: Tensor, tokens: int) -> list[Product]:
    """The products that read the input of the MLP: it depends on other tokens, and acts on its own token alone."""
    _, noise = _probe(goal, tokens)
    made = [p.made for p in products]
    influence = torch.autograd.grad(goal, made, noise, retain_graph=True, allow_unused=True) if made else ()
    for p, g in zip(reversed(products), reversed(influence), strict=True):
        if g is None or not bool((g != 0).any()) or p.x.shape[1] != tokens or p.experts is not None:
            continue
        if bool((p.rows(g)[0, :-1] != 0).any()) or not p.x.requires_grad:
            continue  # it acts on later tokens too: part of the contextual layer
        seen = torch.autograd.grad(p.x[0, -1].sum(), x, retain_graph=True, allow_unused=True)[0]
        if seen is None or not bool((seen.reshape(tokens, -1)[:-1] != 0).any()):
            continue  # it does not see the context
        z = p.x[0]
        return [p, *(q for q in products if q is not p and q.x.shape[-1] == z.shape[-1] and _rows_of(q.x, z))]
    return []


def _rows_of(rows: Tensor, z: Tensor) -> bool:
    """Whether all rows are rows of `z`: the tokens that an expert was given."""
    flat = rows.reshape(-1, rows.shape[-1])
    if len(flat) == 0 or len(flat) > 64 * len(z):
        return False
    return bool((flat.unsqueeze(1) == z).all(-1).any(-1).all())


def controls(products: list[Product], watched: dict[str, Tensor]) -> tuple[Control, ...]:
    seen = {
        p.name: Control(p.name, p.transposed, watched[p.name].shape[0] if watched[p.name].ndim == 3 else 0)
        for p in products
    }
    return tuple(seen.values())
