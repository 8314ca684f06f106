"""Lets Dynamo capture `torch.autograd.grad` while it works for us.

Left to itself it breaks the graph there; the part before is compiled with a gradient, and PyTorch
refuses to take the gradient of that gradient, or, where the caller has gradients off, keeps what it
needs for one in between: a score's slope took 1.85 of eager's time so, and takes 0.67.

Functions that call `backward` keep the break: such a step is compiled in parts, forward and
backward.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

import torch

from glasshouse.frontend.dynamo.settings import set_while_captured


def capture_inner_gradients(backend: Callable[..., Any]) -> None:
    """Capture them whenever Dynamo works for this backend, from now on."""
    set_while_captured(backend, "trace_autograd_ops", _takes_them_inside)


def _takes_them_inside(code: CodeType | None, _: object) -> bool:
    return not (code is not None and "backward" in code.co_names)


def turns_gradients_on(module: torch.fx.GraphModule) -> bool:
    """Whether a graph computes under `torch.enable_grad()`, whatever holds where it is called.

    A part before a break at `torch.autograd.grad` does so, with what the gradient is taken of.
    """
    switches = module.graph.find_nodes(op="call_function", target=torch._C._set_grad_enabled)
    return any(node.args[0] is True for node in switches)
