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
    """The first columns of the product; PyTorch gives as many as there are factors, or more."""
    count = factors.shape[-1]
    missing = max(columns - count, 0)
    padded = torch.nn.functional.pad(both[..., :count], (0, missing))
    return torch.linalg.householder_product(padded, factors)[..., :columns]
