"""Samples of factorisations and triangular systems: in lanes, in panels, single and in batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ops.samples.sample import WIDE, Array, Sample, values

_TOL: dict[str, Any] = {"tol": 200, "why": "errors grow with a matrix's condition"}


def _lu(a: torch.Tensor, pivot: bool = True) -> Any:
    return torch.linalg.lu_factor_ex(a, pivot=pivot)[:2]


def _order(pivots: torch.Tensor, rows: int) -> torch.Tensor:
    return torch.lu_unpack(torch.zeros(*pivots.shape[:-1], rows, pivots.shape[-1]), pivots)[
        0
    ].argmax(-2)


def _solve(a: torch.Tensor, b: torch.Tensor, upper: bool = False, unit: bool = False) -> Any:
    return torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)


def _cholesky(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky_ex(a)[0]


def _steady(*shape: int) -> Array:
    """Matrices with a diagonal that counts."""
    n = shape[-1]
    return values(*shape) / n + 2 * np.eye(*shape[-2:])


def _positive(*shape: int) -> Array:
    half = values(*shape)
    out: Array = half @ half.swapaxes(-2, -1) / shape[-1] + np.eye(shape[-1])
    return out


def _factored(*shape: int) -> Sample:
    small = max(shape[-2:]) < 6
    return Sample(
        (values(*shape),), _lu, dtypes=WIDE, grad="fd" if small else None, second=False,
        static=shape[-2:], **_TOL,
    )  # fmt: skip


def _system(batch: tuple[int, ...], n: int, k: int, upper: bool, unit: bool = False) -> Sample:
    given = (_steady(*batch, n, n), values(*batch, n, k))
    attrs = {"upper": upper, "unit": unit}
    large = n > 8
    return Sample(
        given, _solve, attrs, dtypes=WIDE, grad=None if large else "fd", second=False, **_TOL
    )


def _householder(a: torch.Tensor) -> Any:
    return torch.geqrf(a)


def _reflections(both: torch.Tensor, factors: torch.Tensor, columns: int) -> torch.Tensor:
    rows = both.shape[-2]
    one = torch.eye(rows, dtype=both.dtype).expand(*both.shape[:-1], rows)
    return torch.ormqr(both, factors, one)[..., :columns]


def _reflected(*shape: int) -> Sample:
    small = max(shape[-2:]) < 6
    return Sample(
        (values(*shape),), _householder, dtypes=WIDE, grad="fd" if small else None, second=False,
        static=shape[-2:], **_TOL,
    )  # fmt: skip


def _product(rows: int, stored: int, columns: int, *batch: int) -> Sample:
    seeds = range(int(np.prod(batch)))
    raw = [np.linalg.qr(values(rows, stored, seed=s), "raw")[0].T for s in seeds]
    made = np.stack(raw).reshape(*batch, rows, stored)
    low = np.tril(made, -1)
    factors = 2 / (1 + (low**2).sum(-2))[..., : min(rows, stored)]
    return Sample(
        (made, factors), _reflections, {"columns": columns}, dtypes=WIDE, second=False,
        grad="fd" if rows < 6 else None, static=(rows, stored, min(rows, stored)), **_TOL,
    )  # fmt: skip


_HALF = "float32 and float64 alone, as LAPACK has it"
_AXES = "a matrix has two axes"
_OPS = ("lu", "triangle_solve", "cholesky", "row_order", "householder", "reflections")
HOLES = {
    **{(op, "half"): _HALF for op in _OPS},
    **{(op, "scalar"): _AXES for op in _OPS},
    ("householder", "second"): "the gradient is that of a loop",
    ("reflections", "second"): "the gradient is that of a loop",
    ("lu", "second"): "the gradient is made of triangular systems",
    ("triangle_solve", "second"): "the gradient is made of the op itself",
    ("cholesky", "second"): "the gradient is made of triangular systems",
}
SAMPLES = {
    "lu": [
        _factored(3, 3), _factored(2, 3, 5), _factored(5, 3), _factored(70, 70),
        _factored(5, 40, 40), _factored(20, 7, 7),
        _factored(17, 5, 9), _factored(45, 37), _factored(37, 45), _factored(0, 3, 3),
        Sample((_steady(40, 40),), None, {"pivot": False}, dtypes=WIDE, grad=None, static=(40,),
               why="PyTorch has it on GPUs alone", tol=200),
    ],
    "row_order": [
        Sample((np.array([[2, 3, 3], [1, 2, 3]], np.int32),), _order, {"rows": 3},
               dtypes=("int32",), grad=None, static=(3,)),
        Sample((np.array([4, 4], np.int32),), _order, {"rows": 5}, dtypes=("int32",), grad=None,
               static=(2,)),
        Sample((np.zeros((0, 2), np.int32),), _order, {"rows": 2}, dtypes=("int32",), grad=None,
               static=(2,)),
    ],
    "triangle_solve": [
        *[_system((), 6, k, upper) for k in (1, 20) for upper in (False, True)],
        _system((), 5, 3, False, True), _system((), 5, 9, True, True),
        _system((18,), 4, 3, True), _system((2, 2), 70, 40, False), _system((), 75, 2, True),
        _system((3,), 50, 20, True, True), _system((0,), 3, 2, False),
    ],
    "cholesky": [
        Sample((_positive(4, 4),), _cholesky, dtypes=WIDE, grad="fd", second=False, **_TOL),
        Sample((_positive(70, 70),), _cholesky, dtypes=WIDE, grad=None, **_TOL),
        Sample((_positive(20, 6, 6),), _cholesky, dtypes=WIDE, grad=None, **_TOL),
        Sample((_positive(3, 33, 33),), _cholesky, dtypes=WIDE, grad=None, **_TOL),
        Sample((values(0, 4, 4),), _cholesky, dtypes=WIDE, grad=None, **_TOL),
    ],
    "householder": [
        _reflected(4, 4), _reflected(2, 5, 3), _reflected(3, 5), _reflected(70, 50),
        _reflected(33, 70), _reflected(18, 6, 4), _reflected(0, 3, 3),
        Sample((np.triu(values(40, 40)),), _householder, dtypes=WIDE, grad=None, static=(40,),
               **_TOL),
    ],
    "reflections": [
        _product(5, 3, 3), _product(5, 3, 5), _product(4, 4, 2), _product(70, 50, 70),
        _product(40, 10, 30, 2), _product(18, 17, 9, 20),
        Sample((values(0, 4, 3), values(0, 3)), None, {"columns": 3}, dtypes=WIDE, grad=None,
               why="PyTorch takes no empty batch here", static=(4, 3)),
    ],
}  # fmt: skip
