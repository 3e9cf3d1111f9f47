"""Solving a model block by block: the bare stream, as patched so far, against the prompted one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from inweights._errors import InputError
from inweights.folding._examples import Batch, Examples
from inweights.folding._parts import Part, Seen, Until, look, parts_of, with_attention
from inweights.models import Control, Model
from inweights.running import DEFAULT_LIMIT, Chain, Store, Walk, chain_of, full_precision
from inweights.theory import Update, exchanged, wide


class Fitting(Protocol):
    """Accumulates inputs and differences batch by batch, and computes the update; see `Ridge`."""

    def add(self, x: Tensor, y: Tensor, weight: Tensor) -> None: ...

    def update(self, W: Tensor | None = None) -> Update: ...


@dataclass(frozen=True)
class Rule:
    """How blocks are solved: the fits, each made for a matrix by name, and the weight of each token, `(b, T)`.

    `aim` is the difference that the last matrix is fitted to: of the block's output, or of the stream after attention.
    """

    weight: Callable[[Batch], Tensor]
    last: Callable[[str], Fitting]
    inputs: Callable[[str], Fitting] | None = None
    attention: Callable[[str], Fitting] | None = None
    aim: Literal["output", "stream"] = "output"


def ignore(done: int, of: int) -> None:
    """Ignores the progress."""


def solve_blocks(
    model: Model,
    examples: Examples,
    rule: Rule,
    batch_tokens: int = 1024,
    limit: int = DEFAULT_LIMIT,
    after: Callable[[int, int], None] = ignore,
) -> dict[str, Update]:
    """The updates of all blocks by a rule, each block on the outputs of the patched ones before it."""
    parts = parts_of(model)
    last = max((k for k, part in enumerate(parts) if not part.reason), default=-1)
    if last < 0:
        why = "; ".join(sorted({part.reason for part in parts}))
        raise InputError(f"No block of {model.name or 'this model'} can be folded in closed form: {why}.")
    if not len(examples):
        raise InputError("There are no examples to fold with.")
    updates: dict[str, Update] = {}
    with full_precision(model.model), torch.no_grad(), Store(limit) as store:
        chain = chain_of(model.model, [part.name for part in parts])
        layers = _Layers(rule, examples, chain, store, batch_tokens)
        for k, part in enumerate(with_attention(chain, parts)):
            if not part.reason:
                updates |= layers.solve(k, part)
            elif k < last:
                layers.bare.advance(k)
                layers.prompted.advance(k)
            after(k + 1, len(parts))
    return {name: update.named(name) for name, update in updates.items()}


class _Layers:
    """The two streams, and the passes over them that solve one block.

    The bare MLP runs once, and so does attention in each stream: the run for the attention's matrix ends where the
    MLP begins, and continues from there when that matrix is solved. (Where the attention cannot be left out of a
    block, the bare one runs twice.)
    """

    def __init__(self, rule: Rule, examples: Examples, chain: Chain, store: Store, batch_tokens: int) -> None:
        self.rule, self.store, self.net = rule, store, chain.net
        frame = examples.frame
        # The tokens before the context, which bare text has too, do not depend on it: there is nothing to fit.
        self.ahead = len(frame.before)
        batches = [batch for _, batch in examples.batches(batch_tokens)]
        self.weights = [rule.weight(batch)[:, self.ahead :] for batch in batches]
        if not any(bool((w > 0).any()) for w in self.weights):
            raise InputError("The examples have no tokens to fold with: each needs a query and an answer.")
        prefix = torch.tensor([*frame.before, *frame.folded], device=batches[0].ids.device)
        self.bare = Walk(chain, [batch.ids for batch in batches], store, "bare")
        self.prompted = Walk(chain, [batch.ids[:, self.ahead :] for batch in batches], store, "prompted", prefix)

    def solve(self, k: int, part: Part) -> dict[str, Update]:
        """The updates of one block, by parameter name. Both streams have passed it afterwards."""
        assert part.last is not None
        made: dict[Control, Update] = {}
        last = self.rule.last(part.last.name)
        attention = self.rule.attention(part.attention.name) if self.rule.attention and part.attention else None
        inputs = self.rule.inputs(part.inputs[0].name) if self.rule.inputs and part.inputs else None
        until: Until = "stream" if attention else "read" if inputs else "out"
        for i in range(len(self.bare)):
            goal = look(self.prompted, k, part, i)
            self.prompted[i] = there(goal.out)
            mine = look(self.bare, k, part, i, until=until)
            if attention:
                self._add(attention, i, mine.fed, goal.stream, mine.stream)
                self.store["goal", i], self.store["stream", i] = self._prompted(goal.stream), there(mine.stream)
                self.store["fed", i] = there(mine.fed)
            elif inputs:
                self._add(inputs, i, mine.read, goal.read, mine.read)
            else:
                self._close(last, part, i, mine, goal.stream)
        if attention and part.attention:
            made[part.attention] = attention.update()
            self._attended(part, made[part.attention], inputs)
        if inputs:
            made |= {c: inputs.update(self._matrix(c)) for c in part.inputs}
        if attention or inputs:
            skip = bool(attention and part.child)
            with exchanged(self.net, {c.name: self._changed(c, update) for c, update in made.items()}):
                for i in range(len(self.bare)):
                    self._close(last, part, i, look(self.bare, k, part, i, skip=skip))
        made[part.last] = last.update()
        for i in range(len(self.bare)):
            self.bare[i] = _plus(self.bare[i], made[part.last], self.store.pop(("inner", i)))
        return {c.name: update for c, update in made.items()}

    def _attended(self, part: Part, update: Update, inputs: Fitting | None) -> None:
        """The streams after attention with its update, and what the MLP's input still lacks then."""
        norm = self.net.get_submodule(part.entry)
        for i in range(len(self.bare)):
            stream = _plus(self.store.pop(("stream", i)), update, self.store.pop(("fed", i)))
            goal = self.store.pop(("goal", i))
            if inputs:
                z = norm(stream)
                self._fit(inputs, i, z, norm(goal) - z[:, self.ahead :])
            if part.child:  # the block continues from here
                self.bare[i] = stream

    def _close(self, last: Fitting, part: Part, i: int, mine: Seen, goal: Tensor | None = None) -> None:
        """Inputs and targets of the last matrix on a batch; the bare stream has passed the block but for that."""
        if self.rule.aim == "stream" and part.entry:
            self._add(last, i, mine.inner, goal, mine.stream)
        else:
            self._add(last, i, mine.inner, self.prompted[i], mine.out)
        self.store["inner", i], self.bare[i] = there(mine.inner), there(mine.out)

    def _add(self, fit: Fitting, i: int, x: Tensor | None, goal: Tensor | None, mine: Tensor | None) -> None:
        self._fit(fit, i, there(x), self._prompted(goal) - there(mine)[:, self.ahead :])

    def _fit(self, fit: Fitting, i: int, x: Tensor, missing: Tensor) -> None:
        fit.add(x[:, self.ahead :], missing, self.weights[i])

    def _prompted(self, goal: Tensor | None) -> Tensor:
        return self.prompted.rows(there(goal))

    def _matrix(self, control: Control) -> Tensor:
        """A matrix as `(out, in)`, however it is stored."""
        W = self.net.get_parameter(control.name).detach()
        return W.mT if control.transposed else W

    def _changed(self, control: Control, update: Update) -> Tensor:
        stored = update.mT if control.transposed else update
        return stored.added_to(self.net.get_parameter(control.name).detach())


def there(value: Tensor | None) -> Tensor:
    """A tensor that a run of a block must have recorded."""
    if value is None:
        raise InputError("A block of this model did not show the same parts again: it cannot be folded.")
    return value


def _plus(y: Tensor, update: Update, x: Tensor) -> Tensor:
    return (wide(y) + update(wide(x))).to(y.dtype)
