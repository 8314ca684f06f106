"""Gradients of half types where a half type has too little range: counts and squares."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import GraphBuilder, symbol
from glasshouse.ir.op import REGISTRY
from glasshouse.numpy_ref import run


def _gradient(op: str, arrays: list[Any], g: Any, dtype: str, **attrs: Any) -> np.ndarray:
    """The gradient of the first operand."""
    b = GraphBuilder()
    xs = [b.input(dtype, np.shape(a)) for a in arrays]
    cotangent = b.input(dtype, np.shape(g))
    y = b.apply(op, *xs, **attrs)
    grads = REGISTRY[op].vjp(cotangent, *xs, y, **y.value.node.attrs)
    return run(b.finish(grads[0]), [*arrays, g])[0].astype(np.float64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["mean", "variance"])
def test_counts_above_the_range_of_float16(op: str, dtype: str) -> None:
    x = np.random.default_rng(0).normal(size=100_000)
    g = np.array(2000.0)  # a loss scale keeps gradients in range; the count itself is not
    wanted = _gradient(op, [x], g, "float64")
    np.testing.assert_allclose(_gradient(op, [x], g, dtype), wanted, 0.02, 1e-3)


def test_symbolic_counts_above_the_range_of_float16() -> None:
    b = GraphBuilder()
    x = b.input("float16", [symbol("n", 1)])
    g = b.input("float16", [])
    y = x.apply("mean")
    (gx,) = REGISTRY["mean"].vjp(g, x, y, axes=None, keepdims=False)
    got = run(b.finish(gx), [np.zeros(100_000), np.array(2000.0)])[0]
    np.testing.assert_allclose(got.astype(np.float64), 0.02, 1e-3)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["layer_norm", "rms_norm"])
def test_squares_above_the_range_of_float16(op: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, g = np.round(rng.normal(size=(4, 64)) * 900), rng.normal(size=(4, 64)) * 900
    wanted = _gradient(op, [x], g, "float64")
    np.testing.assert_allclose(_gradient(op, [x], g, dtype), wanted, 0.05, 0.02)
