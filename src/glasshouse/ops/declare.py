"""How an op is declared: one call, `op(...)`, with everything that the op means."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from glasshouse.errors import TypeMismatch
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
    if re.fullmatch("[a-z][a-z0-9_]*", name) is None:
        raise TypeMismatch(
            f"an op cannot be called {name!r}: printed graphs would not read back",
            hint="lower case letters, digits and underscores: leaky_relu",
        )
    for key, attr in attrs.items():
        if not isinstance(attr, Attr):
            raise TypeMismatch(
                f"{name}: {key}={attr!r} is no attribute, and op() takes nothing of that name",
                hint="attributes are declared by their kind: axis=INT(-1)",
            )
    traits = Traits(cost, view, narrows, never_negative, image, folds, merges, onnx, updates)
    return register(
        Op(
            name, kind, family, infer, ref, vjp, attrs, tuple(inputs), operands, doc,
            traits=traits,
        )
    )  # fmt: skip
