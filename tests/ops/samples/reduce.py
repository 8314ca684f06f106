"""Samples of the folds along axes and of running sums."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ops.samples.sample import BOOLS, INTS, WIDE, Array, Sample, bools, distinct, integers, values

_AXES: list[dict[str, Any]] = [
    {},
    {"axes": [1]},
    {"axes": [-1], "keepdims": True},
    {"axes": [0, 2]},
    {"axes": None, "keepdims": True},
    {"axes": []},
]
_SUM = {"tol": 3, "why": "float32 and half sums round in another order"}


def _dims(x: torch.Tensor, axes: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axes is None else tuple(axes)


def _fold(f: Callable[..., Any]) -> Callable[..., Any]:
    """A torch function that takes one tuple of dims; no dims there means all of them."""

    def call(x: torch.Tensor, axes: Any = None, keepdims: bool = False, **kw: Any) -> torch.Tensor:
        dims = _dims(x, axes)
        if not dims:
            return f(x.unsqueeze(0), (0,), False, **kw)
        return f(x, dims, keepdims, **kw)

    return call


def _one_by_one(f: Callable[..., Any]) -> Callable[..., Any]:
    """A torch function that takes one dim at a time."""

    def call(x: torch.Tensor, axes: Any = None, keepdims: bool = False) -> torch.Tensor:
        dims = sorted((d % x.ndim for d in _dims(x, axes)), reverse=True)
        if not dims:
            return f(x.unsqueeze(0), 0, False)
        for d in dims:
            x = f(x, d, keepdims)
        return x

    return call


_sum = _fold(torch.sum)
_mean = _fold(torch.mean)
_amax = _fold(torch.amax)
_amin = _fold(torch.amin)
_prod = _one_by_one(torch.prod)
_any = _one_by_one(torch.any)
_all = _one_by_one(torch.all)


def _var(
    x: torch.Tensor, axes: Any = None, keepdims: bool = False, correction: int = 1
) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns where it gives NaN
        return torch.var(x, _dims(x, axes), correction=correction, keepdim=keepdims)


def _samples(f: Callable[..., Any], make: Callable[..., Array] = values, **kw: Any) -> list[Sample]:
    out = [Sample((make(2, 3, 4),), f, attrs, **kw) for attrs in _AXES]
    return [*out, Sample((make(),), f, **kw), Sample((make(0, 3),), f, {"axes": [1]}, **kw)]


def _nan(*shape: int) -> Array:
    x = values(*shape)
    x[(0,) * len(shape)] = np.nan
    return x


def _ties(f: Callable[..., Any]) -> Sample:
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    return Sample((x,), f, {"axes": [1]}, grad="torch", second=False)


def _whole(f: Callable[..., Any], **attrs: Any) -> list[Sample]:
    return [
        Sample((integers(3, 4, low=0, high=5),), f, attrs, dtypes=INTS),
        Sample((bools(3, 4),), f, attrs, dtypes=BOOLS),
    ]


_ARG: list[dict[str, Any]] = [{"axis": 1}, {"axis": -1, "keepdims": True}, {"axis": 0}]


def _arg(f: Callable[..., Any]) -> list[Sample]:
    def call(x: torch.Tensor, axis: int, keepdims: bool = False) -> torch.Tensor:
        return f(x, axis, keepdims)

    ties = np.array([[1.0, 3.0, 3.0, 1.0], [2.0, 2.0, 2.0, 2.0]])
    nans = np.array([[1.0, np.nan, 3.0, np.nan], [np.nan, 2.0, 2.0, 2.0]])
    return [
        *[Sample((distinct(2, 3, 4),), call, attrs) for attrs in _ARG],
        *[Sample((x,), call, {"axis": 1}) for x in (ties, nans)],
        Sample((values(),), call, {"axis": 0}),
        Sample((values(0, 3),), call, {"axis": 1}),
        Sample((integers(3, 4),), call, {"axis": 1}, dtypes=INTS[:4]),
    ]


def _cumsum(
    x: torch.Tensor, axis: int, exclusive: bool = False, reverse: bool = False
) -> torch.Tensor:
    x = x.flip(axis) if reverse and x.ndim else x
    if exclusive and x.ndim:
        first = torch.zeros_like(x.narrow(axis, 0, 1))
        x = torch.cat((first, x.narrow(axis, 0, x.shape[axis] - 1)), axis)
    out = torch.cumsum(x, axis)
    return out.flip(axis) if reverse and x.ndim else out


# None, one, two and three zeros in a row.
_ZEROS = np.array([[2.0, 3.0, -1.0], [1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]])

SAMPLES = {
    "sum": [
        *_samples(_sum, **_SUM),
        *_whole(_sum, axes=[0]),
        Sample((_nan(3, 4),), _sum, grad=None),
        Sample((values(0, 3),), _sum, {"axes": [0]}),
    ],
    "mean": [
        *_samples(_mean, **_SUM),
        Sample((np.zeros((0, 3)),), _mean, {"axes": [0]}, grad=None),
        Sample(
            (integers(3, 4),), lambda x: x.float().mean(), dtypes=INTS, tol=3, why="one float32 sum"
        ),
    ],
    "prod": [
        *_samples(_prod, **_SUM),
        *_whole(_prod, axes=[1]),
        Sample((_ZEROS,), _prod, {"axes": [1]}, grad="torch"),
    ],
    "max": [
        *_samples(_amax, distinct),
        _ties(_amax),
        *_whole(_amax, axes=[1]),
        Sample((_nan(3, 4),), _amax, {"axes": [1]}, grad=None),
    ],
    "min": [
        *_samples(_amin, distinct),
        _ties(_amin),
        *_whole(_amin, axes=[1]),
        Sample((_nan(3, 4),), _amin, {"axes": [1]}, grad=None),
    ],
    "any": [
        *_samples(_any),
        Sample((bools(3, 4),), _any, {"axes": [1]}, dtypes=BOOLS),
        Sample((integers(3, 4, low=0, high=2),), _any, {"axes": [0]}, dtypes=INTS[:4]),
        Sample((np.zeros((0, 3)),), _any, {"axes": [0]}),
    ],
    "all": [
        *_samples(_all),
        Sample((bools(3, 4),), _all, {"axes": [1]}, dtypes=BOOLS),
        Sample((integers(3, 4, low=0, high=2),), _all, {"axes": [0]}, dtypes=INTS[:4]),
        Sample((np.zeros((0, 3)),), _all, {"axes": [0]}),
    ],
    "variance": [
        *[
            Sample(
                (values(2, 3, 4),), _var, attrs, tol=4, why="sums of squares round in another order"
            )
            for attrs in (
                *_AXES[:5],
                {"axes": [1], "correction": 0},
                {"axes": [0, 1], "correction": 2},
            )
        ],
        Sample((values(0, 3),), _var, {"axes": [1]}),
        Sample((values(0, 3),), _var, {"axes": [0]}, grad=None),
        Sample((values(),), _var, grad=None),
        Sample((values(3),), _var, {"correction": 3}, grad=None),
        # Far from zero, where E[x^2] - E[x]^2 would have no digits left.
        Sample(
            (values(50) + 1e4,),
            _var,
            dtypes=WIDE,
            tol=100,
            grad=None,
            why="torch's float32 mean of 1e4 is off by an ulp",
        ),
    ],
    "argmax": _arg(torch.argmax),
    "argmin": _arg(torch.argmin),
    "cumsum": [
        *[
            Sample((values(2, 3, 4),), _cumsum, attrs, **_SUM)
            for attrs in (
                {"axis": 1},
                {"axis": -1, "reverse": True},
                {"axis": 0, "exclusive": True},
                {"axis": 1, "exclusive": True, "reverse": True},
            )
        ],
        Sample((values(),), _cumsum, {"axis": 0}),
        Sample((values(0, 3),), _cumsum, {"axis": 0}),
        *_whole(_cumsum, axis=1),
    ],
}
