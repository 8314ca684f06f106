"""One call of PyTorch's that tells whether tensors are like others that passed every check.

It compares class, element type, device, layout, negative and conjugate bits, `requires_grad`, sizes
and strides (`torch.compile` guards its graphs with it): 0.11 to 0.18 us for a tensor, where asking
the tensor for each of them takes 0.45. What it does not know, such as tensors made in inference
mode, goes through those questions, and is known from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

TensorCheck = Callable[..., bool]
"""(tensors) -> whether they are surely right; False says nothing."""

LEARNED = 16
"""How often something new is learned: one thing is known at a time, and making it takes 3 us."""


def never(*tensors: Any) -> bool:
    """Knows nothing."""
    return False


class Learner:
    """Makes checks from tensors that passed; of those with `fixed`, sizes and strides count too."""

    def __init__(self, fixed: Sequence[bool]) -> None:
        self._fixed = fixed
        self._left = LEARNED
        self._last: TensorCheck = never

    def __call__(self, *tensors: Any) -> TensorCheck:
        if self._left:
            self._left -= 1
            self._last = self._made(tensors)
        return self._last

    def _made(self, tensors: Sequence[Any]) -> TensorCheck:
        pairs = list(zip(tensors, self._fixed, strict=True))
        sizes: list[Any] = [list(t.shape) if fixed else [None] * t.dim() for t, fixed in pairs]
        steps: list[Any] = [list(t.stride()) if fixed else [None] * t.dim() for t, fixed in pairs]
        try:
            from torch._C._dynamo.guards import TensorGuards

            guards = TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=steps)
            check: TensorCheck = guards.check
        except (ImportError, TypeError):  # not part of what PyTorch promises: then as without
            self._left = 0
            return never
        return check
