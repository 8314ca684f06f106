"""How a function of handles is compared with one of torch: outputs, gradients, text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import Graph, GraphBuilder, parse_graph, print_graph, verify
from glasshouse.numpy_ref import run
from glasshouse.ops.pullback import floats, pullback

Array = np.ndarray[Any, Any]


def many(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def traced(function: Callable[..., Any], *arrays: Array) -> Graph:
    """The graph of a function of handles for operands like these arrays."""
    builder = GraphBuilder()
    graph = builder.finish(*many(function(*[builder.input(a.dtype, a.shape) for a in arrays])))
    verify(graph)
    return graph


def compare(
    function: Callable[..., Any], expected: Callable[..., Any], *arrays: Array, grad: bool = True
) -> Graph:
    """float64 operands give what torch gives, and the same gradients; gives the graph."""
    graph = traced(function, *arrays)
    text = print_graph(graph)
    assert print_graph(parse_graph(text)) == text
    tensors = [torch.from_numpy(np.array(a)) for a in arrays]
    for t in tensors:
        t.requires_grad_(grad and t.dtype.is_floating_point)
    wanted = many(expected(*tensors))
    results = run(graph, arrays)
    assert len(results) == len(wanted)
    for got, want in zip(results, wanted, strict=True):
        assert got.dtype == want.detach().numpy().dtype
        np.testing.assert_allclose(got, want.detach().numpy(), 1e-12, 1e-12)
    if not grad:
        return graph
    rng = np.random.default_rng(0)
    smooth = floats(graph.outputs)
    weights = {i: rng.uniform(0.5, 1.5, results[i].shape) for i in smooth}
    total = sum((wanted[i] * torch.from_numpy(w)).sum() for i, w in weights.items())
    leaves = [t for t in tensors if t.requires_grad]
    slopes = torch.autograd.grad(total, leaves, materialize_grads=True)
    backward = pullback(graph)
    verify(backward)
    found = run(backward, [*arrays, *weights.values()])
    for got, slope in zip(found, slopes, strict=True):
        np.testing.assert_allclose(got, slope.numpy(), 1e-9, 1e-9)
    return graph
