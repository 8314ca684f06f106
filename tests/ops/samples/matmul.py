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


def _products(
    x: torch.Tensor, *given: torch.Tensor, gate: str = "", eps: float | None = None
) -> torch.Tensor:
    weights = list(given)
    if eps is not None:
        x = torch.nn.functional.rms_norm(x, x.shape[-1:], weights.pop(0), eps)
    found = [x @ w.mT for w in weights]
    if not gate:
        return torch.cat(found, -1)
    opened: torch.Tensor = getattr(torch.nn.functional, gate)(found[0])
    return opened * found[1]


def _several(x: tuple[int, ...], *given: tuple[int, ...], **attrs: Any) -> Sample:
    weights = [values(*s, seed=i + 1) for i, s in enumerate(given)]
    return Sample((values(*x), *weights), _products, attrs, tol=8, why="sums in another order")


SAMPLES = {
    "products": [
        _several((3, 5), (2, 5)),
        _several((2, 3, 8), (4, 8), (2, 8), (2, 8)),
        _several((3, 8), (4, 8), (4, 8), gate="silu"),
        _several((1, 8), (4, 8), (4, 8), gate="gelu"),
        _several((8,), (4, 8), (4, 8), gate="gelu"),
        _several((2, 8), (8,), (4, 8), (3, 8), eps=1e-5),
        _several((1, 1, 8), (8,), (4, 8), (4, 8), eps=1e-3, gate="silu"),
        _several((0, 8), (4, 8), (2, 8)),
        _several((2, 0), (4, 0), (2, 0)),
    ],
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
HOLES = {
    ("matmul", "scalar"): "a scalar is not a matrix; multiply scales",
    ("products", "scalar"): "a scalar is not a matrix; multiply scales",
}
