"""Samples of the matrix product."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples.sample import WIDE, Sample, integers, values


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


def _parts(rows: torch.Tensor) -> torch.Tensor:
    """Sums of each 32 columns, and squares of their distances from their mean."""
    whole = rows.reshape(-1, rows.shape[-1] // 32, 32).float()
    sums = whole.sum(-1)
    return torch.stack([sums, (whole - sums[..., None] / 32).square().sum(-1)], -1)


def _factors(parts: torch.Tensor, lead: torch.Size, eps: float) -> tuple[torch.Tensor, ...]:
    parts, wide = parts.double(), parts.shape[1] * 32
    mean = parts[..., 0].sum(1) / wide
    apart = parts[..., 0] - 32 * mean[:, None]
    squares = (parts[..., 1] + apart.square() / 32).sum(1)
    return tuple(v.reshape(*lead, 1) for v in (mean, (squares / wide + eps).rsqrt()))


def _leaving(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor,
    residual: torch.Tensor,
    *norm: torch.Tensor,
    eps: float = 1e-5,
) -> tuple[torch.Tensor, torch.Tensor]:
    if norm:
        mean, factor = _factors(norm[0], residual.shape[:-1], eps)
        residual = (residual - mean) * factor * norm[1] + norm[2]
    rows = (residual + (x @ w.mT + bias)).to(x.dtype)
    return rows, _parts(rows)


def _normed(
    x: torch.Tensor, parts: torch.Tensor, w: torch.Tensor, columns: torch.Tensor, eps: float = 1e-5
) -> torch.Tensor:
    mean, factor = _factors(parts, x.shape[:-1], eps)
    return (((x @ w.mT) - mean * columns[0]) * factor + columns[1]).to(x.dtype)


def _left(*lead: int, columns: int = 64, norm: bool = False) -> Sample:
    given = [values(*lead, 8), values(columns, 8, seed=1), values(columns, seed=2)]
    residual = values(*lead, columns, seed=3)
    if norm:
        parts = _parts(torch.from_numpy(residual)).numpy()
        more = [parts, values(columns, seed=4), values(columns, seed=5)]
    return Sample(
        (*given, residual, *(more if norm else ())), _leaving, tol=40,
        why="sums in another order", dtypes=WIDE, static=(2, 3, 6, 32, 64),
    )  # fmt: skip


def _behind(*lead: int, wide: int = 64) -> Sample:
    x, w = values(*lead, wide), values(6, wide, seed=1)
    columns = values(2, 6, seed=2).astype("float32")
    parts = _parts(torch.from_numpy(x)).numpy()
    return Sample(
        (x, parts, w, columns),
        _normed,
        tol=40,
        why="sums in another order",
        dtypes=WIDE,
        static=(2, 3, 5, 15, 1, 32, 64),
    )


SAMPLES = {
    "product_and_parts": [_left(3), _left(2, 3, norm=True), _left(0)],
    "normed_product": [_behind(3), _behind(5, 3, wide=32), _behind(0)],
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
    (
        "product_and_parts",
        "half",
    ): "parts are those of rounded rows; the kernels' tests compare them",
    ("normed_product", "half"): "PyTorch would round mean and sums; the kernels' tests compare it",
    ("product_and_parts", "scalar"): "a scalar is not a matrix; multiply scales",
    ("normed_product", "scalar"): "a scalar is not a matrix; multiply scales",
    ("products", "scalar"): "a scalar is not a matrix; multiply scales",
}
