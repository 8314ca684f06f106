"""Quantisation against torch's own, and the edges that formulas forget."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run

X = np.random.default_rng(0).uniform(-12, 12, (4, 6)).astype(np.float32)


def _through(x: np.ndarray, scale: object, zero: object, **attrs: object) -> np.ndarray:
    """Quantised and brought back."""
    builder = GraphBuilder()
    value = builder.input("float32", x.shape)
    scale, zero = np.asarray(scale, np.float32), np.asarray(zero, np.int32)
    axis = attrs.get("axis")
    q = value.apply("quantize", scale, zero, **attrs)
    graph = builder.finish(q.apply("dequantize", scale, zero, axis=axis))
    return run(graph, [x])[0]


@pytest.mark.parametrize("zero, low, high, dtype", [(0, -128, 127, "int8"), (9, 0, 255, "uint8")])
def test_per_tensor_is_torchs_fake_quantize(zero: int, low: int, high: int, dtype: str) -> None:
    wanted = torch.fake_quantize_per_tensor_affine(torch.from_numpy(X), 0.0625, zero, low, high)
    np.testing.assert_array_equal(_through(X, 0.0625, zero, dtype=dtype), wanted.numpy())


@pytest.mark.parametrize("axis", [0, 1])
def test_per_channel_is_torchs_fake_quantize(axis: int) -> None:
    count = X.shape[axis]
    scale = 2.0 ** -np.arange(2, 2 + count)
    zero = np.arange(count) - 2
    wanted = torch.fake_quantize_per_channel_affine(
        torch.from_numpy(X), torch.tensor(scale, dtype=torch.float32),
        torch.tensor(zero, dtype=torch.int32), axis, -128, 127,
    )  # fmt: skip
    got = _through(X, scale, zero, dtype="int8", axis=axis)
    np.testing.assert_array_equal(got, wanted.numpy())


def test_nan_becomes_the_zero_point_and_infinity_saturates() -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [3])
    q = x.apply("quantize", np.float32(0.1), np.int32(4), dtype="uint8")
    given = np.array([np.nan, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(run(builder.finish(q), [given])[0], [4, 255, 0])


def test_narrow_range() -> None:
    got = _through(np.array([-9, 0, 9], np.float32), 1.0, 0, dtype="int8", low=-7, high=7)
    np.testing.assert_array_equal(got, [-7, 0, 7])
