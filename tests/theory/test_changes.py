"""Changes are values: a module runs with them and is never left with them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from inweights import Changes, InputError, Shift, Update


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()


def changes(batch: tuple[int, ...] = ()) -> Changes:
    g = torch.Generator().manual_seed(1)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(*batch, *shape, generator=g, dtype=torch.float64)

    return Changes((Update(randn(4, 1), randn(3, 1), "0.weight"), Shift(randn(2), "2.bias")))


def test_applied_runs_the_modules_own_forward_and_restores_every_bit() -> None:
    net, x = module(), torch.ones(3, dtype=torch.float64)
    before = {name: (p, p.clone()) for name, p in net.named_parameters()}
    plain = net(x)
    with changes().applied(net) as inside:
        assert inside is net
        changed = net(x)
    assert not torch.allclose(changed, plain)
    for name, p in net.named_parameters():
        assert p is before[name][0]
        assert torch.equal(p, before[name][1])
        assert p.requires_grad
    assert torch.equal(net(x), plain)


def test_an_exception_restores_too() -> None:
    net = module()
    before = list(net.parameters())
    with pytest.raises(RuntimeError, match="on purpose"), changes().applied(net):
        raise RuntimeError("on purpose")
    assert all(p is q for p, q in zip(net.parameters(), before, strict=True))


def test_changes_nest() -> None:
    net, x = module(), torch.ones(3, dtype=torch.float64)
    plain = net(x)
    with changes().applied(net):
        once = net(x)
        with changes().applied(net):
            assert not torch.allclose(net(x), once)
        assert torch.equal(net(x), once)
    assert torch.equal(net(x), plain)


@pytest.mark.parametrize("chunk", [None, 1, 4])
def test_a_batch_of_changes_runs_each_with_its_own_input(chunk: int | None) -> None:
    net, many = module(), changes((2, 3))
    x = torch.randn(2, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    got = many.run(net, x, chunk=chunk)
    for i in range(2):
        for j in range(3):
            one = Changes((many.updates[0][i, j], Shift(many.shifts[0].delta[i, j], "2.bias")))
            with one.applied(net):
                torch.testing.assert_close(got[i, j], net(x[i, j]))
            torch.testing.assert_close(one.run(net, x[i, j]), got[i, j])


def test_all_problems_are_listed_at_once() -> None:
    wrong = Changes((Update(torch.ones(5, 1), torch.ones(3, 1), "0.weight"), Shift(torch.ones(2), "9.bias")))
    with pytest.raises(InputError) as error, wrong.applied(module()):
        pass
    assert "'0.weight' has shape (5, 3), but the parameter is (4, 3)" in str(error.value)
    assert "no parameter named '9.bias'" in str(error.value)


def test_changes_are_accessed_by_name() -> None:
    some = changes()
    assert some["2.bias"] is some.items[1]
    with pytest.raises(InputError, match=r"There is no change of '2.bia'; did you mean 2.bias"):
        _ = some["2.bia"]


def test_a_parameter_cannot_be_changed_twice() -> None:
    with pytest.raises(InputError, match=r"'2\.bias' would be changed twice"):
        Changes(changes().shifts * 2)


def test_a_batch_is_run_not_applied() -> None:
    many = changes((2,))
    with pytest.raises(InputError, match=r"changes for a batch \(2,\).*use `.run"), many.applied(module()):
        pass
    with pytest.raises(InputError, match=r"An argument has shape \(3,\), but these changes are for a batch \(2,\)"):
        many.run(module(), torch.ones(3, dtype=torch.float64))


def test_random_changes_have_the_same_norms() -> None:
    some = changes((2,))
    other = some.random_like(2)
    torch.testing.assert_close(other.updates[0].frobenius(), some.updates[0].frobenius())
    torch.testing.assert_close(other.shifts[0].delta.norm(dim=-1), some.shifts[0].delta.norm(dim=-1))
    assert some.updates[0].alignment(other.updates[0]).abs().max() < 0.9
