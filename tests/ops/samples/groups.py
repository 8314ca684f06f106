"""Samples of products of groups of rows: groups without rows, ends beyond the last row, tails."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ops.samples.sample import Sample, values


def _torch(x: torch.Tensor, w: torch.Tensor, ends: torch.Tensor, turned: bool = False) -> Any:
    each = w.transpose(1, 2) if turned else w
    parts, begin = [], 0
    for group, end in enumerate([*ends.tolist()[:-1], x.shape[0]]):
        parts.append(x[begin : max(end, begin)] @ each[group])
        begin = max(end, begin)
    return torch.cat(parts)


def _sample(rows: int, depth: int, columns: int, *ends: int, turned: bool = False) -> Sample:
    shape = (columns, depth) if turned else (depth, columns)
    w = values(len(ends), *shape, seed=1)
    operands = (values(rows, depth), w, np.array(ends, np.int32))
    fixed = (len(ends), *([] if rows else [0]))
    return Sample(operands, _torch, {"turned": turned}, static=fixed, tol=8,
                  why="sums in another order")  # fmt: skip


HOLES = {("grouped_matmul", "scalar"): "its operands have 1 to 3 dimensions"}
SAMPLES = {
    "grouped_matmul": [
        _sample(9, 5, 7, 2, 2, 8, 9),
        _sample(40, 17, 33, 3, 40, 40),
        _sample(11, 6, 4, 11),
        _sample(12, 3, 70, 0, 5, 9, turned=True),  # the last group has what is left
        _sample(0, 3, 2, 0, 0),
    ]
}
