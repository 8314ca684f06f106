"""Products of gradients over rows that are not aligned: a vocabulary of 50257 words.

Neither the copy engine of a GPU nor a library's fast kernels read such rows. Both products of the
gradient of logits do, so it is copied once, its rows made wider with zeros, and both read the copy;
torch.compile pads them too. Each product by itself would copy them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
_ALIGNED = 8
"""Half floats of 16 bytes."""
_LARGE = 1 << 33
"""Multiplications from which copies are worth it: 17 GFLOP, 30 us of an H200, where copies of 16 MB
take 8."""
_HALVES = (torch.float16, torch.bfloat16)


def widen_odd_products(joint: fx.GraphModule) -> None:
    """Large products of the backward graph whose depth, or the rows of whose first operand, are
    odd, read operands that are made wider."""
    wider: dict[tuple[fx.Node, int], fx.Node] = {}
    for node in list(joint.graph.nodes):
        if node.target is not aten.mm.default or not _is_large(node):
            continue
        if node.meta.get("partitioner_tag") != "is_backward":
            continue
        first, second = node.args
        with joint.graph.inserting_before(node):
            if first.meta["val"].shape[1] % _ALIGNED:
                node.args = _widened(first, 1, wider), _widened(second, 0, wider)
            elif first.target is aten.t.default and first.meta["val"].shape[0] % _ALIGNED:
                rows = first.args[0]
                turned = _call(aten.t.default, _widened(rows, 1, wider))
                wide = _call(aten.mm.default, turned, second)
                count = first.meta["val"].shape[0]
                node.replace_all_uses_with(_call(aten.slice.Tensor, wide, 0, 0, count))


def _is_large(node: fx.Node) -> bool:
    if not all(isinstance(a, fx.Node) and "val" in a.meta for a in node.args):
        return False
    first, second = (a.meta["val"] for a in node.args if isinstance(a, fx.Node))
    sizes = (*first.shape, second.shape[1])
    known = all(isinstance(s, int) for s in sizes) and first.dtype in _HALVES
    return known and sizes[0] * sizes[1] * sizes[2] >= _LARGE


def _widened(node: fx.Node, axis: int, known: dict[tuple[fx.Node, int], fx.Node]) -> fx.Node:
    """A matrix with zeros behind its last column (axis 1) or row, to a multiple of `_ALIGNED`."""
    if (node, axis) not in known:
        more = -node.meta["val"].shape[axis] % _ALIGNED
        padding = [0, more] if axis == 1 else [0, 0, 0, more]
        known[node, axis] = _call(aten.constant_pad_nd.default, node, padding)
    return known[node, axis]


def _call(target: Any, node: fx.Node, *args: Any) -> fx.Node:
    """A node for an op, where the graph inserts now."""
    made = node.graph.call_function(target, (node, *args))
    given = [a.meta["val"] if isinstance(a, fx.Node) else a for a in (node, *args)]
    made.meta = {**node.meta, "val": target(*given)}
    made.meta.pop("tensor_meta", None)
    made.meta["partitioner_tag"] = "is_backward"
    return made
