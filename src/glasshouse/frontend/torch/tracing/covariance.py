"""Covariances and correlations as a model is captured: PyTorch's own ask the data whether there are
enough of them, where their number answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

COVARIANCES = (torch.cov, torch.Tensor.cov)
CORRELATIONS = (torch.corrcoef, torch.Tensor.corrcoef)


def is_plain(args: Sequence[Any], given: Mapping[str, Any]) -> bool:
    """Whether a call has no weights, and numbers in at most two axes, of which there are enough."""
    if len(args) != 1 or not isinstance(args[0], torch.Tensor) or args[0].ndim > 2:
        return False
    weights = given.get("fweights") is not None or given.get("aweights") is not None
    enough = args[0].ndim > 0 and args[0].shape[-1] > int(given.get("correction", 1))
    known = given.keys() <= {"fweights", "aweights", "correction"}
    return enough and known and not weights and args[0].dtype is not torch.bool


def cov(x: torch.Tensor, *, correction: int = 1, **weights: None) -> torch.Tensor:
    """Rows are variables; the sums are divided by the number of columns less `correction`."""
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    count = rows.shape[1]
    apart = rows - (rows.sum(1) / count).unsqueeze(1)
    return (apart @ apart.mH / (count - correction)).squeeze()


def corrcoef(x: torch.Tensor) -> torch.Tensor:
    """Covariances over the roots of both variances."""
    found = cov(x)
    if found.ndim == 0:
        return found / found
    spread = found.diagonal().real.sqrt() if found.is_complex() else found.diagonal().sqrt()
    found = found / spread.unsqueeze(-1) / spread
    if found.is_complex():
        return torch.complex(found.real.clip(-1, 1), found.imag.clip(-1, 1))
    return found.clip(-1, 1)
