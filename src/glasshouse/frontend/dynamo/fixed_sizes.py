"""Symbolic sizes for which a graph has no word are fixed to what they are, under a guard.

`int(n ** 0.5)` is one. Dynamo compiles again for another value, as where Python branches on a size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils import _pytree as pytree

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.dims import Symbols


def fix_odd_sizes(module: fx.GraphModule) -> None:
    """Fix the symbols of every tensor's size that cannot be written as a formula of ours.

    All symbols of the formula, not its value alone: with `n` open, `n` elements that are viewed as
    8 x 8 would not fit. One that is read out of data, or
    that must stay open, cannot be guarded and is left.
    """
    symbols = Symbols()
    seen: set[Any] = set()
    for node in module.graph.nodes:
        for tensor in pytree.tree_leaves(node.meta.get("val")):
            if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
                continue
            for size in tensor.shape:
                if not isinstance(size, torch.SymInt) or size.node.expr in seen:
                    continue
                seen.add(size.node.expr)
                try:
                    symbols.dim(size)
                except Unsupported:
                    _fix(size)


def _fix(size: torch.SymInt) -> None:
    found = size.node.expr.free_symbols
    if free_unbacked_symbols(size) or found & _marked(size.node.shape_env):
        return
    for symbol in sorted(found, key=str):
        size.node.shape_env.evaluate_expr(symbol)


def _marked(environment: Any) -> set[Any]:
    """Symbols that the user asked to stay open (`mark_dynamic`): PyTorch refuses to fix them."""
    marked: set[Any] = set()
    for tracked in getattr(environment, "tracked_fakes", None) or ():
        limits = getattr(tracked.symbolic_context, "constraint_sizes", ())
        sizes = tracked.fake.shape if isinstance(tracked.fake, torch.Tensor) else ()
        for size, limit in zip(sizes, limits, strict=False):
            strict = limit is not None and not limit.warn_only  # others may be given up
            if strict and isinstance(size, torch.SymInt):
                marked |= size.node.expr.free_symbols
    return marked
