"""Lets Dynamo capture `torch.autograd.grad` while it works for us.

Left to itself it breaks the graph there; the part before is compiled with a gradient, and PyTorch
refuses to take the gradient of that gradient. Functions that call `backward` keep the break: such a
step is compiled in parts, forward and backward. Dynamo's other backends keep what its user has set.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch._dynamo import config

from glasshouse.frontend.torch.dynamo_hooks import around_captures
from glasshouse.frontend.torch.recurrent_layers import captured_for

_SET: list[bool] = []
"""What the user had set, while Dynamo works for us."""


def capture_inner_gradients(backend: Callable[..., Any]) -> None:
    """Capture them whenever Dynamo works for this backend, from now on."""

    def begin(_: Any) -> None:
        if not torch.is_grad_enabled():
            return
        found, code = captured_for(sys._getframe(1))
        if found is backend and not _calls_backward(code):
            _SET.append(config.trace_autograd_ops)
            config.trace_autograd_ops = True

    def end(_: Any) -> None:
        if _SET:
            config.trace_autograd_ops = _SET.pop()

    around_captures(begin, end)


def _calls_backward(code: CodeType | None) -> bool:
    return code is not None and "backward" in code.co_names
