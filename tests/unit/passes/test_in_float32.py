"""Gradients of convolutions of half floats are computed in float32, where a CPU has vectors."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import as_dtype, from_storage, to_storage
from glasshouse.ir.graph import Graph
from glasshouse.lower.program import Call
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_optimized

WINDOW = {"stride": (2, 2), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1}


def by_weights(dtype: str) -> Graph:
    b = GraphBuilder()
    x, g = b.input(as_dtype(dtype), (2, 3, 8, 8)), b.input(as_dtype(dtype), (2, 5, 4, 4))
    return b.finish(x.apply("conv_weight_grad", g, kernel=(4, 4), **WINDOW))


def transposed(dtype: str) -> Graph:
    b = GraphBuilder()
    x, w = b.input(as_dtype(dtype), (2, 5, 4, 4)), b.input(as_dtype(dtype), (5, 3, 4, 4))
    return b.finish(x.apply("conv_transpose", w, **WINDOW, output_padding=(0, 0)))


@pytest.mark.parametrize("make", [by_weights, transposed])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_have_vectors_and_round_once(dtype: str, make: object) -> None:
    assert callable(make)
    graph = make(dtype)
    kind = as_dtype(dtype)
    random = np.random.default_rng(0)
    shapes = [tuple(int(str(d)) for d in v.type.shape) for v in graph.inputs]
    arrays = [to_storage(random.standard_normal(s).astype(np.float32), kind) for s in shapes]
    (wanted,) = run(graph, arrays)
    module = compile_optimized(graph)
    kernels = [s.kernel for s in module.program.steps if isinstance(s, Call)]
    routines = {tile.routine for kernel in kernels for tile in kernel.tiles}
    assert routines
    assert "conv_any" not in routines
    (made,) = module.run_flat(arrays)
    made, exact = (from_storage(np.asarray(y), kind).astype(np.float64) for y in (made, wanted))
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    np.testing.assert_allclose(made, exact, rtol=step, atol=step * np.abs(exact).max() / 64)
