"""Embedding bags against PyTorch: sums, means and maxima, empty bags, padding, weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.numpy_ref import run

INDICES = torch.tensor([3, 0, 4, 4, 1, 2, 0, 5, 3])
OFFSETS = {
    "plain": torch.tensor([0, 2, 2, 5, 9]),  # the second and the last bag are empty
    "last": torch.tensor([0, 3, 3, 9]),  # with include_last_offset
}


class Bags(nn.Module):
    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(6, 7, **given)  # 5 bags, 9 indices: no size twice

    def forward(self, indices: Any, offsets: Any, *more: Any) -> Any:
        return self.bag(indices, offsets, *more)


CASES: list[tuple[str, dict[str, Any], bool]] = [
    ("plain", {"mode": "sum"}, False),
    ("plain", {"mode": "mean"}, False),
    ("plain", {"mode": "max"}, False),
    ("plain", {"mode": "sum"}, True),
    ("plain", {"mode": "sum", "padding_idx": 4}, True),
    ("plain", {"mode": "mean", "padding_idx": 4}, False),
    ("plain", {"mode": "max", "padding_idx": 4}, False),
    ("last", {"mode": "sum", "include_last_offset": True}, False),
    ("last", {"mode": "mean", "include_last_offset": True}, False),
    ("last", {"mode": "max", "include_last_offset": True}, False),
]


def _case(number: int, dtype: torch.dtype) -> tuple[nn.Module, list[torch.Tensor]]:
    form, options, weighted = CASES[number]
    torch.manual_seed(number)
    inputs = [INDICES, OFFSETS[form]]
    if weighted:
        inputs.append(torch.randn(len(INDICES), dtype=dtype))
    return Bags(**options).to(dtype), inputs


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_values(number: int, dtype: torch.dtype) -> None:
    module, inputs = _case(number, dtype)
    graph = gh.trace(module, *inputs)
    assert not any(n.op.name == "opaque" for n in graph.nodes)
    (got,) = run(graph, [x.numpy() for x in inputs])
    np.testing.assert_allclose(got, module(*inputs).detach().numpy(), rtol=1e-6, atol=1e-7)


def test_work_is_linear_in_the_number_of_indices() -> None:
    """No value of the graph has an axis of bags and one of indices."""
    graph = gh.trace(Bags(mode="mean"), INDICES, OFFSETS["plain"])
    bags, indices = len(OFFSETS["plain"]), len(INDICES)
    shapes = [v.type.shape for n in graph.nodes for v in n.outputs]
    assert not any({bags, indices} <= set(shape[:2]) for shape in shapes)
