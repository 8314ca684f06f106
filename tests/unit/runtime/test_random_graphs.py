"""Random graphs over the registry: compiled, plain and optimised, they equal the reference."""

from __future__ import annotations

import numpy as np
import pytest

from generators import Case, case_of
from glasshouse.backend.cpu.target import CPU
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir.dtype import to_storage
from glasshouse.lower.lower import lower
from glasshouse.lower.program import Fallback
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph


def check(graph: Graph, case: Case, tolerance: float = 2e-4) -> None:
    given = zip(case.inputs, case.graph.inputs, strict=True)
    outputs = compile_graph(graph)(*[to_storage(a, v.type.dtype) for a, v in given])
    many = outputs if isinstance(outputs, tuple) else (outputs,)
    for ours, expected in zip(many, run(case.graph, case.inputs), strict=True):
        assert ours.shape == expected.shape
        if expected.dtype.kind == "f":
            scale = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=1.0))
            np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("seed", range(4))
def test_as_built(seed: int) -> None:
    case = case_of(seed, 25, "float32")
    check(case.graph, case)


@pytest.mark.parametrize("seed", range(4))
def test_optimised(seed: int) -> None:
    case = case_of(100 + seed, 30, "float32")
    check(optimize(case.graph), case)


@pytest.mark.parametrize("seed", range(3))
def test_bfloat16(seed: int) -> None:
    """Kernels round once at the end where the reference rounds after each op."""
    case = case_of(300 + seed, 20, "bfloat16")
    check(optimize(case.graph), case, 6e-2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "float16"])
def test_nothing_falls_back(dtype: str) -> None:
    for seed in range(400, 450):
        graph = optimize(case_of(seed, 25, dtype, symbolic=seed % 2 == 0).graph)
        fallbacks = [s for s in lower(graph, CPU).steps if isinstance(s, Fallback)]
        assert not fallbacks, f"seed {seed}: {fallbacks[0].node}: {fallbacks[0].why}"


@pytest.mark.parametrize("seed", range(4))
def test_symbolic(seed: int) -> None:
    case = case_of(200 + seed, 20, "float32", symbolic=True)
    check(optimize(case.graph), case)


def test_single_numbers_in_one_kernel() -> None:
    """A product of double precision goes op by op; two of them once had variables of one name."""
    builder = GraphBuilder()
    x = builder.input("float64", [2, 1, 2]).apply("reshape", shape=(2, 2, 1))
    number = builder.weight(np.array([[0.5]]), "float64")
    graph = builder.finish(x.apply("matmul", number, transpose_y=True))
    given = np.arange(4.0).reshape(2, 1, 2)
    ours = compile_graph(optimize(graph))(given)
    np.testing.assert_allclose(ours, given.reshape(2, 2, 1) / 2)
