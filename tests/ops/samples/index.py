"""Samples of reading and writing at indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ops.samples.sample import INDICES, Array, Sample, integers, values

_NEGATIVE = np.array([[0, -1, 2], [2, 2, 1]])
_ROWS = np.array([[0, 1, 2], [2, 0, 1]])
_PLACES = np.array([[0, 1], [1, -1], [1, 0]])
_REPEATED = np.array([[0, 1], [1, 2], [0, 1], [0, -2]])


def _counted(indices: torch.Tensor, size: int) -> torch.Tensor:
    return torch.where(indices < 0, indices + size, indices).long()


def _from_front(x: torch.Tensor, besides: int = 0) -> torch.Tensor:
    return torch.where((x < 0) & (x != besides), torch.iinfo(x.dtype).max, x)


def _take(x: torch.Tensor, indices: torch.Tensor, axis: int = 0) -> torch.Tensor:
    flat = _counted(indices, x.shape[axis]).reshape(-1)
    at = axis % x.ndim
    return x.index_select(at, flat).reshape(*x.shape[:at], *indices.shape, *x.shape[at + 1 :])


def _take_grad(g: torch.Tensor, indices: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    flat = _counted(indices, size).reshape(-1)
    after = g.shape[axis + indices.ndim :]
    rows = g.reshape(*g.shape[:axis], flat.numel(), *after)
    return g.new_zeros(*g.shape[:axis], size, *after).index_add(axis, flat, rows)


def _gather(x: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    return torch.gather(x, axis, _counted(indices, x.shape[axis]))


def _scatter(
    x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, axis: int, mode: str = "set"
) -> torch.Tensor:
    places = _counted(indices, x.shape[axis])
    if mode in ("max", "min"):
        return x.scatter_reduce(axis, places, updates, f"a{mode}")
    if mode == "mul":
        return x.scatter_reduce(axis, places, updates, "prod")
    f = x.scatter_add if mode == "add" else x.scatter
    return f(axis, places, updates)


def _nd(x: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return tuple(indices.long().unbind(-1))


def _gather_nd(x: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    return x[_nd(x, indices)] if indices.shape[-1] else x.expand(*indices.shape[:-1], *x.shape)


def _scatter_nd(
    x: torch.Tensor, indices: torch.Tensor, updates: torch.Tensor, mode: str = "set", axis: int = 0
) -> torch.Tensor:
    lead, last = tuple(range(axis)), tuple(range(-axis, 0))
    front, new = x.movedim(lead, last), updates.movedim(lead, last)
    if mode in ("mul", "max", "min"):
        depth = indices.shape[-1]
        width = math.prod(front.shape[depth:])
        rows = torch.arange(front.numel() // width).reshape(front.shape[:depth])
        places = rows[_nd(front, indices)].reshape(-1, 1).expand(-1, width)
        flat, given = front.reshape(-1, width), new.reshape(-1, width)
        how = "prod" if mode == "mul" else f"a{mode}"
        made = flat.scatter_reduce(0, places, given, how).reshape(front.shape)
    else:
        made = front.index_put(_nd(x, indices), new, accumulate=mode == "add")
    return made.movedim(last, lead)


def _triangle(x: torch.Tensor, diagonal: int = 0, upper: bool = False) -> torch.Tensor:
    return x.triu(diagonal) if upper else x.tril(diagonal)


def _one_hot(indices: torch.Tensor, depth: int, dtype: str = "int64") -> torch.Tensor:
    return F.one_hot(indices.long(), depth).to(getattr(torch, dtype))


def _of(f: Any, *inputs: Array, static: Any = (), **attrs: Any) -> Sample:
    return Sample(inputs, f, attrs, static=static)


# The last axis of the indices of gather_nd and scatter_nd says how many axes they name.
_PAIRS: Any = {"static": (2,)}


_EMPTY = np.zeros((0,), np.int64)
HOLES = {
    ("gather", "scalar"): "indices have the dimensions of the tensor, of which a scalar has none",
    ("scatter", "scalar"): "indices have the dimensions of the tensor, of which a scalar has none",
    ("gather_nd", "scalar"): "the last axis of the indices is a place, so they have one",
    ("scatter_nd", "scalar"): "the last axis of the indices is a place, so they have one",
    ("triangle", "scalar"): "a triangle is of a matrix",
    ("one_hot", "half"): "indices are whole numbers",
    ("from_front", "half"): "indices are whole numbers",
}
SAMPLES = {
    "from_front": [
        Sample((_NEGATIVE,), _from_front, dtypes=INDICES),
        Sample((np.array(-2),), _from_front, dtypes=INDICES),
        Sample((_EMPTY,), _from_front, dtypes=INDICES),
        Sample((np.array([-100, -1, 3]),), _from_front, {"besides": -100}, dtypes=INDICES),
    ],
    "take": [
        _of(_take, values(4, 3, 2), _NEGATIVE, axis=1),
        _of(_take, values(3, 4), _NEGATIVE.astype(np.int32)),
        _of(_take, values(4, 3), np.array(-2), axis=-1),
        _of(_take, values(4, 3), _EMPTY),
        Sample((integers(5, 2), _NEGATIVE), _take, dtypes=("int64",), grad=None),
    ],
    "take_grad": [
        _of(_take_grad, values(4, 2, 3, 5), _NEGATIVE, axis=1, size=3),
        _of(_take_grad, values(2, 3), _NEGATIVE.astype(np.int32), axis=0, size=7),
        _of(_take_grad, values(4), np.array(2), axis=1, size=3),
        _of(_take_grad, values(0, 3), _EMPTY, axis=0, size=5),
    ],
    "gather": [
        _of(_gather, values(2, 4), _NEGATIVE, axis=-1),
        _of(_gather, values(3, 5), _NEGATIVE, axis=0),
        _of(_gather, values(3, 3), _NEGATIVE.astype(np.int32), axis=1),
        _of(_gather, values(3, 2), np.zeros((0, 2), np.int64), axis=0),
    ],
    "scatter": [
        _of(_scatter, values(2, 3), _ROWS, values(2, 3, seed=1), axis=1),
        _of(_scatter, values(4, 3), np.array([[0, -1, 2]]), values(1, 3, seed=1), axis=0),
        _of(_scatter, values(2, 3), _NEGATIVE, values(2, 3, seed=1), axis=1, mode="add"),
        _of(_scatter, values(5, 4), _NEGATIVE, values(2, 3, seed=1), axis=0, mode="max"),
        _of(_scatter, values(2, 3), _NEGATIVE, values(2, 3, seed=1), axis=1, mode="mul"),
        _of(_scatter, values(5, 4), _NEGATIVE, values(2, 3, seed=1), axis=0, mode="add"),
        _of(_scatter, values(2, 3), _NEGATIVE, values(2, 3, seed=1), axis=1, mode="min"),
        _of(_scatter, values(3, 2), np.zeros((0, 2), np.int64), values(0, 2), axis=0),
    ],
    "gather_nd": [
        _of(_gather_nd, values(2, 3, 4), _PLACES, **_PAIRS),
        _of(_gather_nd, values(2, 3), _REPEATED.astype(np.int32).reshape(2, 2, 2), **_PAIRS),
        _of(_gather_nd, values(2, 3), np.zeros((4, 0), np.int64)),
        _of(_gather_nd, values(2, 3), np.zeros((0, 1), np.int64)),
    ],
    "scatter_nd": [
        _of(_scatter_nd, values(2, 3, 4), _PLACES, values(3, 4, seed=1), **_PAIRS),
        _of(_scatter_nd, values(2, 3, 5), _REPEATED, values(4, 5, seed=1), mode="add", **_PAIRS),
        _of(_scatter_nd, values(2, 3, 5), _REPEATED, values(4, 5, seed=1), mode="max", **_PAIRS),
        _of(_scatter_nd, values(2, 3, 5), _REPEATED, values(4, 5, seed=1), mode="mul", **_PAIRS),
        _of(_scatter_nd, values(6, 3), np.array([[4], [-1]]), values(2, 3, seed=1)),
        _of(_scatter_nd, values(6, 3), np.array([[4], [-1]]), values(2, 3, seed=1), mode="min"),
        _of(_scatter_nd, values(6, 3), np.zeros((0, 1), np.int64), values(0, 3)),
        _of(_scatter_nd, values(2, 6, 3), np.array([[4], [-1]]), values(2, 2, 3, seed=1), axis=1),
        _of(
            _scatter_nd,
            values(2, 6, 3),
            np.array([[4], [4]]),
            values(2, 2, 3, seed=1),
            mode="max",
            axis=1,
        ),
        _of(
            _scatter_nd,
            values(5, 2, 3),
            _REPEATED,
            values(5, 4, seed=1),
            mode="add",
            axis=1,
            **_PAIRS,
        ),
    ],
    "triangle": [
        _of(_triangle, values(2, 4, 5), diagonal=1),
        _of(_triangle, values(4, 3), diagonal=-1, upper=True),
        _of(_triangle, values(3, 3)),
        _of(_triangle, values(0, 3)),
    ],
    "one_hot": [
        Sample((np.array([[0, 2], [1, 1]]),), _one_hot, {"depth": 3}, dtypes=INDICES),
        Sample((np.array(3),), _one_hot, {"depth": 5, "dtype": "float32"}, dtypes=INDICES),
        Sample((_EMPTY,), _one_hot, {"depth": 2, "dtype": "bool"}, dtypes=INDICES),
    ],
}
