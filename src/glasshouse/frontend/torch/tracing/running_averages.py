"""Batch norms that average over all batches (`momentum=None`), said without reading a number.

PyTorch counts batches in a tensor and reads the count to divide by it, which a captured graph
cannot. While a model is captured the averages move by tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm


def _counted(norm: Any, x: torch.Tensor) -> torch.Tensor:
    norm._check_input_dim(x)
    with torch.no_grad():
        norm.num_batches_tracked.add_(1)
        axes = [0, *range(2, x.dim())]
        variance, mean = torch.var_mean(x.detach(), axes, correction=1)
        for held, now in ((norm.running_mean, mean), (norm.running_var, variance)):
            part = 1.0 / norm.num_batches_tracked.to(held.dtype)
            held.lerp_(now.to(held.dtype), part)
    return functional.batch_norm(x, None, None, norm.weight, norm.bias, True, 0.0, norm.eps)


@contextmanager
def counted_in_tensors() -> Iterator[None]:
    """While it lasts, such norms count in the graph."""
    before = _BatchNorm.forward

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        averages = self.training and self.track_running_stats and self.momentum is None
        return _counted(self, x) if averages else before(self, x)

    _BatchNorm.forward = forward
    try:
        yield
    finally:
        _BatchNorm.forward = before
