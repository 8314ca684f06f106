"""Decides how an op is declared: one call, `op(...)`, with everything that the op means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glasshouse.ir.attrs import Attr
from glasshouse.ir.op import Infer, Kind, NoGradient, Op, Operands, register


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
    **attrs: Attr,
) -> Op:
    """Declare and register an op; further keywords are its attributes.

    `relu = op("relu", kind=Kind.ELEMENTWISE, family="elementwise", infer=same_shape,
    ref=lambda x: np.maximum(x, 0), vjp=lambda g, x, y: (g * (x > 0),), doc="max(x, 0)")`
    """
    declared: Mapping[str, Attr] = attrs
    return register(Op(name, kind, family, infer, ref, vjp, declared, tuple(inputs), operands, doc))
