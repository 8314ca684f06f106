"""Which nodes compute in a narrower floating type, and which must not.

Products (matmul, convolution, attention) gain most and are summed in float32 inside, so they always
may. Cheap ops follow: they are narrow when everything they read is. What adds up many terms, or
takes exponents or logarithms, stays in float32. Casts that meet cancel each other exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glasshouse.backend.base import target_named
from glasshouse.ir.dtype import DType, as_dtype, float16, float32
from glasshouse.ir.expr import Expr
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.ops.cost import typical
from glasshouse.passes.base import Pass, register_pass
from glasshouse.passes.patterns import array_of, is_constant, made_by

_PAIRS_FROM = 4
_LARGEST = {"float16": 65504.0}
TF32, TF32_PRODUCTS, TF32_CONVS = "tf32", "tf32_products", "tf32_convolutions"
"""Precisions that no element has: float32 that rounds to ten digits before it is multiplied, where
a target's tensor cores do so; in all contractions, or in matrix products or convolutions alone.
Lowering sees to it (`Target.tf32`, `Target.tf32_convs`)."""
ROUNDED = (TF32, TF32_PRODUCTS, TF32_CONVS)


@register_pass()
@dataclass(frozen=True)
class AutoMixPrecision(Pass):
    """Compute in bfloat16 or float16 where that is safe, and in float32 where it is not.

    In "tf32" every element stays float32: contractions of GPUs may round inside.
    """

    precision: str = "float32"
    target: Target = field(default_factory=lambda: target_named("cpu"))

    def run(self, graph: Graph, rw: Rewriter) -> None:
        low = float32 if self.precision in ROUNDED else as_dtype(self.precision)
        if low is float32:
            return
        nodes = [n for n in graph.nodes if n.op.kind is not Kind.SOURCE]
        if nodes and low.name not in self.target.low_precision:
            why = f"{self.target.name} computes {low} no faster than float32: only memory is saved"
            rw.reject(nodes[:1], rule="precision", why=why)
        narrow: dict[Value, Value] = {}  # each value is cast once, however many read it
        for node in nodes:
            if node in graph:
                _convert(node, low, narrow, rw)


def _convert(node: Node, low: DType, narrow: dict[Value, Value], rw: Rewriter) -> None:
    if not any(v.type.dtype is float32 for v in node.outputs):
        return
    contraction = node.op.kind is Kind.CONTRACTION
    floats = [v for v in node.inputs if v.type.dtype is float32]
    if contraction and _has_few_channels(node):
        why = f"{node.op.label} of few channels gains nothing in {low}; what follows does"
    elif contraction:
        why = f"a product, summed in float32: {low} halves what it reads"
    elif node.op.traits.narrows and any(_narrow(v, low) for v in floats):
        wide = [v for v in floats if not _narrow(v, low) and not is_constant(v)]
        if wide:
            _stays(rw, node, f"{len(wide)} of its operands are float32")
            return
        why = f"everything it reads is {low} already"
    else:
        if node.op.kind is Kind.REDUCTION:
            _stays(rw, node, f"{node.op.label} adds up many terms")
        elif not node.op.traits.narrows:
            _stays(rw, node, f"{node.op.label} would lose range or digits in {low}")
        return
    risky = _too_large(node, low)
    if risky:
        _stays(rw, node, f"a constant with {risky:.3g} does not fit into {low}")
        return
    rw.replace(node, lambda: _narrowed(node, low, narrow, rw), rule="narrow", why=why)


def _narrowed(node: Node, low: DType, narrow: dict[Value, Value], rw: Rewriter) -> list[Expr]:
    # A mask of attention keeps its type: it is added to scores that are float32 inside.
    last = 3 if node.op.name == "attention" else len(node.inputs)
    if _has_few_channels(node):
        made = node.op.emit(rw, node.inputs, node.attrs)
        return [rw.expr(made.output).cast(low).cast(node.output.type.dtype)]
    operands = [
        _as(v, low, narrow, rw) if v.type.dtype is float32 and i < last else v
        for i, v in enumerate(node.inputs)
    ]
    made = node.op.emit(rw, operands, node.attrs)
    return [rw.expr(v).cast(w.type.dtype) for v, w in zip(made.outputs, node.outputs, strict=True)]


def _has_few_channels(node: Node) -> bool:
    """A convolution of photographs: narrow products take pairs of channels, and turning three
    planes into pixels costs more in a narrow type than the products do."""
    if node.op.name != "conv" or node.attrs["groups"] != 1:
        return False
    return typical(node.inputs[1].type.shape[1]) < _PAIRS_FROM


def _as(value: Value, low: DType, narrow: dict[Value, Value], rw: Rewriter) -> Value:
    """The value in the narrow type: as it was before a cast, as a constant, or cast."""
    inner = made_by(value, "cast")
    if inner and inner.inputs[0].type.dtype is low:
        return inner.inputs[0]
    if value not in narrow or narrow[value].node not in rw.graph:
        data = array_of(value)
        narrow[value] = rw.cast(value, low) if data is None else rw.constant(data, low)
    return narrow[value]


def _narrow(value: Value, low: DType) -> bool:
    inner = made_by(value, "cast")
    return inner is not None and inner.inputs[0].type.dtype is low


def _too_large(node: Node, low: DType) -> float:
    """The largest number among constant operands, if it is infinite in the narrow type."""
    if low is not float16:
        return 0.0
    for value in node.inputs:
        data = array_of(value)
        if data is not None and data.size and data.dtype == np.float32:
            largest = float(np.max(np.abs(data)))
            if largest > _LARGEST["float16"]:
                return largest
    return 0.0


def _stays(rw: Rewriter, node: Node, why: str) -> None:
    if rw.listeners:
        rw.reject([node], rule="narrow", why=f"stays float32: {why}")
