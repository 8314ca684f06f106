"""Samples of softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ops.samples.sample import Sample, integers, values

_TOL = {"tol": 3, "why": "float32 sums round in another order"}


def _samples(f: Callable[..., Any]) -> list[Sample]:
    def call(x: torch.Tensor, axis: int = -1) -> torch.Tensor:
        return f(x if x.is_floating_point() else x.float(), axis)

    big = np.array([[1000.0, 1001.0, -1000.0], [-1e4, -1e4, 3.0]])
    masked = np.array(
        [[0.5, -np.inf, 1.0], [-np.inf, -np.inf, -np.inf], [np.nan, 0.0, 1.0], [np.inf, 0.0, 1.0]]
    )
    return [
        *[
            Sample((values(2, 3, 4),), call, attrs, **_TOL)
            for attrs in ({}, {"axis": 1}, {"axis": -3})
        ],
        Sample((values(),), call, {"axis": 0}),
        Sample((values(),), call),
        Sample((values(0, 3),), call),
        Sample((values(3, 0),), call),
        Sample((big,), call, dtypes=("float64", "float32", "bfloat16"), grad=None),
        Sample((masked,), call, grad=None, **_TOL),
        Sample((integers(2, 5),), call, dtypes=("int64", "int8"), **_TOL),
    ]


SAMPLES = {"softmax": _samples(torch.softmax), "log_softmax": _samples(torch.log_softmax)}
