"""Arguments that a compiled function writes to, such as a cache: in place where that is safe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch._dynamo

from glasshouse.errors import ExecutionError
from glasshouse.frontend import dynamo


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    dynamo.reset()
    yield
    torch._dynamo.reset()
    dynamo.reset()


def _compiled(f: Callable[..., Any]) -> Any:
    return torch.no_grad()(torch.compile(f, backend="glasshouse", options={"executor": "compiled"}))


def _overwrites() -> dict[int, int]:
    (graph,) = dynamo.compiled_graphs()
    found: dict[int, int] = graph.runner.module.plan.overwrites
    return found


def _step(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(2, at, new)
    return (cache * 2).sum(-1)


def _arguments(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    cache, new = torch.randn(2, 3, 16, 8, dtype=dtype), torch.randn(2, 3, 2, 8, dtype=dtype)
    return cache, new, torch.tensor([3, 9])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cache_is_written_where_it_lies(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, new, at = _arguments(dtype)
    wanted = cache.clone()
    expected = _step(wanted, new, at)
    step = _compiled(_step)
    place, version = cache.data_ptr(), cache._version
    monkeypatch.setattr(torch.Tensor, "copy_", None)  # nothing is copied back
    torch.testing.assert_close(step(cache, new, at), expected)
    assert torch.equal(cache, wanted)
    assert cache.data_ptr() == place
    assert cache._version > version, "whoever saved it for a gradient must be told"
    assert _overwrites() == {1: 0}


def test_elementwise_writes_are_in_place() -> None:
    def count(steps: torch.Tensor) -> torch.Tensor:
        steps.add_(1)
        return steps * 2

    steps, call = torch.tensor(4), _compiled(count)
    assert [int(call(steps)), int(call(steps))] == [10, 12]
    assert int(steps) == 6


@pytest.mark.parametrize("returned", [False, True])
def test_what_was_before_is_still_read(returned: bool) -> None:
    """The old value is read after the write, or returned: it needs memory of its own."""

    def step(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> Any:
        before = cache.clone()
        cache.index_copy_(0, at, new)
        product = before @ cache.t()
        return (before, product) if returned else (product,)

    torch.manual_seed(0)
    cache, new, at = torch.randn(6, 4), torch.randn(2, 4), torch.tensor([1, 5])
    wanted = cache.clone()
    expected = step(wanted, new, at)
    for ours, theirs in zip(_compiled(step)(cache, new, at), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert torch.equal(cache, wanted)


@pytest.mark.parametrize("turned", [False, True])
def test_arguments_that_share_memory_are_as_in_pytorch(turned: bool) -> None:
    """A cache that overlaps another argument, or does not lie row by row, is copied as before."""

    def step(cache: torch.Tensor, new: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, at, new * 2)
        return cache + 1

    def arguments() -> tuple[torch.Tensor, ...]:
        held = torch.arange(32.0).reshape(8, 4)
        if turned:
            return torch.arange(32.0).reshape(4, 8).t(), torch.ones(2, 4), torch.tensor([0, 7])
        return held, held[2:4], torch.tensor([0, 7])

    call = _compiled(step)
    plain = torch.zeros(8, 4), torch.ones(2, 4), torch.tensor([0, 7])
    call(*plain)  # the graph is there before arguments share memory
    cache, wanted = arguments(), arguments()
    torch.testing.assert_close(call(*cache), step(*wanted))
    torch.testing.assert_close(cache[0], wanted[0])


def test_a_place_outside_is_refused_and_nothing_is_written_for_it() -> None:
    cache, new, at = _arguments()
    step = _compiled(_step)
    step(cache, new, at)
    before = cache.clone()
    with pytest.raises(ExecutionError):
        step(cache, new, torch.tensor([16, 16]))
    assert torch.equal(cache, before)


def test_inference_mode_and_gradients() -> None:
    """Tensors of inference mode have no version; one that wants a gradient cannot be written to."""
    step = _compiled(_step)
    with torch.inference_mode():
        cache, new, at = _arguments()
        wanted = cache.clone()
        expected = _step(wanted, new, at)
        torch.testing.assert_close(step(cache, new, at), expected)
        assert torch.equal(cache, wanted)


def test_complex_numbers_are_written_as_such() -> None:
    def turn(z: torch.Tensor) -> torch.Tensor:
        z.mul_(1j)
        z.real.add_(1)
        return z.abs()

    z = torch.complex(torch.arange(6.0).view(2, 3), torch.ones(2, 3))
    wanted, found = z.clone(), z.clone()
    sizes = turn(wanted)
    torch.testing.assert_close(_compiled(turn)(found), sizes)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("executor", ["reference", "compiled"])
@pytest.mark.parametrize("make", [torch.clone, lambda x: x.clone().flip(0), lambda x: (x + 0)[1:]])
def test_results_have_memory_of_their_own(
    executor: str, make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = torch.arange(3.0)
    made = torch.compile(make, backend="glasshouse", options={"executor": executor})(x)
    made.fill_(9)
    assert x.tolist() == [0, 1, 2]
