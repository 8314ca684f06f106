"""Indices that point nowhere: what PyTorch refuses is refused, what it counts from the end is not.

Each op is given indices that are right, negative ones, and ones past the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import glasshouse as gh
from glasshouse.errors import ExecutionError
from hostile.functions import Of

X = torch.arange(20.0).reshape(5, 4)
ROWS = torch.arange(8.0).reshape(2, 4)


def _wide(i: torch.Tensor) -> torch.Tensor:
    return i[:, None].expand(2, 4)


CASES: dict[str, Callable[..., Any]] = {
    "embedding": lambda x, i: F.embedding(i, x),
    "embedding_bag": lambda x, i: F.embedding_bag(i[None], x, mode="sum"),
    "index_select": lambda x, i: torch.index_select(x, 0, i),
    "gather": lambda x, i: torch.gather(x, 0, _wide(i)),
    "take_along_dim": lambda x, i: torch.take_along_dim(x, i[:, None], 0),
    "scatter": lambda x, i: x.scatter(0, _wide(i), ROWS),
    "scatter_value": lambda x, i: x.scatter(0, _wide(i), 7.0),
    "scatter_add": lambda x, i: x.scatter_add(0, _wide(i), ROWS),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, _wide(i), ROWS, "amax"),
    "index_add": lambda x, i: x.index_add(0, i, ROWS),
    "index_copy": lambda x, i: x.index_copy(0, i, ROWS),
    "index_fill": lambda x, i: x.index_fill(0, i, 7.0),
    "take": torch.take,
    "put": lambda x, i: x.put(i, torch.tensor([7.0, 8.0])),
    "brackets": lambda x, i: x[i],
    "brackets_put": lambda x, i: torch.index_put(x, (i,), ROWS),
    "one_hot": lambda x, i: F.one_hot(i, 5),
    "cross_entropy": lambda x, i: F.cross_entropy(x.T[:2], i),
    "nll_loss": lambda x, i: F.nll_loss(x.T[:2], i, ignore_index=-7),
    "nll_loss_ignored": lambda x, i: F.nll_loss(x.T[:2], i, ignore_index=-1),
}
INDICES = {
    "right": [4, 0], "last": [1, -1], "first": [-5, 2], "past": [5, 0], "before": [1, -6],
    "far": [2**40, 0], "ignored": [-100, 1], "low": [0, -(2**62)], "twenty": [19, -20],
}  # fmt: skip


FAST = ("embedding", "gather", "scatter_add", "index_add", "one_hot", "cross_entropy", "brackets")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in CASES]
)
def test_what_pytorch_does_with_each_index(name: str) -> None:
    model = Of(CASES[name])
    module = gh.compile(model, X, torch.tensor([1, 2]))
    for what, given in INDICES.items():
        indices = torch.tensor(given)
        try:
            wanted = model(X, indices)
        except (IndexError, RuntimeError):
            with pytest.raises(ExecutionError, match="lies outside"):
                print(what, given, "is refused by PyTorch, and gives", module(X, indices))
        else:
            torch.testing.assert_close(
                module(X, indices), wanted, msg=lambda t, w=what: f"{w}: {t}"
            )


def test_the_error_names_op_and_line() -> None:
    module = gh.compile(Of(CASES["embedding"]), X, torch.tensor([1, 2]))
    with pytest.raises(ExecutionError, match=r"Take.*\n.*test_indices\.py:\d+") as error:
        module(X, torch.tensor([1, -1]))
    assert "count from the end in brackets alone" in str(error.value)
    torch.testing.assert_close(module(X, torch.tensor([1, 2])), X[1:3])  # it runs on


def test_what_is_sorted_may_be_negative() -> None:
    """Only the places that a sort gives are never negative; and a count may go down."""
    model = Of(lambda x, i: F.embedding(i.sort()[0], x) + F.embedding(i.sort()[1], x))
    module = gh.compile(model, X, torch.tensor([1, 2]))
    torch.testing.assert_close(module(X, torch.tensor([3, 2])), model(X, torch.tensor([3, 2])))
    with pytest.raises(ExecutionError, match="lies outside"):
        module(X, torch.tensor([1, -1]))


def test_torch_compile_refuses_too() -> None:
    compiled = torch.compile(Of(CASES["gather"]), backend="glasshouse")
    with pytest.raises(ExecutionError, match="lies outside"):
        compiled(X, torch.tensor([1, -1]))
