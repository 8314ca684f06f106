"""Steps that PyTorch or Python runs, on the quick path: prepared once, right in every call."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.runtime import quick_fallback
from glasshouse.runtime.general_run import Run

torch = pytest.importorskip("torch")

ROWS = {"x": {0: torch.export.Dim("n", min=2, max=16)}}


def not_the_general_path(*_: Any) -> None:
    raise AssertionError("a plain call took the general path")


class Factors(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        u, s, v = torch.linalg.svd(x * 2 + 1, full_matrices=False)
        return s, (u * s) @ v, s.sum()


def same(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-4, atol=1e-4)


def test_steps_are_prepared_once_and_calls_leave_the_general_path(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = {"prepared": 0, "views": 0}
    prepare, views = quick_fallback.PreparedStep.__init__, quick_fallback.QuickFallbacks.views

    def counted(self: Any, *given: Any) -> None:
        counts["prepared"] += 1
        prepare(self, *given)

    def looked(self: Any, workspace: Any) -> Any:
        counts["views"] += 1
        return views(self, workspace)

    monkeypatch.setattr(quick_fallback.PreparedStep, "__init__", counted)
    monkeypatch.setattr(quick_fallback.QuickFallbacks, "views", looked)
    module = gh.compile(Factors(), torch.randn(6, 4))
    monkeypatch.setattr(Run, "execute", not_the_general_path)
    for _ in range(3):
        x = torch.randn(6, 4)
        same(module(x), Factors()(x))
        same(module(x.numpy()), Factors()(x))
    assert counts == {"prepared": 1, "views": 1}


def test_results_of_a_call_are_not_those_of_the_next() -> None:
    x, y = torch.randn(6, 4), torch.randn(6, 4)
    module = gh.compile(Factors(), x)
    first = module(x)
    before = [t.clone() for t in first]
    module(y)
    assert all(torch.equal(a, b) for a, b in zip(first, before, strict=True))
    into = [torch.empty_like(t) for t in first]
    module.run_with_tensors([y], into)
    same(into, Factors()(y))
    read_only = x.numpy().copy()
    read_only.flags.writeable = False
    same(module(read_only), Factors()(x))


def test_threads_share_no_memory() -> None:
    given = [torch.randn(6, 4) for _ in range(4)]
    wanted = [Factors()(x) for x in given]
    module = gh.compile(Factors(), given[0], num_runtimes=2)
    wrong: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(20):
                same(module(given[number]), wanted[number])
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_step_that_fails_says_what_and_where() -> None:
    x = torch.randn(6, 4)
    module = gh.compile(Factors(), x)
    same(module(x), Factors()(x))
    with pytest.raises(ExecutionError, match=r"failed on operands of shape \[6, 4\]") as caught:
        module(torch.full((6, 4), float("nan")))
    assert "non-finite" in str(caught.value)
    assert "test_quick_fallback.py" in str(caught.value)
    same(module(x), Factors()(x))


class Alone(torch.nn.Module):
    """PyTorch's steps make every output."""

    def forward(self, x: Any) -> Any:
        return torch.linalg.eigh(x)


class Read(torch.nn.Module):
    """Kernels read what PyTorch lays by columns, and it is an output too."""

    def forward(self, x: Any) -> Any:
        values, vectors = torch.linalg.eigh(x)
        return vectors, vectors * values


def symmetric() -> Any:
    x = torch.randn(5, 5)
    return x + x.T


def test_what_is_only_handed_over_lies_as_pytorch_has_it() -> None:
    module = gh.compile(Alone(), symmetric())
    for _ in range(3):
        x = symmetric()
        found, wanted = module(x), Alone()(x)
        assert found.eigenvectors.stride() == wanted.eigenvectors.stride() == (1, 5)
        assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
        into = [torch.empty(5), torch.empty(5, 5)]
        module.run_with_tensors([x], into)
        assert all(torch.equal(a, b) for a, b in zip(into, wanted, strict=True))
        same(module(x.numpy()), wanted)


def test_what_is_read_again_is_contiguous() -> None:
    module = gh.compile(Read(), symmetric())
    for _ in range(3):
        x = symmetric()
        found, wanted = module(x), Read()(x)
        assert found[0].is_contiguous()
        same(found, wanted)


