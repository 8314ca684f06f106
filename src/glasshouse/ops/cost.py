"""What a node costs before anything runs: operations, and bytes read and written.

Estimates, for choosing between two ways to compute the same thing. A multiply-add counts two
operations; an elementwise function counts what a vectorised polynomial for it takes.
"""

from __future__ import annotations

from glasshouse.ir.dim import Dim, SymDim, evaluate, symbols_of
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind

TYPICAL_SIZE = 64
"""What a symbol without bounds is taken for; one with bounds is taken for the nearest to this."""


def typical(dim: Dim) -> int:
    """The size as a number; symbols stand for their typical value."""
    if not isinstance(dim, SymDim):
        return dim
    sizes = {}
    for name, symbol in symbols_of(dim).items():
        high = TYPICAL_SIZE if symbol.high is None else symbol.high
        sizes[name] = max(symbol.low, min(TYPICAL_SIZE, high), 1)
    return max(evaluate(dim, sizes, made_up=True), 0)


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
    """Operations for one element, as `Traits.cost` counts them."""
    declared = node.op.traits.cost
    if declared is not None:
        return declared
    return 0.0 if node.op.kind is Kind.INJECTIVE else 1.0


def operations(node: Node) -> float:
    """Operations of a node; a fused node's are those of its body."""
    kind, name = node.op.kind, node.op.name
    if kind is Kind.SOURCE:
        return 0.0
    if kind is Kind.INJECTIVE:
        return element_operations(node) * elements(node.outputs[0])
    body = node.attrs.get("body")
    if name == "fused" and isinstance(body, Graph):
        return sum(operations(n) for n in body.nodes)
    if name == "matmul":
        x = node.inputs[0].type.shape
        depth = x[-2] if node.attrs["transpose_x"] and len(x) > 1 else x[-1]
        return 2.0 * elements(node.outputs[0]) * typical(depth)
    if name == "grouped_matmul":
        return 2.0 * elements(node.outputs[0]) * typical(node.inputs[0].type.shape[1])
    if name == "products":
        rows = elements(node.inputs[0]) // max(typical(node.inputs[0].type.shape[-1]), 1)
        return 2.0 * rows * sum(elements(v) for v in node.inputs[1:])
    if name in ("product_and_parts", "normed_product"):
        return 2.0 * elements(node.outputs[0]) * typical(node.inputs[0].type.shape[-1])
    if name in ("conv", "conv_transpose", "conv_weight_grad"):
        return _convolution(node)
    if name == "attention":
        q, k, v = (i.type.shape for i in node.inputs[:3])
        scores = elements(node.inputs[0]) // max(typical(q[-1]), 1) * typical(k[-2])
        return scores * (2.0 * typical(q[-1]) + 2.0 * typical(v[-1]) + 18)
    if name == "attention_grad":  # scores, slopes, and three products with them
        q, k, v = (i.type.shape for i in node.inputs[1:4])
        scores = elements(node.inputs[1]) // max(typical(q[-1]), 1) * typical(k[-2])
        return scores * (6.0 * typical(q[-1]) + 4.0 * typical(v[-1]) + 24)
    if name in ("recurrent", "recurrent_grad"):  # 40: five functions for each unit
        rows = elements(node.inputs[0]) // max(typical(node.inputs[0].type.shape[-1]), 1)
        weights = node.inputs[2 if name == "recurrent" else 3]
        return rows * (2.0 * elements(weights) + 40.0 * typical(weights.type.shape[-1]))
    if kind is Kind.ELEMENTWISE:
        return element_operations(node) * elements(node.outputs[0])
    window = node.attrs.get("kernel")
    if isinstance(window, tuple):  # pools
        size = 1
        for w in window:
            size *= typical(w)
        return float(size * elements(node.outputs[0]))
    read = sum(elements(v) for v in node.inputs[:1])
    return element_operations(node) * max(read, elements(node.outputs[0]))


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
    """Bytes that a node reads of its distinct operands: of a table from which rows are taken, as
    many as are taken."""
    body = node.attrs.get("body")
    if node.op.name == "fused" and isinstance(body, Graph):
        asked = _asked([*body.nodes], {v: elements(v) for v in body.outputs})
        outer = zip(body.inputs, node.inputs, strict=True)
        read = [(given, asked.get(inner, 0)) for inner, given in outer]
    else:
        asked = _asked([node], {v: elements(v) for v in node.outputs})
        read = [(v, asked[v]) for v in dict.fromkeys(node.inputs)]
    most: dict[Value, int] = {}
    for value, count in read:
        most[value] = min(most.get(value, 0) + count, elements(value))
    return sum(count * value.type.dtype.itemsize for value, count in most.items())


def _asked(nodes: list[Node], asked: dict[Value, int]) -> dict[Value, int]:
    """How many elements of each value are looked at, at most, when as many of the results are.

    What copies or computes element by element looks at one of each operand for each that it makes;
    everything else at all.
    """
    for node in reversed(nodes):
        made = sum(asked.get(v, 0) for v in node.outputs)
        each = node.op.kind in (Kind.INJECTIVE, Kind.ELEMENTWISE)
        for v in dict.fromkeys(node.inputs):
            wanted = asked.get(v, 0) + (made if each else elements(v))
            asked[v] = min(wanted, elements(v))
    return asked


def bytes_written(node: Node) -> int:
    return sum(nbytes(v) for v in node.outputs)
