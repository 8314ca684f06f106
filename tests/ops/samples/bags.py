"""Samples of embedding bags: empty ones, one row that does not count, factors, closed offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ops.samples.sample import Array, Sample, values


def _torch(
    table: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, *scale: torch.Tensor,
    mean: bool = False, skipped: int = -1, closed: bool = False,
) -> torch.Tensor:  # fmt: skip
    return functional.embedding_bag(
        indices, table, offsets, mode="mean" if mean else "sum",
        padding_idx=None if skipped < 0 else skipped, include_last_offset=closed,
        per_sample_weights=scale[0] if scale else None,
    )  # fmt: skip


_INDICES = np.array([3, 0, 5, 5, 2, 3, 1, 0, 3], np.int64)
_OFFSETS = np.array([0, 2, 2, 5, 9], np.int64)  # an empty bag inside, one at the end


def _sample(table: Array, *scale: Array, offsets: Array = _OFFSETS, **attrs: Any) -> Sample:
    operands = (table, _INDICES, offsets, *scale)
    fixed = (*table.shape, len(offsets), len(_INDICES))
    return Sample(operands, _torch, attrs, static=[n for n in fixed if n != table.shape[1]], tol=4,
                  why="rows are summed in another order")  # fmt: skip


HOLES = {("embedding_bag", "scalar"): "its operands have 1 or 2 dimensions"}
SAMPLES = {
    "embedding_bag": [
        _sample(values(6, 11)),
        _sample(values(6, 37), mean=True),
        _sample(values(6, 3), skipped=3),
        _sample(values(6, 3), skipped=3, mean=True),
        _sample(values(6, 40), values(9, seed=1)),
        _sample(values(6, 4), closed=True),
        _sample(values(6, 4), values(9, seed=1), offsets=_OFFSETS[[0, 3, 4]], closed=True),
        _sample(values(6, 0)),
    ]
}
