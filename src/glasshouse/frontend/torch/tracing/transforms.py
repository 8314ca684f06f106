"""`torch.func` (grad, vmap, jvp) inside of what is captured: which graphs hold its transforms, and
that a capture which fails leaves none of them open."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._C import _functorch


def holds_transforms(module: Any) -> bool:
    """Whether a graph of Dynamo's opens a transform.

    Such a graph is traced below autograd: above it PyTorch's engine finds no storage for the
    gradients inside (`grad`), and tangents stay ops of forward mode (`jvp`).
    """
    parts = (m for m in module.modules() if isinstance(m, torch.fx.GraphModule))
    return any(_opens(n.target) for part in parts for n in part.graph.nodes)


def _opens(target: Any) -> bool:
    home = getattr(target, "__module__", None) or ""
    return home.startswith(("torch._functorch", "torch._C._functorch"))


@contextmanager
def closed_transforms() -> Iterator[None]:
    """Close what an error leaves open: transforms are a stack of the thread, and every later
    capture would run inside of them."""
    depth = _functorch.get_dynamic_layer_stack_depth()
    try:
        yield
    except BaseException:
        _functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
        raise
