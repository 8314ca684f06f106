"""Samples of the functions of real numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ops.samples.elementwise import ODD, PAIRS, SHAPES
from ops.samples.sample import INTS, Sample, away, integers, values


def _real(f: Callable[..., Any], low: float = -2.0, high: float = 2.0, **kw: Any) -> list[Sample]:
    """Floats of several shapes inside the domain, every kind of float, and integers."""
    return [
        *[Sample((values(*s, low=low, high=high),), f, **kw) for s in SHAPES],
        Sample((ODD,), f, grad=None, **kw),
        Sample((integers(4, low=0, high=4),), f, dtypes=INTS, **kw),
    ]


def _whole(f: Callable[..., Any]) -> list[Sample]:
    apart = [away(values(*s, low=-3, high=3), *np.arange(-3, 3.5, 0.5)) for s in SHAPES]
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.0])
    return [
        *[Sample((a,), f, second=False) for a in apart],
        Sample((halves,), f, grad=None),
        Sample((ODD,), f, grad=None),
        # Too large for float64: a detour over floats would change them.
        Sample((np.array([2**53 + 1, -(2**60) - 1, 5]),), lambda x: x.clone(), dtypes=("int64",)),
    ]


_ULPS = {"tol": 4, "why": "vectorised float32 functions differ by a few ulp"}
SAMPLES = {
    "exp": _real(torch.exp),
    "log": _real(torch.log, 0.2, 3.0),
    "log1p": _real(torch.log1p, -0.7, 3.0),
    "expm1": _real(torch.expm1),
    "sqrt": _real(torch.sqrt, 0.2, 3.0),
    "rsqrt": _real(torch.rsqrt, 0.2, 3.0),
    "sin": _real(torch.sin, -6, 6),
    "cos": _real(torch.cos, -6, 6),
    "tan": _real(torch.tan, -1.2, 1.2, **_ULPS),
    "asin": _real(torch.asin, -0.9, 0.9),
    "acos": _real(torch.acos, -0.9, 0.9),
    "atan": _real(torch.atan),
    "atan2": [
        *[
            Sample(
                (away(values(*a), 0.0, gap=0.3), away(values(*b, seed=1), 0.0, gap=0.3)),
                torch.atan2,
            )
            for a, b in PAIRS
        ],
        Sample((ODD[:, None], ODD), torch.atan2, grad=None),
    ],
    "sinh": _real(torch.sinh, **_ULPS),
    "cosh": _real(torch.cosh, **_ULPS),
    "tanh": _real(torch.tanh),
    "asinh": _real(torch.asinh),
    "acosh": _real(torch.acosh, 1.2, 3.0),
    "atanh": _real(torch.atanh, -0.9, 0.9),
    "erf": _real(torch.erf),
    "floor": _whole(torch.floor),
    "ceil": _whole(torch.ceil),
    "round": _whole(torch.round),
    "trunc": _whole(torch.trunc),
}
HOLES = {(name, "second"): "its gradient is zero" for name in ("floor", "ceil", "round", "trunc")}
