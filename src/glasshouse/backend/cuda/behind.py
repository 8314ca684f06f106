"""What follows a product or a convolution in its kernel, as words of the problem that is measured.

What is measured is the kernel that a layer becomes, text for text, wherever these words say all of
it: a bias, a tensor as large as the result, a function. So the variant that is chosen has been
built, and what loads and computes behind a product counts: with GELU that can be a quarter of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import op_named
from glasshouse.lower.builder import KernelBuilder

BIAS, ACTIVATIONS = "bias", ("gelu", "gelu_tanh", "silu", "relu")
RESIDUAL, ONTO = "residual", "onto"
"""What is as large as the result: added to it, or what it is added to. The sum is the same, the
text is not."""
BEHIND = tuple(
    "".join(f"_{word}" for word in (bias, residual, activation) if word)
    for bias in ("", BIAS)
    for residual in ("", RESIDUAL, ONTO)
    for activation in ("", *ACTIVATIONS)
)
"""All that `behind` can say."""


LEFT, RIGHT = "left", "right"
ACROSS = tuple(f"_across_{which}" for which in (LEFT, RIGHT, f"{LEFT}_{RIGHT}"))
"""Instead of what follows a product: which operands lie across its depth, as those of gradients
do. Ours copy them first, a library reads them as they lie, and that is what counts."""


def across(left: bool, right: bool) -> str:
    words = [word for word, lies in ((LEFT, left), (RIGHT, right)) if lies]
    return "_".join(["_across", *words]) if words else ""


def behind(builder: KernelBuilder, node: Node) -> str:
    """What follows a product, one of `BEHIND`."""
    made = node.output.type
    others = [v for v in builder.body.inputs if v not in node.inputs]
    bias = any(_is_bias(v, node) for v in others)
    large = [v for v in others if v.type.shape == made.shape]
    first = any(n.op.name == "add" and n.inputs[0] in large for n in builder.body.nodes)
    residual = "" if not large else ONTO if first else RESIDUAL
    functions = (_function(n) for n in builder.body.nodes)
    words = (BIAS if bias else "", residual, next(filter(None, functions), ""))
    return "".join(f"_{word}" for word in words if word)


def _is_bias(value: Value, node: Node) -> bool:
    """Whether a value has one number for each column of a product, or each filter."""
    made = node.output.type
    axis = made.rank - 1 if node.op.name == "matmul" else 1
    sizes = (1,) * (made.rank - value.type.rank) + tuple(value.type.shape)
    wanted = tuple(d if i == axis else 1 for i, d in enumerate(made.shape))
    return sizes == wanted and made.shape[axis] != 1


def _function(node: Node) -> str:
    word = f"{node.op.name}_tanh" if node.attrs.get("approximate") == "tanh" else node.op.name
    return word if word in ACTIVATIONS else ""


def followed(
    builder: GraphBuilder, x: Expr, w: Expr, behind: str, op: str, attrs: Mapping[str, Any]
) -> Graph:
    """The graph of a product of an input and weights, with what follows it in the same kernel."""
    if not behind:
        return builder.finish(x.apply(op, w, **attrs))
    inside = GraphBuilder()
    operands = [x, w]
    out = inside.input(x.dtype, x.shape).apply(op, inside.input(w.dtype, w.shape), **attrs)
    words = behind.split("_")
    if BIAS in words:
        shape = out.shape[-1:] if op == "matmul" else (1, out.shape[1], 1, 1)
        count = int(np.prod([d for d in shape if isinstance(d, int)]))
        some = np.random.default_rng(1).standard_normal(count, np.float32)
        operands.append(builder.wrap(builder.constant(some.reshape(shape), out.dtype)))
        out = out + inside.input(out.dtype, shape)
    if RESIDUAL in words or ONTO in words:
        operands.append(builder.input(out.dtype, out.shape))
        other = inside.input(out.dtype, out.shape)
        out = other + out if ONTO in words else out + other
    if words[-1] == "tanh":
        out = out.apply(words[-2], approximate="tanh")
    elif words[-1] in ACTIVATIONS:
        out = out.apply(words[-1])
    body = inside.finish(out)
    return builder.finish(builder.apply(op_named("fused"), *operands, body=body))
