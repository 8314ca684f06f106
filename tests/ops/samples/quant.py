"""Samples of quantisation; torch's own quantised tensors are compared in tests/unit/ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ops.samples.sample import FLOATS, SIGNED, Array, Sample, integers, values


def _beside(t: torch.Tensor, x: torch.Tensor, axis: int | None) -> torch.Tensor:
    return (
        t if axis is None else t.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    )


def _quantize(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    *,
    dtype: str,
    axis: int | None = None,
    low: int | None = None,
    high: int | None = None,
) -> torch.Tensor:
    kind = getattr(torch, dtype)
    limits = torch.iinfo(kind)
    steps = torch.round(x / _beside(scale, x, axis)) + _beside(zero, x, axis)
    return torch.clamp(
        steps, limits.min if low is None else low, limits.max if high is None else high
    ).to(kind)


def _dequantize(
    x: torch.Tensor,
    scale: torch.Tensor,
    zero: torch.Tensor,
    *,
    axis: int | None = None,
    dtype: str = "float32",
) -> torch.Tensor:
    steps = x.to(torch.int64) - _beside(zero, x, axis).to(torch.int64)
    return (steps.to(scale.dtype) * _beside(scale, x, axis)).to(getattr(torch, dtype))


def _scales(count: int, kind: Any = np.float32) -> Array:
    return np.linspace(0.02, 0.11, count).astype(kind)


_ONE = np.float32(0.0625)  # a power of two: every multiple of a half step is exact, ties included
_TIES = np.arange(-8, 9) * 0.03125
_ZERO = np.int32(3)


def _one(x: Array, dtype: str = "int8", **kw: Any) -> Sample:
    return Sample((x, _ONE, _ZERO), _quantize, {"dtype": dtype, **kw})


def _back(x: Array, **kw: Any) -> Sample:
    return Sample(
        (x, np.float64(0.07), _ZERO), _dequantize, {"dtype": "float64", **kw}, dtypes=FLOATS
    )


SAMPLES = {
    "quantize": [
        _one(values(3, 4, low=-20, high=20)),
        _one(values(3, 4, low=-20, high=20), "uint8"),
        _one(_TIES),
        _one(_TIES, "int16"),
        _one(values(5), "int32"),
        _one(values(5), low=-7, high=7),
        _one(np.array([np.inf, -np.inf, 1e30, -1e30])),
        _one(values()),
        _one(values(0, 3)),
        Sample(
            (values(3, 4), _scales(4), integers(4).astype(np.int8)),
            _quantize,
            {"dtype": "int8", "axis": 1},
        ),
        Sample(
            (values(3, 4, 2), _scales(3), integers(3, low=0).astype(np.int32)),
            _quantize,
            {"dtype": "uint8", "axis": -3},
        ),
    ],
    "dequantize": [
        *[_back(integers(3, 4, low=0, high=100).astype(t)) for t in (*SIGNED[1:], "uint8")],
        _back(np.int8(5)),
        _back(np.zeros((0, 3), np.int8)),
        Sample(
            (integers(3, 4).astype(np.int8), _scales(4, np.float64), integers(4).astype(np.int8)),
            _dequantize,
            {"axis": 1, "dtype": "float64"},
        ),
        Sample(
            (integers(3, 4).astype(np.int8), _scales(3), integers(3).astype(np.int32)),
            _dequantize,
            {"axis": 0},
            dtypes=("int8",),
        ),
    ],
}
