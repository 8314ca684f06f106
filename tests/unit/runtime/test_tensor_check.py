"""Arguments that only look like those that were checked before are checked again."""

from __future__ import annotations

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError, LostGradient
from glasshouse.runtime.module import Module
from glasshouse.runtime.tensor_check import LEARNED, Learner, never

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def doubled() -> Module:
    return gh.compile(lambda x: x * 2.0, gh.spec((3, 4)))


def known_to(module: Module) -> None:
    """Calls after which plain tensors and arrays are known."""
    x = torch.ones(3, 4)
    for _ in range(2):
        module(x)
        module.run_with_tensors([x], [torch.empty(3, 4)])
        module(x.numpy())


def test_what_is_known_is_told_from_everything_else() -> None:
    check = Learner([True])(torch.ones(3, 4))
    assert check(torch.zeros(3, 4))
    others = (
        torch.ones(3, 5),
        torch.ones(4, 3).T,
        torch.ones(3, 4, dtype=torch.float64),
        torch.ones(3, 4, requires_grad=True),
        torch._neg_view(torch.ones(3, 4)),
        torch.ones(3, 4).to_sparse(),
        torch.ones(3, 4, device="meta"),
        torch.nn.Parameter(torch.ones(3, 4), requires_grad=False),
        np.ones((3, 4), np.float32),
        None,
    )
    assert not any(check(x) for x in others)


def test_sizes_that_vary_are_not_compared() -> None:
    check = Learner([False, True])(torch.ones(3, 4), torch.ones(2))
    assert check(torch.ones(7, 1), torch.ones(2))
    assert not check(torch.ones(7, 1), torch.ones(3))
    assert not check(torch.ones(7), torch.ones(2))


def test_learning_ends() -> None:
    learn = Learner([True])
    checks = [learn(torch.ones(i + 1)) for i in range(LEARNED + 4)]
    assert checks[-1] is checks[LEARNED - 1]
    assert not never(torch.ones(1))


def test_tensors_of_other_kinds_after_plain_ones(doubled: Module) -> None:
    known_to(doubled)
    negative = torch._neg_view(torch.full((3, 4), 3.0))  # as an imaginary part, but contiguous
    assert negative.is_neg()
    assert negative.is_contiguous()
    torch.testing.assert_close(doubled(negative), torch.full((3, 4), -6.0))
    torch.testing.assert_close(doubled(torch.ones(4, 3).T), torch.full((3, 4), 2.0))
    with pytest.warns(LostGradient):
        doubled(torch.ones(3, 4, requires_grad=True))
    with torch.inference_mode():
        for x in (torch.ones(3, 4), torch.ones(3, 4)):
            torch.testing.assert_close(doubled(x), torch.full((3, 4), 2.0))
    with pytest.raises(ExecutionError, match="got"):
        doubled(torch.ones(3, 4).to_sparse())
    with pytest.raises(ExecutionError, match="must be"):
        doubled(torch.ones(3, 4, dtype=torch.float64))


def test_tensors_that_are_not_contiguous_stay_on_the_quick_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def general(*_: object) -> None:
        raise AssertionError("a call took the general path")

    fixed = gh.compile(lambda x, y: x * 2.0 + y, gh.spec((3, 4)), gh.spec((3, 4)))
    varying = gh.compile(lambda x: x * 2.0, gh.spec(("n", 4)))
    y = torch.rand(3, 4)
    others = [torch.rand(4, 3).T, torch.rand(3, 1).expand(3, 4), torch.rand(6, 8)[::2, ::2]]
    for module, beside in ((fixed, [y]), (varying, [])):
        module(torch.ones(3, 4), *beside)
        monkeypatch.setattr(type(module), "_run", general)
        for x in [*others, torch.rand(3, 4), *others]:
            wanted = x * 2.0 + (y if beside else 0.0)
            torch.testing.assert_close(module(x, *beside), wanted)
            out = torch.empty(3, 4)
            module.run_with_tensors([x, *beside], [out])
            torch.testing.assert_close(out, wanted)
        monkeypatch.undo()
    whole = torch.rand(4, 4)  # an output over a part of an argument that is copied before
    wanted = whole.T * 2.0
    varying.run_with_tensors([whole.T], [whole])
    torch.testing.assert_close(whole, wanted)


def test_outputs_of_other_kinds_after_plain_ones(doubled: Module) -> None:
    known_to(doubled)
    x = torch.ones(3, 4)
    frozen = np.zeros((3, 4), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(ExecutionError, match="read-only"):
        doubled.run_with_tensors([x.numpy()], [frozen])
    assert not frozen.any()
    with pytest.raises(ExecutionError, match="contiguous"):
        doubled.run_with_tensors([x], [torch.empty(4, 3).T])
    negative = torch._neg_view(torch.zeros(3, 4))
    with pytest.raises(ExecutionError, match="negated"):
        doubled.run_with_tensors([x], [negative])


def test_read_only_and_empty_arrays_are_taken(doubled: Module) -> None:
    x = np.ones((3, 4), np.float32)
    x.flags.writeable = False
    for _ in range(2):
        np.testing.assert_array_equal(doubled(x), np.full((3, 4), 2, np.float32))
        np.testing.assert_array_equal(doubled(np.ones((4, 3), np.float32).T), x * 2)
    none = gh.compile(lambda x: x * 2.0, gh.spec((0, 4)))
    for _ in range(2):
        assert none(np.ones((0, 4), np.float32)).shape == (0, 4)
