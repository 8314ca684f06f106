"""A softmax is recognised along one axis alone: what is taken away along another stays."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_maximum_along_another_axis_is_no_part_of_it(axis: int, logarithm: bool) -> None:
    b = GraphBuilder()
    x = b.input("float32", [3, 4])
    shifted = x - x.apply("max", axes=[axis], keepdims=True)
    total = shifted.apply("exp").apply("sum", axes=[1], keepdims=True)
    out = shifted - total.apply("log") if logarithm else shifted.apply("exp") / total
    graph = b.finish(out)
    given = np.random.default_rng(0).standard_normal((3, 4), "f") * 3
    (wanted,) = run(graph, [given])
    (got,) = run(optimize(graph), [given])
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
