"""The gradient of a power with a constant exponent is short: that is how models write squares."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.ops.elementwise import power

X = np.array([-1.5, 0.0, 2.0])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 2.0])
def test_constant_exponent(exponent: float) -> None:
    builder = GraphBuilder()
    x, g = builder.input("float64", [3]), builder.input("float64", [3])
    y = x**exponent
    before = len(builder.graph)
    gx, gy = power.vjp(g, x, builder.wrap(y.value.node.inputs[1]), y)
    assert gy is None
    assert len(builder.graph) - before <= 6
    if exponent == 0:
        assert gx is None
        return
    got = run(builder.finish(gx), [X, np.ones(3)])[0]
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(got, exponent * X ** float(exponent - 1))


def test_no_logarithm_of_a_negative_base() -> None:
    builder = GraphBuilder()
    x, g = builder.input("float64", [3]), builder.input("float64", [3])
    y = x**2
    power.vjp(g, x, builder.wrap(y.value.node.inputs[1]), y)
    assert "log" not in {n.op.name for n in builder.graph.nodes}
