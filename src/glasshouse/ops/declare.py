"""How an op is declared: one call, `op(...)`, with everything that the op means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glasshouse.ir.attrs import Attr
from glasshouse.ir.op import Infer, Kind, NoGradient, Op, Operands, Traits, register


def op(
    name: str,
    *,
    kind: Kind,
    family: str,
    infer: Infer,
    ref: Callable[..., Any],
    vjp: Callable[..., Sequence[Any]] | NoGradient,
    inputs: Sequence[str] = ("x",),
    operands: Operands = Operands.AS_GIVEN,
    doc: str,
    cost: float | None = None,
    view: str = "",
    narrows: bool = False,
    never_negative: bool = False,
    image: bool = False,
    folds: bool = True,
    merges: bool = True,
    onnx: str = "",
    updates: bool = False,
    **attrs: Attr,
) -> Op:
    """Declare and register an op; `cost` and what follows are its `Traits`, further keywords its
    attributes.

    `relu = op("relu", kind=Kind.ELEMENTWISE, family="elementwise", infer=same_shape,
    ref=lambda x: np.maximum(x, 0), vjp=lambda g, x, y: (g * (x > 0),), doc="max(x, 0)",
    narrows=True, never_negative=True, onnx="Relu")`
    """
    declared: Mapping[str, Attr] = attrs
    traits = Traits(cost, view, narrows, never_negative, image, folds, merges, onnx, updates)
    return register(
        Op(
            name, kind, family, infer, ref, vjp, declared, tuple(inputs), operands, doc,
            traits=traits,
        )
    )  # fmt: skip
