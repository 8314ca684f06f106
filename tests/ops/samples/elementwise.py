"""Samples of arithmetic, comparison, logic and selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ops.samples.sample import (
    BOOLS,
    FLOATS,
    INTS,
    SIGNED,
    WIDE,
    Array,
    Sample,
    away,
    bools,
    integers,
    values,
)

PAIRS = [
    ((3, 4), (3, 4)),
    ((2, 3, 4), (4,)),
    ((3, 1), (1, 5)),
    ((), (3,)),
    ((), ()),
    ((0, 4), (1, 4)),
]
SHAPES = [(3, 4), (2, 1, 5), (), (0, 3)]
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5])  # every kind of float there is


def _apart(x: Array, y: Array, gap: float = 0.05) -> Array:
    """y moved away from x wherever they nearly meet."""
    return np.where(np.abs(x - y) < gap, y + 0.2, y)


def _floats(
    f: Callable[..., Any], *, y: Callable[[Array], Array] = lambda a: a, **kw: Any
) -> list[Sample]:
    pairs = [(values(*a), values(*b, seed=1)) for a, b in PAIRS]
    return [Sample((a, y(b)), f, dtypes=FLOATS, **kw) for a, b in pairs]


def _special(f: Callable[..., Any]) -> Sample:
    return Sample((ODD[:, None], ODD), f, dtypes=FLOATS, grad=None)


def _ints(
    f: Callable[..., Any], dtypes: tuple[str, ...] = INTS, nonzero: bool = False
) -> list[Sample]:
    low, high = (-9, 10) if "uint8" not in dtypes else (0, 10)
    b = integers(4, low=low, high=high, seed=1)
    second = np.where(b == 0, 3, b) if nonzero else b
    return [Sample((integers(3, 4, low=low, high=high), second), f, dtypes=dtypes)]


def _both_bools(f: Callable[..., Any]) -> Sample:
    return Sample((bools(4, 1), bools(3, seed=1)), f, dtypes=BOOLS)


def _unary(
    f: Callable[..., Any], change: Callable[[Array], Array] = lambda a: a, **kw: Any
) -> list[Sample]:
    out = [Sample((change(values(*s)),), f, **kw) for s in SHAPES]
    return [*out, Sample((ODD,), f, grad=None)]


def _compare(f: Callable[..., Any]) -> list[Sample]:
    return [*_floats(f), _special(f), *_ints(f), _both_bools(f)]


def _bitwise(f: Callable[..., Any]) -> list[Sample]:
    empty = Sample((integers(0, 4), integers(4)), f, dtypes=SIGNED)
    return [
        *_ints(f),
        *_ints(f, SIGNED),
        _both_bools(f),
        empty,
        Sample((integers(), integers(3)), f, dtypes=SIGNED),
    ]


def _shift(f: Callable[..., Any]) -> list[Sample]:
    # int8 has 8 bits: shifts of 8, 9 and of -1 lie outside.
    by = np.array([0, 1, 3, 7, 8, 9, -1])
    x = np.array([[1, -1, 5, -128, 127, -7, 6]] * 2)
    return [
        Sample((x, by), f, dtypes=SIGNED),
        Sample((np.abs(x) % 128, np.abs(by)), f, dtypes=("uint8", "int64")[::-1]),
        Sample((integers(0, 3), integers(3)), f, dtypes=SIGNED),
        Sample((integers(), integers(3, low=0)), f, dtypes=SIGNED),
    ]


def _power(low: float, high: float) -> list[Sample]:
    pairs = [
        (values(*a, low=0.3, high=2.0), values(*b, low=low, high=high, seed=1)) for a, b in PAIRS
    ]
    return [Sample(p, torch.pow, tol=3, why="pow in float32 differs by a few ulp") for p in pairs]


_KINK = (np.array([1.0, 2.0, -1.0, 0.0]), np.array([1.0, -2.0, 3.0, 0.0]))


def _where(c: tuple[int, ...], x: tuple[int, ...], y: tuple[int, ...], **kw: Any) -> Sample:
    return Sample((bools(*c), values(*x), values(*y, seed=1)), torch.where, **kw)


def _cast(to: str, x: Array, **kw: Any) -> Sample:
    return Sample((x,), lambda x, dtype: x.to(getattr(torch, dtype)), {"dtype": to}, **kw)


def _clip(x: Array, low: float | None, high: float | None, **kw: Any) -> Sample:
    def f(x: torch.Tensor, low: float | None = None, high: float | None = None) -> torch.Tensor:
        return x.clone() if low is None and high is None else torch.clamp(x, low, high)

    return Sample((x,), f, {"low": low, "high": high}, **kw)


SAMPLES = {
    "add": [*_floats(torch.add), _special(torch.add), *_ints(torch.add), _both_bools(torch.add)],
    "subtract": [*_floats(torch.sub), _special(torch.sub), *_ints(torch.sub)],
    "multiply": [
        *_floats(torch.mul),
        _special(torch.mul),
        *_ints(torch.mul, SIGNED),
        _both_bools(torch.mul),
    ],
    "divide": [
        *_floats(torch.div, y=lambda b: away(b, 0.0, gap=0.3)),
        _special(torch.div),
        *_ints(torch.div, nonzero=True),
    ],
    "floor_divide": [
        *_floats(torch.floor_divide, y=lambda b: away(b, 0.0, gap=0.3), second=False),
        _special(torch.floor_divide),
        *_ints(torch.floor_divide, nonzero=True),
        *_ints(torch.floor_divide, SIGNED, nonzero=True),
    ],
    "remainder": [
        *_floats(torch.remainder, y=lambda b: away(b, 0.0, gap=0.3)),
        _special(torch.remainder),
        *_ints(torch.remainder, nonzero=True),
        *_ints(torch.remainder, SIGNED, nonzero=True),
    ],
    "power": [
        *_power(-2, 2),
        Sample(
            (np.array([0.0, -1.5, 2.0, 0.0, -0.5]), np.array([0.0, 2.0, 3.0, 2.0, 1.0])),
            torch.pow,
            grad="torch",
            second=False,
            dtypes=WIDE,
        ),
        _special(torch.pow),
        Sample(
            (integers(3, 4, low=0, high=5), integers(4, low=0, high=5)), torch.pow, dtypes=INTS[:3]
        ),
        Sample(
            (np.array([[1], [-1], [2], [-3]]), np.array([-1, -2, -3, 0, 1, 2])),
            torch.pow,
            dtypes=SIGNED,
        ),
    ],
    "maximum": [
        *[
            Sample((a, _apart(a, b)), torch.maximum)
            for a, b in [(values(*a), values(*b, seed=1)) for a, b in PAIRS]
        ],
        Sample(_KINK, torch.maximum, grad="torch", second=False),
        _special(torch.maximum),
        *_ints(torch.maximum),
        _both_bools(torch.maximum),
    ],
    "minimum": [
        *[
            Sample((a, _apart(a, b)), torch.minimum)
            for a, b in [(values(*a), values(*b, seed=1)) for a, b in PAIRS]
        ],
        Sample(_KINK, torch.minimum, grad="torch", second=False),
        _special(torch.minimum),
        *_ints(torch.minimum),
    ],
    "negative": [*_unary(torch.neg), Sample((integers(4),), torch.neg, dtypes=INTS)],
    "absolute": [
        *_unary(torch.abs, lambda a: away(a, 0.0)),
        Sample((integers(4),), torch.abs, dtypes=SIGNED),
        Sample((np.array([-1.0, 0.0, 2.0]),), torch.abs, grad="torch", second=False),
    ],
    "sign": [
        *_unary(torch.sign, lambda a: away(a, 0.0), second=False),
        Sample((integers(4),), torch.sign, dtypes=SIGNED),
    ],
    "less": _compare(torch.lt),
    "less_equal": _compare(torch.le),
    "greater": _compare(torch.gt),
    "greater_equal": _compare(torch.ge),
    "equal": _compare(torch.eq),
    "not_equal": _compare(torch.ne),
    "isnan": [*_unary(torch.isnan), Sample((integers(4),), torch.isnan, dtypes=INTS)],
    "isinf": [*_unary(torch.isinf), Sample((integers(4),), torch.isinf, dtypes=INTS)],
    "logical_and": _compare(torch.logical_and),
    "logical_or": _compare(torch.logical_or),
    "logical_xor": _compare(torch.logical_xor),
    "logical_not": [
        *_unary(torch.logical_not),
        Sample((bools(3),), torch.logical_not, dtypes=BOOLS),
    ],
    "bitwise_and": _bitwise(torch.bitwise_and),
    "bitwise_or": _bitwise(torch.bitwise_or),
    "bitwise_xor": _bitwise(torch.bitwise_xor),
    "bitwise_not": [Sample((integers(*s),), torch.bitwise_not, dtypes=SIGNED) for s in SHAPES]
    + [Sample((bools(3),), torch.bitwise_not, dtypes=BOOLS)],
    "left_shift": _shift(torch.bitwise_left_shift),
    "right_shift": _shift(torch.bitwise_right_shift),
    "where": [
        _where((3, 4), (3, 4), (3, 4)),
        _where((4,), (3, 1), ()),
        _where((), (3,), (3,)),
        _where((0, 4), (4,), (1, 4)),
        _where((), (), ()),
        Sample((bools(3), integers(2, 3), integers(3)), torch.where, dtypes=INTS),
    ],
    "cast": [
        _cast("float64", values(3, 4)),
        _cast("float32", values(3, 4), grad="torch", second=False),
        *[_cast(to, values(2, 3), grad=None) for to in ("int64", "int32", "int16", "int8", "bool")],
        _cast("uint8", values(5, low=0, high=200), grad=None, dtypes=WIDE),
        *[
            _cast(to, integers(4), dtypes=SIGNED)
            for to in ("float64", "uint8", "int8", "bool", "int64")
        ],
        _cast("float32", bools(3), dtypes=BOOLS),
        _cast("int64", bools(3), dtypes=BOOLS),
        _cast("float64", values()),
        _cast("float64", values(0, 3)),
        # 3e-8 lies in the range where float16 has no leading one; 7e4 is above all of it.
        _cast("float16", np.array([1e-3, 3e-8, 6e4, 7e4, 1.0004883]), dtypes=WIDE, grad=None),
    ],
    "clip": [
        *[_clip(away(values(*s), -1.0, 0.5), -1.0, 0.5) for s in SHAPES],
        _clip(away(values(5), 0.25), 0.25, None),
        _clip(away(values(5), 0.25), None, 0.25),
        _clip(values(5), None, None),
        _clip(ODD, -1, 1, grad=None),
        _clip(ODD, 2, 1, grad=None),
        _clip(np.array([-1.0, 0.0, 1.0, 2.0]), -1.0, 1.0, grad="torch", second=False),
        _clip(integers(6), -2, 4, dtypes=SIGNED),
        _clip(integers(6, low=0), 2, 4, dtypes=INTS),
    ],
}

_NO_FLOATS = "it takes no floats"
HOLES = {
    **{
        (name, "half"): _NO_FLOATS
        for name in (
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "bitwise_not",
            "left_shift",
            "right_shift",
        )
    },
    ("floor_divide", "second"): "its gradient is zero",
    ("sign", "second"): "its gradient is zero",
}
