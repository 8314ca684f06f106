"""`gaussian_nll_loss` as a model is captured: PyTorch's own asks the data whether a variance is
below zero, and raises. The formula takes the least variance there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional

LOSSES = (functional.gaussian_nll_loss,)
_REDUCED = {"none": lambda x: x, "mean": torch.mean, "sum": torch.sum}


def is_plain(args: Sequence[Any], given: Mapping[str, Any]) -> bool:
    """Whether the variances are a tensor, one for each element or one for each row, and the results
    are put together in a way that there is."""
    named = dict(zip(("input", "target", "var", "full", "eps", "reduction"), args, strict=False))
    named |= given
    x, var = named["input"], named["var"]
    if named.get("reduction", "mean") not in _REDUCED or not isinstance(var, torch.Tensor):
        return False
    return x.shape in (var.shape, (*var.shape[:-1], x.shape[-1])) or x.shape[:-1] == var.shape


def gaussian_nll_loss(
    input: torch.Tensor,  # as PyTorch names it
    target: torch.Tensor,
    var: torch.Tensor,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> torch.Tensor:
    """The logarithm of the variance, and the square of the distance over it.

    A variance below the limit is the limit, and still has a gradient: PyTorch writes the limit
    under `no_grad`, which its tracer does not record inside of a function that modes are shown.
    """
    if input.dim() != var.dim():
        var = var.unsqueeze(-1)
    var = torch.where(var < eps, var - var.detach() + eps, var)
    loss = 0.5 * (torch.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _REDUCED[reduction](loss)
