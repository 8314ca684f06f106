"""Samples of the activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ops.samples.elementwise import ODD, SHAPES
from ops.samples.sample import SIGNED, Sample, away, integers, values


def _each(
    f: Callable[..., Any], kinks: tuple[float, ...] = (), width: float = 4.0, **attrs: Any
) -> list[Sample]:
    """Several shapes away from the kinks, the kinks themselves, and every kind of float."""
    out = [Sample((away(values(*s, low=-width, high=width), *kinks),), f, attrs) for s in SHAPES]
    if kinks:
        out.append(Sample((np.array([*kinks, 1.0]),), f, attrs, grad="torch", second=False))
    # float64 alone: torch's float32 gelu gives NaN for inf, its float64 one gives inf.
    return [*out, Sample((ODD,), f, attrs, grad=None, dtypes=("float64",))]


def _leaky_relu(x: torch.Tensor, slope: float = 0.01) -> torch.Tensor:
    return F.leaky_relu(x, slope)


SAMPLES = {
    "sigmoid": [
        *_each(torch.sigmoid),
        Sample((np.array([-800.0, -90.0, 90.0]),), torch.sigmoid, grad=None),
    ],
    "relu": [*_each(torch.relu, (0.0,)), Sample((integers(5),), torch.relu, dtypes=SIGNED)],
    "leaky_relu": [
        *_each(F.leaky_relu, (0.0,)),
        *_each(_leaky_relu, (0.0,), slope=0.3),
    ],
    "elu": [*_each(F.elu, (0.0,)), *_each(F.elu, alpha=0.7)],
    "gelu": [
        *_each(F.gelu),
        *_each(lambda x, approximate: F.gelu(x, approximate=approximate), approximate="tanh"),
    ],
    "silu": _each(F.silu),
    "hardswish": _each(F.hardswish, (-3.0, 3.0)),
    "hardsigmoid": _each(F.hardsigmoid, (-3.0, 3.0)),
    "softplus": [
        *_each(F.softplus),
        *_each(F.softplus, (1.0,), beta=2.0, threshold=2.0),
    ],
}
