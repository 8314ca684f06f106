"""How the joint graph of AOTAutograd is divided into a forward and a backward graph.

Before that, gradients are spelled so that less has to be saved for them: a max pool's finds the
maxima again in the pool's operand, which is saved anyway, where PyTorch keeps an int64 index for
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import default_partition

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten, listed
from glasshouse.frontend.torch.source import GRADIENT_OF
from glasshouse.ops.shape import reshaped

_LIBRARY = torch.library.Library("glasshouse", "FRAGMENT")
_LIBRARY.define(
    "max_pool_grad(Tensor grad, Tensor self, int[] kernel_size, int[] stride, int[] padding, "
    "int[] dilation, bool ceil_mode) -> Tensor"
)


def _max_pool_grad(g: torch.Tensor, x: torch.Tensor, kernel: Sequence[int], *rest: Any) -> Any:
    """As PyTorch computes it, with the indices found anew."""
    ops = torch.ops.aten
    pool, back = (
        (ops.max_pool2d_with_indices, ops.max_pool2d_with_indices_backward) if len(kernel) == 2
        else (ops.max_pool3d_with_indices, ops.max_pool3d_with_indices_backward)
    )  # fmt: skip
    return back(g, x, kernel, *rest, pool(x, kernel, *rest)[1])


_LIBRARY.impl("max_pool_grad", _max_pool_grad, "CompositeExplicitAutograd")


@aten("glasshouse::max_pool_grad")
def max_pool_grad(
    g: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Any:
    rank = len(kernel)
    if x.ndim not in (rank + 1, rank + 2):
        raise Unsupported(f"a pool over {rank} of {x.ndim} axes")
    batched = [v if x.ndim == rank + 2 else reshaped(v, (1, *v.shape)) for v in (g, x)]
    made = batched[0].apply(
        "max_pool_grad", batched[1], kernel=listed(kernel, rank),
        stride=listed(stride, rank) if stride else [], padding=listed(padding, rank),
        dilation=listed(dilation, rank), ceil_mode=ceil_mode,
    )  # fmt: skip
    return made if x.ndim == rank + 2 else reshaped(made, x.shape)


def partition(joint: fx.GraphModule, inputs: Any, **known: Any) -> tuple[Any, Any]:
    """The forward and the backward graph."""
    for node in joint.graph.nodes:
        if _is_max_pool_backward(node):
            rank = 2 if "2d" in node.target._schema.name else 3
            spread = [list(listed(a, rank)) if a or a == 0 else [] for a in node.args[2:6]]
            node.target = torch.ops.glasshouse.max_pool_grad.default
            node.args = (*node.args[:2], *spread, node.args[6])
    _name_forward_ops(joint)
    joint.graph.eliminate_dead_code()
    joint.recompile()
    forward, backward = default_partition(joint, inputs, **known)
    return forward, backward


def _name_forward_ops(joint: fx.GraphModule) -> None:
    """Nodes of the backward graph say which op of the forward graph they are the gradient of:
    autograd gives both the same number."""
    number_of = {n: n.meta.get("seq_nr") for n in joint.graph.nodes}
    back = {n for n in joint.graph.nodes if n.meta.get("partitioner_tag") == "is_backward"}
    forward = {number: n.name for n, number in number_of.items() if n not in back}
    for node in back:
        if number_of[node] is not None and number_of[node] in forward:
            node.meta[GRADIENT_OF] = forward[number_of[node]]


def _is_max_pool_backward(node: fx.Node) -> bool:
    ops = torch.ops.aten
    return node.target in (
        ops.max_pool2d_with_indices_backward.default,
        ops.max_pool3d_with_indices_backward.default,
    ) and all(not isinstance(a, fx.Node) for a in node.args[2:7])
