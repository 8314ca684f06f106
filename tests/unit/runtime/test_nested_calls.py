"""A module that a step of its own run calls again: computed, or refused; never waited for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import glasshouse as gh
from glasshouse.errors import ExecutionError

torch: Any = pytest.importorskip("torch")
X = torch.linspace(-1, 1, 24).reshape(4, 6)
inner: list[Any] = []
"""Modules that the op calls, the last one first."""


def _again(x: Any) -> Any:
    return inner.pop()(x).clone() if inner else x * 2


# PyTorch reads the schema of an op from annotations, which must be no strings.
_again.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
again = torch.library.custom_op("nested::again", mutates_args=())(_again)
again.register_fake(torch.empty_like)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    inner.clear()
    yield
    inner.clear()


class Calling(torch.nn.Module):  # type: ignore[misc]  # untyped
    def forward(self, x: Any) -> Any:
        return torch.relu(again(x + 1)) * 3


class Counting(torch.nn.Module):  # type: ignore[misc]  # untyped
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(6))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return again(x) + self.count


def test_an_op_that_calls_the_module_gets_its_results() -> None:
    def expected(x: Any, depth: int) -> Any:
        return torch.relu(expected(x + 1, depth - 1) if depth else (x + 1) * 2) * 3

    module = gh.compile(Calling(), X)
    for _ in range(2):
        inner.extend([module] * 2)
        torch.testing.assert_close(module(X), expected(X, 2))


def test_one_that_changes_variables_refuses() -> None:
    module = gh.compile(Counting(), X)
    inner.append(module)
    with pytest.raises(ExecutionError, match="a step of this module's run calls the module"):
        module(X)
    first, second = module(X), module(X)  # which do not wait
    torch.testing.assert_close(second, first + 1)