def test_without_kernels_no_workspace_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    module = gh.compile(Alone(), symmetric())
    module(symmetric())

    def taken() -> None:
        raise AssertionError("no memory of the run's own takes part")

    monkeypatch.setattr(module._runtimes, "take", taken)
    x = symmetric()
    same(module(x), Alone()(x))


class Routed(torch.nn.Module):
    """Steps that decide how many rows there are, one of them from what kernels made of such
    rows."""

    def forward(self, x: Any) -> Any:
        kept = x[:, 0] > 0
        rows = x[kept] * 2 + 1
        out = torch.zeros_like(x)
        out[kept] = rows
        return out, (rows[rows[:, 1] > 1] * 3).sum(0)


def rows_of(count: int) -> list[Any]:
    """Ones of which a mask keeps some, all, and none."""
    x = torch.randn(count, 5)
    return [x, x.abs() + 0.1, -x.abs() - 0.1, torch.randn(count, 5)]


@pytest.mark.parametrize("dynamic", [False, True])
def test_sizes_that_steps_decide_take_the_quick_path(
    dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = gh.compile(Routed(), torch.randn(6, 5), dynamic_shapes=ROWS if dynamic else None)
    monkeypatch.setattr(Run, "execute", not_the_general_path)
    for count in (6, 16, 2, 6) if dynamic else (6, 6):
        for x in rows_of(count):
            same(module(x), Routed()(x))
            same(module(x.numpy()), Routed()(x))
            into = [torch.empty(count, 5), torch.empty(5)]
            module.run_with_tensors([x], into)
            same(into, Routed()(x))


class Decided(torch.nn.Module):
    """Outputs whose sizes steps decide: a step's result, a kernel's of it, one twice, and one that
    two steps decide."""

    def forward(self, x: Any) -> Any:
        kept = x[x[:, 0] > 0]
        few = x[x[:, 1] > 0.5, 1]
        twice = kept * 2
        return kept, twice, x.max(), twice, kept[:, :1] * few


@pytest.mark.parametrize("dynamic", [False, True])
def test_outputs_of_decided_sizes_take_the_quick_path(
    dynamic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = gh.compile(Decided(), torch.randn(6, 5), dynamic_shapes=ROWS if dynamic else None)
    given = [x for count in ((6, 16, 2, 6) if dynamic else (6,)) for x in rows_of(count)]
    for x in given:  # buffers of a caller's: the general path sees whether they fit
        into = [torch.empty_like(t) for t in Decided()(x)]
        module.run_with_tensors([x], into)
        same(into, Decided()(x))

    monkeypatch.setattr(Run, "execute", not_the_general_path)
    found = [module(x) for x in given]
    for x, outputs in zip(given, found, strict=True):
        assert [t.shape for t in outputs] == [t.shape for t in Decided()(x)]
        same(outputs, Decided()(x))
        same(module(x.numpy()), Decided()(x))


@pytest.mark.parametrize("function", [torch.nonzero, torch.unique, torch.bincount])
def test_a_function_whose_result_data_sizes_takes_the_quick_path(
    function: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Function(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return function(x)

    module = gh.compile(Function(), torch.arange(7))
    monkeypatch.setattr(Run, "execute", not_the_general_path)
    for x in (torch.arange(7), torch.zeros(7, dtype=torch.int64), torch.arange(7) % 3 * 50):
        assert torch.equal(module(x), function(x))
        assert torch.equal(torch.from_numpy(module(x.numpy())), function(x))


@torch.library.custom_op("glasshouse_tests::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x[:, 0] > 0, :]


@positive.register_fake
def _(x: torch.Tensor) -> Any:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(min=0, max=4), 5)


class Bounded(torch.nn.Module):
    """A step whose result is larger than it says it can be."""

    def forward(self, x: Any) -> Any:
        return (positive(x) * 2).sum(0)


def test_a_decided_size_past_its_bound_is_refused() -> None:
    module = gh.compile(Bounded(), torch.randn(8, 5))
    few = torch.ones(8, 5)
    few[4:] = -1
    same([module(few)], [Bounded()(few)])
    with pytest.raises(ExecutionError, match="is 8, compiled for 0 to 4"):
        module(torch.ones(8, 5))
    same([module(few)], [Bounded()(few)])
