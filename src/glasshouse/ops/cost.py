"""Decides what a node costs before anything runs: operations, and bytes read and written.

Estimates, for choosing between two ways to compute the same thing. A multiply-add counts two
operations; an elementwise function counts what a vectorised polynomial for it takes.
"""

from __future__ import annotations

from glasshouse.ir.dim import Dim, SymDim, evaluate, symbols_of
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind

TYPICAL_SIZE = 64
"""What a symbol without bounds is taken for; one with bounds is taken for the nearest to this."""

_PER_ELEMENT: dict[str, float] = {
    "divide": 4, "floor_divide": 6, "remainder": 8, "sqrt": 4, "rsqrt": 4,
    "exp": 12, "expm1": 16, "log": 14, "log1p": 16, "sin": 20, "cos": 20, "tan": 24,
    "asin": 20, "acos": 20, "atan": 20, "atan2": 28, "sinh": 24, "cosh": 24, "tanh": 18,
    "asinh": 30, "acosh": 30, "atanh": 24, "erf": 20, "power": 30, "sigmoid": 16, "elu": 14,
    "gelu": 26, "silu": 18, "hardswish": 4, "hardsigmoid": 3, "softplus": 30, "clip": 2,
    "leaky_relu": 2, "quantize": 5, "dequantize": 2, "uniform": 20, "normal": 60, "dropout": 20,
}  # fmt: skip
_PER_INPUT_ELEMENT: dict[str, float] = {
    "softmax": 18, "log_softmax": 18, "layer_norm": 8, "rms_norm": 5, "group_norm": 8,
    "batch_norm_training": 8, "variance": 4, "argmax": 2, "argmin": 2,
}  # fmt: skip


def typical(dim: Dim) -> int:
    """The size as a number; symbols stand for their typical value."""
    if not isinstance(dim, SymDim):
        return dim
    sizes = {}
    for name, symbol in symbols_of(dim).items():
        high = TYPICAL_SIZE if symbol.high is None else symbol.high
        sizes[name] = max(symbol.low, min(TYPICAL_SIZE, high), 1)
    return max(evaluate(dim, sizes), 0)


def elements(value: Value) -> int:
    """How many elements a value has."""
    out = 1
    for dim in value.type.shape:
        out *= dim if isinstance(dim, int) else typical(dim)
    return out


def nbytes(value: Value) -> int:
    """How many bytes a value takes."""
    return elements(value) * value.type.dtype.itemsize


def element_operations(node: Node) -> float:
    """Operations for one output element of an elementwise op or a mover (mostly none)."""
    return _PER_ELEMENT.get(node.op.name, 0.0 if node.op.kind is Kind.INJECTIVE else 1.0)


def operations(node: Node) -> float:
    """Operations of a node; a fused node's are those of its body."""
    kind, name = node.op.kind, node.op.name
    if kind is Kind.SOURCE:
        return 0.0
    if kind is Kind.INJECTIVE:
        return _PER_ELEMENT.get(name, 0.0) * elements(node.outputs[0])
    body = node.attrs.get("body")
    if name == "fused" and isinstance(body, Graph):
        return sum(operations(n) for n in body.nodes)
    if name == "matmul":
        x = node.inputs[0].type.shape
        depth = x[-2] if node.attrs["transpose_x"] and len(x) > 1 else x[-1]
        return 2.0 * elements(node.outputs[0]) * typical(depth)
    if name in ("conv", "conv_transpose", "conv_weight_grad"):
        return _convolution(node)
    if name == "attention":
        q, k, v = (i.type.shape for i in node.inputs[:3])
        scores = elements(node.inputs[0]) // max(typical(q[-1]), 1) * typical(k[-2])
        return scores * (2.0 * typical(q[-1]) + 2.0 * typical(v[-1]) + 18)
    if kind is Kind.ELEMENTWISE:
        return _PER_ELEMENT.get(name, 1.0) * elements(node.outputs[0])
    window = node.attrs.get("kernel")
    if isinstance(window, tuple):  # pools
        size = 1
        for w in window:
            size *= typical(w)
        return float(size * elements(node.outputs[0]))
    read = sum(elements(v) for v in node.inputs[:1])
    return _PER_INPUT_ELEMENT.get(name, 1.0) * max(read, elements(node.outputs[0]))


def _convolution(node: Node) -> float:
    """Each weight is used at each place: of the output, or of the input for the transposed one."""
    x, second = node.inputs[0], node.inputs[1]
    if node.op.name == "conv_weight_grad":  # operands: image, gradient of the output
        weight, spread = node.outputs[0], second
    else:
        weight, spread = second, node.outputs[0] if node.op.name == "conv" else x
    channels = max(typical(spread.type.shape[1]), 1)
    return 2.0 * elements(spread) / channels * elements(weight)


def bytes_read(node: Node) -> int:
    """Bytes of all distinct operands."""
    return sum(nbytes(v) for v in dict.fromkeys(node.inputs))


def bytes_written(node: Node) -> int:
    return sum(nbytes(v) for v in node.outputs)
