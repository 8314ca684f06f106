"""Samples of running products, extremes and log-sum-exps, and of linear recurrences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ops.samples.sample import INTS, Array, Sample, distinct, integers, values

# None, one, two and three zeros in a row.
_ZEROS = np.array([[2.0, 3.0, -1.0], [1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
_ENDS = np.array([[-np.inf, 1.0, np.inf, 2.0], [np.nan, 1.0, 2.0, 3.0], [-np.inf, -np.inf, 0, 1]])
_TIES = np.array([[1.0, 3.0, 3.0, np.nan, 5.0], [2.0, 2.0, 1.0, 2.0, 2.0]])
_SUM: dict[str, Any] = {"tol": 3, "why": "each step rounds in the type of the elements"}


def _axes(x: Array, f: Callable[..., Any], make: dict[str, Any], **attrs: Any) -> list[Sample]:
    return [Sample((x,), f, {"axis": axis, **attrs}, **make) for axis in (0, 1, -1)]


def _along(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis: f(x, dim=axis)


_cumprod, _logsum = _along(torch.cumprod), _along(torch.logcumsumexp)


def _extreme(x: torch.Tensor, axis: int, largest: bool = True) -> Any:
    return tuple((torch.cummax if largest else torch.cummin)(x, axis))


def _recurrence(a: torch.Tensor, b: torch.Tensor, axis: int, reverse: bool = False) -> Any:
    if not b.ndim:
        return b
    rows = list(zip(a.unbind(axis), b.unbind(axis), strict=True))
    out: list[torch.Tensor] = []
    for factor, term in reversed(rows) if reverse else rows:
        out.append(factor * out[-1] + term if out else term)
    return torch.stack(out[::-1] if reverse else out, axis) if out else b


def _pair(*shape: int) -> tuple[Array, Array]:
    return values(*shape, low=-1, high=1), values(*shape, seed=1)


SAMPLES = {
    "cumprod": [
        *_axes(values(3, 4, 5), _cumprod, _SUM),
        Sample((values(18, 21),), _cumprod, {"axis": 1}, **_SUM),
        Sample((_ZEROS,), _cumprod, {"axis": 1}, grad="torch", second=False),
        Sample((integers(3, 4),), _cumprod, {"axis": 0}, dtypes=INTS),
        Sample((values(),), _cumprod, {"axis": 0}),
        Sample((values(0, 3),), _cumprod, {"axis": 1}),
    ],
    "logcumsumexp": [
        *_axes(values(3, 4, 5), _logsum, _SUM),
        Sample((values(18, 21, low=-90, high=90),), _logsum, {"axis": 1}, second=False, **_SUM),
        Sample((_ENDS,), _logsum, {"axis": 1}, grad=None),
        Sample((values(),), _logsum, {"axis": 0}),
        Sample((values(0, 3),), _logsum, {"axis": 1}),
    ],
    "cummax": [
        *_axes(distinct(3, 4, 5), _extreme, {}),
        *_axes(distinct(3, 4, 5), _extreme, {}, largest=False),
        Sample((_TIES,), _extreme, {"axis": 1}, grad=None),
        Sample((_TIES,), _extreme, {"axis": 1, "largest": False}, grad=None),
        Sample((distinct(18, 21),), _extreme, {"axis": 1}),
        Sample((integers(5, 4),), _extreme, {"axis": 0}, dtypes=INTS),
        Sample((values(),), _extreme, {"axis": 0}),
        Sample((values(0, 3),), _extreme, {"axis": 1}),
    ],
    "linear_recurrence": [
        *[Sample(_pair(3, 4, 5), _recurrence, {"axis": a}, **_SUM) for a in (0, 1, -1)],
        Sample(_pair(18, 21), _recurrence, {"axis": 1, "reverse": True}, **_SUM),
        Sample(_pair(2, 3), _recurrence, {"axis": 0, "reverse": True}, **_SUM),
        Sample((_ENDS, values(3, 4)), _recurrence, {"axis": 1}, grad=None),
        Sample((values(), values(seed=1)), _recurrence, {"axis": 0}),
        Sample(_pair(0, 3), _recurrence, {"axis": 1}),
    ],
}
