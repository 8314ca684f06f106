"""Gradients for many at once (`torch.autograd.grad(..., is_grads_batched=True)`, and by it
`torch.autograd.functional.jacobian(vectorize=True)`): a compiled backward graph is called with
tensors that stand for a batch of them and have no memory of their own.

PyTorch goes over the ops of a graph with its rules for such tensors, so it runs the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

_CORE: Any = torch._C
_BATCHED = _CORE._parse_dispatch_key("Batched")


def serving_batches(
    compiled: Callable[..., list[Any]], graph: Callable[..., Sequence[Any]]
) -> Callable[..., list[Any]]:
    """A compiled graph that leaves batches to PyTorch. They are looked for when a call has failed:
    no kernel can read them, and other calls shall not pay for the question."""

    def call(*flat: Any) -> list[Any]:
        try:
            return compiled(*flat)
        except RuntimeError:
            if not _has_batches(flat):
                raise
        return list(graph(*flat))

    return call


def _has_batches(flat: Iterable[Any]) -> bool:
    return any(isinstance(x, torch.Tensor) and _CORE._dispatch_keys(x).has(_BATCHED) for x in flat)
