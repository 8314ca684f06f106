"""Sums of broadcast products as matrix products, against PyTorch: kinds of axes, sizes, values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import glasshouse as gh

_CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "rows by rows": (
        lambda a, b: (a[:, :, None] * b[:, None]).sum(-1),
        ((3, 17, 19), (3, 33, 19)),
    ),
    "a vector by a matrix": (lambda a, w: (a[..., None] * w).sum(-2), ((4, 9, 21), (21, 11))),
    "depth first": (lambda a, b: (a[:, :, None] * b[:, None]).sum(0), ((23, 9), (23, 8))),
    "columns before rows": (lambda a, b: (a[None, :] * b[:, None]).sum(2), ((10, 16), (13, 16))),
    "two axes of depth": (
        lambda a, b: (a[:, None] * b[None]).sum((2, 4), keepdim=True),
        ((9, 4, 1, 5), (11, 4, 3, 5)),
    ),
    "batch inside": (
        lambda a, b: (a[:, None] * b[None]).sum(-1),
        ((12, 3, 1, 17), (10, 3, 2, 17)),
    ),
}


class Apply(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        return self.function(*given)


def _contracted(graph: gh.Graph) -> bool:
    text = str(gh.optimize(graph))
    return "Matmul" in text and "Sum" not in text


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    function, shapes = _CASES[name]
    given = [torch.randn(s, dtype=dtype) for s in shapes]
    graph = gh.trace(Apply(function), *given)
    assert _contracted(graph)
    found = torch.as_tensor(gh.compile(graph)(*given))
    bound = 1e-5 if dtype is torch.float32 else 1e-12
    torch.testing.assert_close(found, function(*given), atol=bound, rtol=bound)


def test_what_is_not_finite_stays_in_its_rows_and_columns() -> None:
    function, shapes = _CASES["rows by rows"]
    torch.manual_seed(0)
    a, b = (torch.randn(s) for s in shapes)
    a[0, 3, 5], a[1, 16, 18], b[2, 32, 0] = float("nan"), float("inf"), float("-inf")
    b[1, 7, 18] = 0.0  # times infinity
    found = torch.as_tensor(gh.compile(Apply(function), a, b)(a, b))
    wanted = function(a, b)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5, equal_nan=True)
    assert wanted.isnan().sum() == 33 + 1


def test_few_elements_and_axes_of_one_operand_stay_sums() -> None:
    a, b = torch.randn(20, 8), torch.randn(30, 8)
    assert not _contracted(gh.trace(Apply(lambda a, b: (a[:, None] * b[None]).sum(-1)), a, b))
    a, b = torch.randn(20, 1), torch.randn(30, 40)
    assert not _contracted(gh.trace(Apply(lambda a, b: (a[:, None] * b[None]).sum(-1)), a, b))


def test_a_training_step_through_it() -> None:
    torch.manual_seed(0)

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keys = nn.Parameter(torch.randn(24, 18))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x[:, None] * self.keys).sum(-1).softmax(-1).square().sum()

    ours, x = Loss(), torch.randn(10, 18)
    before = ours.keys.detach().clone()
    step = gh.compile(gh.trace_training(ours, None, torch.optim.SGD(ours.parameters(), lr=1.0), x))
    theirs = Loss()
    theirs.load_state_dict({"keys": before})
    loss = theirs(x)
    loss.backward()
    assert float(step(x)) == pytest.approx(loss.item(), rel=1e-5)
    (update,) = step.graph.updates
    after = torch.as_tensor(step.source_array(update))
    torch.testing.assert_close(before - after, theirs.keys.grad, atol=1e-5, rtol=1e-4)
