"""How the joint graph of AOTAutograd is divided into a forward and a backward graph.

Before that, gradients are spelled so that less has to be saved for them: a max pool's finds the
maxima again in the pool's operand, which is saved anyway, where PyTorch keeps an int64 index for
each.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import default_partition
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointPolicy

from glasshouse.errors import Unsupported
from glasshouse.frontend.dynamo.boundary import PARTS, VIEWS
from glasshouse.frontend.dynamo.odd_products import widen_odd_products
from glasshouse.frontend.torch.aten.registry import aten, listed
from glasshouse.frontend.torch.joint_solves import spell_solves
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


_LIBRARY.define(
    "layer_norm_grad(Tensor grad, Tensor self, SymInt[] shape, Tensor? weight, Tensor? bias, "
    "float eps, bool[3] mask) -> (Tensor, Tensor, Tensor)"
)


def _layer_norm_grad(
    g: torch.Tensor, x: torch.Tensor, shape: Any, weight: Any, bias: Any, eps: float, mask: Any
) -> Any:
    """As PyTorch computes it, with mean and variance found anew."""
    ops = torch.ops.aten
    _, mean, rstd = ops.native_layer_norm(x, shape, weight, bias, eps)
    return ops.native_layer_norm_backward(g, x, shape, mean, rstd, weight, bias, mask)


_LIBRARY.impl("layer_norm_grad", _layer_norm_grad, "CompositeExplicitAutograd")
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


@aten("glasshouse::layer_norm_grad")
def layer_norm_grad(
    g: Any, x: Any, shape: Any, weight: Any, bias: Any, eps: float, mask: Any
) -> tuple[Any, ...]:
    del bias
    axis = x.ndim - len(shape)
    of = (x,) if weight is None else (x, weight)
    gx = g.apply("layer_norm_grad", *of, axis=axis, eps=eps) if mask[0] else None
    if not mask[1] and not mask[2]:
        return gx, None, None
    gw, gb = g.apply("layer_norm_weight_grad", x, axis=axis, eps=eps)
    return gx, gw if mask[1] else None, gb if mask[2] else None


def partition(joint: fx.GraphModule, inputs: Any, on_gpu: bool, **known: Any) -> tuple[Any, Any]:
    """The forward and the backward graph; `on_gpu`, gradients of layer norms find mean and variance
    again: there, computing and keeping them costs two kernels."""
    for node in joint.graph.nodes:
        if on_gpu and node.target is torch.ops.aten.native_layer_norm_backward.default:
            _find_statistics_again(node)
        if node.target is torch.ops.aten.native_batch_norm_backward.default and node.args[7]:
            # While it is trained, running averages decide nothing: they need not be saved.
            node.args = (*node.args[:3], None, None, *node.args[5:])
        if _is_max_pool_backward(node):
            rank = 2 if "2d" in node.target._schema.name else 3
            spread = [list(listed(a, rank)) if a or a == 0 else [] for a in node.args[2:6]]
            node.target = torch.ops.glasshouse.max_pool_grad.default
            node.args = (*node.args[:2], *spread, node.args[6])
    spell_solves(joint)
    _name_forward_ops(joint)
    if on_gpu:
        widen_odd_products(joint)
    _look_at_parts_again(joint, known["num_fwd_outputs"])
    _find_constants_again(joint, known["num_fwd_outputs"])
    _save_what_is_drawn(joint)
    joint.graph.eliminate_dead_code()
    joint.recompile()
    forward, backward = default_partition(joint, inputs, **known)
    return forward, backward


def _save_what_is_drawn(joint: fx.GraphModule) -> None:
    """Results of random ops inside of a checkpoint are saved: dropout's mask, and attention's
    result, which counts as random whatever its dropout is. To draw them again, PyTorch would carry
    the state of its generator from graph to graph."""
    for node in joint.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if "recompute" in node.meta and torch.Tag.nondeterministic_seeded in tags:
            for part in (node, *(u for u in node.users if u.target is operator.getitem)):
                part.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _find_constants_again(joint: fx.GraphModule, returned: int) -> None:
    """What no argument decides (where an interpolation reads, a list of indices) is not saved: it
    is a constant of the backward graph too."""
    output = next(n for n in joint.graph.nodes if n.op == "output")
    forward = _needed_for(pytree.tree_leaves(output.args[0])[:returned])
    constants: set[fx.Node] = set()
    readers: list[tuple[fx.Node, fx.Node]] = []
    for node in joint.graph.nodes:
        if node not in forward or not (_is_held(joint, node) or _is_repeatable(node)):
            continue
        if constants.issuperset(node.all_input_nodes):
            constants.add(node)
            readers += [(node, u) for u in node.users if u not in forward and u is not output]
    if not readers:
        return
    again: dict[fx.Node, fx.Node] = {}
    order = {node: i for i, node in enumerate(joint.graph.nodes)}
    # What stands before the last op of the forward graph counts as part of it.
    with joint.graph.inserting_before(min((u for _, u in readers), key=order.__getitem__)):
        needed = _needed_for([node for node, _ in readers])
        for node in sorted(needed, key=order.__getitem__):
            again[node] = joint.graph.node_copy(node, lambda n: again[n])
            again[node].meta["partitioner_tag"] = "is_backward"
    for node, reader in readers:
        reader.replace_input_with(node, again[node])


def _is_held(joint: fx.GraphModule, node: fx.Node) -> bool:
    """Whether it is a tensor that the graph itself holds."""
    return node.op == "get_attr" and isinstance(
        getattr(joint, str(node.target), None), torch.Tensor
    )


def _is_repeatable(node: fx.Node) -> bool:
    """Whether an op gives the same in every run, and changes nothing."""
    target = node.target
    return (
        node.op == "call_function"
        and isinstance(target, torch._ops.OpOverload)
        and not target._schema.is_mutable
        and (torch.Tag.nondeterministic_seeded not in target.tags)
    )


def _look_at_parts_again(joint: fx.GraphModule, returned: int) -> None:
    """Parts of a value that are saved for gradients and make it up (q, k and v of one product) are
    not copied out of it: the value is saved, and the backward graph takes its parts."""
    output = next(n for n in joint.graph.nodes if n.op == "output")
    forward = _needed_for(pytree.tree_leaves(output.args[0])[:returned])
    saved: dict[fx.Node, list[fx.Node]] = {}
    for node in forward:
        if node.target in PARTS and any(u not in forward for u in node.users):
            base = node
            while base.target in VIEWS and len(base.all_input_nodes) == 1:
                base = base.all_input_nodes[0]
            if base.op != "placeholder":
                saved.setdefault(base, []).append(node)
    order = {node: i for i, node in enumerate(joint.graph.nodes)}
    for base, parts in saved.items():
        if sum(p.meta["val"].numel() for p in parts) < base.meta["val"].numel():
            continue
        readers = [(part, u) for part in parts for u in part.users if u not in forward]
        again: dict[fx.Node, fx.Node] = {base: base}
        # What stands before the last op of the forward graph counts as part of it.
        with joint.graph.inserting_before(min((u for _, u in readers), key=order.__getitem__)):
            for part, reader in readers:
                reader.replace_input_with(part, _copied(part, again, joint.graph))


def _needed_for(nodes: Sequence[Any]) -> dict[fx.Node, None]:
    found: dict[fx.Node, None] = {}
    pending = [n for n in nodes if isinstance(n, fx.Node)]
    while pending:
        node = pending.pop()
        if node not in found:
            found[node] = None
            pending += node.all_input_nodes
    return found


def _copied(part: fx.Node, again: dict[fx.Node, fx.Node], graph: fx.Graph) -> fx.Node:
    """The views down to a part once more; `again` has those that were copied before."""
    way: list[fx.Node] = []
    node = part
    while node not in again:
        way.append(node)
        node = node.all_input_nodes[0]
    for view in reversed(way):
        twin = graph.node_copy(view, lambda n: again[n])
        twin.meta["partitioner_tag"] = "is_backward"
        again[view] = twin
    return again[part]


def _name_forward_ops(joint: fx.GraphModule) -> None:
    """Nodes of the backward graph say which op of the forward graph they are the gradient of:
    autograd gives both the same number."""
    number_of = {n: n.meta.get("seq_nr") for n in joint.graph.nodes}
    back = {n for n in joint.graph.nodes if n.meta.get("partitioner_tag") == "is_backward"}
    forward = {number: n.name for n, number in number_of.items() if n not in back}
    for node in back:
        if number_of[node] is not None and number_of[node] in forward:
            node.meta[GRADIENT_OF] = forward[number_of[node]]


def _find_statistics_again(node: fx.Node) -> None:
    g, x, shape, mean, _, weight, bias, mask = node.args
    forward = mean.args[0] if isinstance(mean, fx.Node) else None
    whole = torch.ops.aten.native_layer_norm.default
    if isinstance(forward, fx.Node) and forward.target is whole and forward.args[0] is x:
        node.target = torch.ops.glasshouse.layer_norm_grad.default
        node.args = (g, x, shape, weight, bias, forward.args[4], mask)


def _is_max_pool_backward(node: fx.Node) -> bool:
    ops = torch.ops.aten
    return node.target in (
        ops.max_pool2d_with_indices_backward.default,
        ops.max_pool3d_with_indices_backward.default,
    ) and all(not isinstance(a, fx.Node) for a in node.args[2:7])
