"""Random graphs over the registry: compiled, plain and optimised, they equal the reference."""

from __future__ import annotations

import numpy as np
import pytest

from generators import Case, case_of
from glasshouse.ir import Graph
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph


def check(graph: Graph, case: Case) -> None:
    outputs = compile_graph(graph)(*case.inputs)
    many = outputs if isinstance(outputs, tuple) else (outputs,)
    for ours, expected in zip(many, run(case.graph, case.inputs), strict=True):
        assert ours.shape == expected.shape
        if expected.dtype.kind == "f":
            scale = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=1.0))
            np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-4 * scale)
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


@pytest.mark.parametrize("seed", range(4))
def test_symbolic(seed: int) -> None:
    case = case_of(200 + seed, 20, "float32", symbolic=True)
    check(optimize(case.graph), case)
