"""Samples of the matrix product."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples.sample import Sample, integers, values


def _matmul(
    x: torch.Tensor, y: torch.Tensor, transpose_x: bool = False, transpose_y: bool = False
) -> torch.Tensor:
    return torch.matmul(x.mT if transpose_x else x, y.mT if transpose_y else y)


def _sample(x: tuple[int, ...], y: tuple[int, ...], **attrs: Any) -> Sample:
    return Sample(
        (values(*x), values(*y, seed=1)), _matmul, attrs, tol=3, why="sums in another order"
    )


_TX, _TY = {"transpose_x": True}, {"transpose_y": True}

SAMPLES = {
    "matmul": [
        _sample((3, 5), (5, 2)),
        _sample((5, 3), (5, 2), **_TX),
        _sample((3, 5), (2, 5), **_TY),
        _sample((5, 3), (2, 5), **_TX, **_TY),
        _sample((4, 3, 5), (5, 2)),
        _sample((4, 5, 3), (5, 2), **_TX),
        _sample((3, 5), (4, 2, 5), **_TY),
        _sample((2, 1, 3, 4), (1, 6, 4, 5)),
        _sample((2, 1, 4, 3), (6, 5, 4), **_TX, **_TY),
        _sample((5,), (5,)),
        _sample((5,), (5, 2)),
        _sample((5,), (3, 5, 2)),
        _sample((3, 4, 5), (5,)),
        _sample((0, 3, 5), (5, 2)),
        _sample((3, 0), (0, 2)),
        Sample((integers(3, 4), integers(4, 2, seed=1)), _matmul, dtypes=("int64", "int32")),
    ],
}
HOLES = {("matmul", "scalar"): "a scalar is not a matrix; multiply scales"}
