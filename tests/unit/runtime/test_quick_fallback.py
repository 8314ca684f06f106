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

    def general(*_: Any) -> None:
        raise AssertionError("a plain call took the general path")

    monkeypatch.setattr(quick_fallback.PreparedStep, "__init__", counted)
    monkeypatch.setattr(quick_fallback.QuickFallbacks, "views", looked)
    module = gh.compile(Factors(), torch.randn(6, 4))
    monkeypatch.setattr(Run, "execute", general)
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
