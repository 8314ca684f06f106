"""Factorisations and triangular systems in PyTorch's words."""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = torch.Tensor


def lu(a: Tensor, *, pivot: bool) -> Any:
    return torch.linalg.lu_factor_ex(a, pivot=pivot)[:2]


def row_order(pivots: Tensor, *, rows: int) -> Tensor:
    none = torch.empty((*pivots.shape[:-1], rows, pivots.shape[-1]), device=pivots.device)
    permutation = torch.lu_unpack(none, pivots, unpack_data=False)[0]
    return permutation.argmax(-2)


def triangle_solve(a: Tensor, b: Tensor, *, upper: bool, unit: bool) -> Tensor:
    return torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)


def cholesky(a: Tensor) -> Tensor:
    """Not finite where it fails, as kernels have it; PyTorch leaves what it has got so far."""
    found, failed = torch.linalg.cholesky_ex(a)
    return found.masked_fill((failed != 0)[..., None, None], float("nan")).tril()


def householder(a: Tensor) -> Any:
    return torch.geqrf(a)


def reflections(both: Tensor, factors: Tensor, *, columns: int) -> Tensor:
    rows, count = both.shape[-2], factors.shape[-1]
    kept = both[..., : max(count, min(columns, rows))]
    padded = torch.nn.functional.pad(kept, (0, columns - kept.shape[-1]))
    return torch.linalg.householder_product(padded, factors)
