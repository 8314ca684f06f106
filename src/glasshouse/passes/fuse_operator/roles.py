"""Which part an op can play in a fused group; docs/design/0004-passes.md has the rules."""

from __future__ import annotations

from glasshouse.ir.dim import bounds
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT
from glasshouse.ops.cost import element_operations
from glasshouse.ops.shapes import axis_of

CHEAP = 4.0
"""Operations for an element that a template may compute again each time it reads the element."""

_WINDOWED = frozenset({"pool", "resize"})


def is_anchor(node: Node) -> bool:
    kinds = (Kind.CONTRACTION, Kind.REDUCTION)
    return node.op.kind in kinds and len(node.outputs) == 1


def is_elementwise(node: Node) -> bool:
    return node.op.kind is Kind.ELEMENTWISE and len(node.outputs) == 1


def is_mover(node: Node) -> bool:
    return node.op.kind is Kind.INJECTIVE and len(node.outputs) == 1


def can_inline(node: Node) -> bool:
    """Whether an element of the output can be computed where it is needed."""
    return is_elementwise(node) or is_mover(node)


def is_inside_constant(value: Value) -> bool:
    """Whether a value is a constant of one element: it stands in the body, as a literal."""
    return value.node.op is CONSTANT and value.type.numel == 1


def partition(node: Node) -> str:
    return node.origin.label("partition") or ""


def prologue_refusal(anchor: Node, operand: int, node: Node) -> str:
    """Why a template cannot compute `node` while it reads that operand; "" if it can."""
    if not can_inline(node):
        return "opaque"
    if anchor.op.kind is Kind.REDUCTION and anchor.op.family not in _WINDOWED:
        return ""
    if anchor.op.family == "attention" and operand < len(anchor.op.inputs) - 1:
        return "" if node.op.traits.view else "attention reads q, k and v through views only"
    if is_mover(node):
        return "" if node.op.traits.view else f"{anchor.op.label} reads through views only"
    if element_operations(node) > CHEAP:
        return f"costly prologue: {anchor.op.label} may read an element several times"
    return ""


LONG_ROW = 32
"""Elements of a joined row from which on it is stored before it is folded. Shorter ones (three
candidates of a step, stacked) are cheaper to choose from than to store."""


def joins_folded_row(anchor: Node, node: Node) -> bool:
    """Whether a fold would run along a row that `node` joins of pieces: each element would be
    chosen by its place, one at a time."""
    if node.op.name != "concat" or anchor.op.kind is not Kind.REDUCTION:
        return False
    shape = node.output.type.shape
    if anchor.op.family in _WINDOWED or shape != anchor.inputs[0].type.shape:
        return False
    axis = axis_of(node.attrs["axis"], len(shape))
    given = anchor.attrs.get("axes", anchor.attrs.get("axis"))
    folded = range(len(shape)) if given is None else given
    folded = [folded] if isinstance(folded, int) else folded
    low = bounds(shape[axis])[0]
    return axis in [axis_of(a, len(shape)) for a in folded] and low >= LONG_ROW


def anchor_of(body: Graph) -> Node | None:
    """The anchor of a fused node's body; None when it is a loop nest without one."""
    return next((n for n in body.nodes if is_anchor(n)), None)
