"""Products of one value with several weights: side by side, or as a gate and what it lets through;
with the norm before them, where few rows make computing it again cheaper than a kernel for it.

A rewrite makes them on targets that read each weight where it lies (`merge_products.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.attrs import OPT_FLOAT, STR
from glasshouse.ir.op import REGISTRY, Kind, NoGradient
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.ops.arrays import Array, widened
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import require_equal

GATES: dict[str, tuple[str, dict[str, Any]]] = {
    "silu": ("silu", {}),
    "gelu": ("gelu", {"approximate": "none"}),
}
"""Activations of a gate: an op and its attributes."""


def _infer(x: TensorType, *given: TensorType, gate: str, eps: float | None) -> TensorType:
    if not x.dtype.is_float or any(t.dtype is not x.dtype for t in given):
        raise TypeMismatch("operands of products are of one floating type")
    scale, weights = (given[:1], given[1:]) if eps is not None else ((), given)
    if x.rank < 1 or not weights or any(w.rank != 2 for w in weights):
        raise ShapeError("products need x [..., depth] and weights [columns, depth]")
    for w in weights:
        require_equal(x.shape[-1], w.shape[1], "the inner sizes differ")
    for s in scale:
        if s.shape != (x.shape[-1],):
            raise ShapeError(f"the scale of the norm is {s}, one number for each of depth wanted")
    columns = weights[0].shape[0]
    if not gate:
        for w in weights[1:]:
            columns = columns + w.shape[0]
        return tensor_type(x.dtype, (*x.shape[:-1], columns))
    if gate not in GATES:
        raise TypeMismatch(f"there is no gate {gate!r}", hint=f"one of {', '.join(GATES)}")
    if len(weights) != 2:
        raise ShapeError(f"a gate and what it lets through are two weights, not {len(weights)}")
    require_equal(
        columns, weights[1].shape[0], "a gate has as many columns as what it lets through"
    )
    return tensor_type(x.dtype, (*x.shape[:-1], columns))


def _ref(x: Array, *given: Array, gate: str, eps: float | None) -> Array:
    rows = widened(x)
    weights = list(given)
    if eps is not None:
        scale = widened(weights.pop(0))
        mean = np.mean(rows * rows, -1, keepdims=True) if rows.shape[-1] else 0.0
        rows = rows / np.sqrt(mean + eps) * scale
    found = [np.matmul(rows, widened(w).T) for w in weights]
    if gate:
        name, attrs = GATES[gate]
        out: Array = REGISTRY[name].ref(found[0], **attrs) * found[1]
        return out
    return np.concatenate(found, -1)


products = op(
    "products", kind=Kind.CONTRACTION, family="matmul", infer=_infer, ref=_ref,
    vjp=NoGradient("a rewrite makes it of products whose gradients were taken before"),
    inputs=("x", "*weights"),
    doc="x @ weight.T for each weight [columns, depth], results side by side. With a `gate` "
    "(silu or gelu): the gate of the first, times the second. With `eps` the first of the "
    "weights is a scale [depth], and x is x / sqrt(mean(x * x) + eps) * scale. float16 and "
    "bfloat16 are summed in float32, and nothing is rounded before the result.",
    gate=STR("", "an activation, or none"), eps=OPT_FLOAT(None, "of the norm before; None: none"),
)  # fmt: skip
