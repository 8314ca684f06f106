"""Samples of sort, topk and nth."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ops.samples.sample import BOOLS, INTS, Array, Sample, bools, distinct, integers, values


def _sort(x: torch.Tensor, axis: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def _topk(x: torch.Tensor, k: int, axis: int = -1, largest: bool = True) -> Any:
    return torch.topk(x, k, axis, largest)


def _nth(x: torch.Tensor, ranks: torch.Tensor, axis: int = -1, descending: bool = False) -> Any:
    found = torch.sort(x, dim=axis, descending=descending, stable=True)
    return tuple(v.gather(axis, ranks.long()) for v in found)


_RANKS = np.array([[3, 0], [1, 1], [2, 3]])
_TIES = np.array([[1.0, 3.0, 3.0, 1.0, np.nan], [2.0, np.nan, 2.0, -np.inf, np.inf]])


def _both(x: Array, **kw: Any) -> list[Sample]:
    return [Sample((x,), _sort, {"descending": d}, **kw) for d in (False, True)]


SAMPLES = {
    "sort": [
        *_both(distinct(3, 4)),
        Sample((distinct(2, 5, 3),), _sort, {"axis": 1}),
        *_both(_TIES, grad=None),
        *_both(integers(3, 6, low=0, high=4), dtypes=INTS),
        *_both(bools(7), dtypes=BOOLS),
        Sample((values(),), _sort),
        Sample((values(0, 3),), _sort),
        Sample((values(3, 0),), _sort),
    ],
    "nth": [
        Sample((distinct(3, 4), _RANKS), _nth),
        Sample((distinct(3, 4), _RANKS), _nth, {"descending": True}),
        Sample((distinct(2, 5, 3), _RANKS[:, :1].T.repeat(2, 0)[:, None]), _nth, {"axis": 1}),
        Sample((_TIES, np.array([[4, 2, 1], [0, 2, 4]])), _nth, grad=None),
        Sample((integers(3, 6, low=0, high=4), _RANKS), _nth, dtypes=("int64", "int32")),
        Sample((bools(7), np.array([3])), _nth, dtypes=BOOLS),
        Sample((values(3, 4), np.zeros((3, 0), np.int64)), _nth),
    ],
    "topk": [
        Sample((distinct(3, 5),), _topk, {"k": 2}),
        Sample((distinct(3, 5),), _topk, {"k": 5, "largest": False}),
        Sample((distinct(4, 2, 3),), _topk, {"k": 3, "axis": 0}),
        Sample((values(0, 3),), _topk, {"k": 2}),
        Sample((values(3, 2),), _topk, {"k": 0}),
        Sample((values(),), _topk, {"k": 1}),
        Sample(
            (np.random.default_rng(0).permutation(12).reshape(2, 6),), _topk, {"k": 3}, dtypes=INTS
        ),
    ],
}
HOLES = {("nth", "scalar"): "a scalar has no axis to have an order along"}
