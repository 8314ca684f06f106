"""What is tried for an op without a spelling: PyTorch's decomposition of this one op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.flex_attention import math_attention
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from glasshouse.frontend.torch.foreach import is_foreach, one_by_one


def decomposed(
    target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[fx.GraphModule, list[fx.Node]] | None:
    """A graph that computes the op from simpler ones, and the fx nodes that are its inputs.

    None where PyTorch knows no decomposition, or it cannot be traced. Ops that draw random numbers
    are left alone: what they draw must stay one draw.
    """
    if torch.Tag.nondeterministic_seeded in target.tags:
        return None
    functions = _decompositions(target)
    if not functions:
        return None
    leaves, spec = pytree.tree_flatten((list(args), dict(kwargs)))
    nodes = [leaf for leaf in leaves if isinstance(leaf, fx.Node)]
    fakes = [n.meta.get("val") for n in nodes]
    if any(f is None for f in fakes):
        return None

    def call(function: Any, *given: Any) -> Any:
        found = iter(given)
        filled = [next(found) if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
        positional, named = pytree.tree_unflatten(filled, spec)
        return function(*positional, **named)

    mode = next((f.fake_mode for f in fakes if isinstance(f, torch._subclasses.FakeTensor)), None)
    if mode is None:
        return None
    try:
        # Composite ops that PyTorch decomposes in C++ come out as themselves, unless they are
        # traced below autograd; there, other composites are taken apart too.
        for function in functions:
            for early in (True, False):
                with mode, torch.no_grad():
                    graph = make_fx(partial(call, function), pre_dispatch=early)(*fakes)
                if not any(n.target is target for n in graph.graph.nodes):
                    return graph, nodes
        return None
    except Exception:  # whatever a decomposition stumbles over, the op itself still runs
        return None


def _decompositions(target: Any) -> list[Any]:
    """What may take an op apart. A few have both: `silu_backward` is composite in name, but has a
    kernel of its own, which is what comes out where it is asked to decompose itself."""
    found = [torch._decomp.decomposition_table.get(target)]
    if torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "CompositeImplicitAutograd"):
        found.insert(0, target.decompose)
    if is_foreach(target):
        found.insert(0, one_by_one(target))
    return [function for function in found if function is not None]


def flex_attention(
    node: fx.Node, held: Mapping[fx.Node, Any]
) -> tuple[fx.GraphModule, list[fx.Node]]:
    """Flex attention as PyTorch computes it outside of its own compiler, scores and masks in full.

    Its functions of scores and positions are among `held`, as graphs.
    """
    leaves, spec = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    bodies = {n for n, value in held.items() if isinstance(value, torch.nn.Module)}
    nodes = [leaf for leaf in leaves if isinstance(leaf, fx.Node) and leaf not in bodies]
    fakes = [n.meta["val"] for n in nodes]

    def call(*given: Any) -> Any:
        found = dict(zip(nodes, given, strict=True))
        filled = [
            held[leaf] if leaf in bodies else found[leaf] if isinstance(leaf, fx.Node) else leaf
            for leaf in leaves
        ]
        positional, named = pytree.tree_unflatten(filled, spec)
        return math_attention(*positional, **named)

    mode = next(f.fake_mode for f in fakes if isinstance(f, torch._subclasses.FakeTensor))
    with mode, torch.no_grad():
        return make_fx(call)(*fakes), nodes
