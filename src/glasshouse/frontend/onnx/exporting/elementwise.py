"""How elementwise core ops are written in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.exporting.emitter import Emitter, Spelling, export
from glasshouse.ir.dtype import UNSIGNED, DType, bool_, float32, float64, int32
from glasshouse.ir.graph import Node
from glasshouse.ir.op import REGISTRY


def _plain(op: str, **attrs: Any) -> Spelling:
    return lambda e, n: e.make(op, *e.inputs(n), **attrs)


for _same in REGISTRY.values():
    if _same.traits.onnx:
        export(_same.name)(_plain(_same.traits.onnx))


def _for(allowed: Callable[[DType], bool], wide: DType, op: str) -> Spelling:
    """Ops that ONNX does not have for all types: operands of others are cast first."""

    def spelling(e: Emitter, n: Node) -> Any:
        names = [e[v] if allowed(v.type.dtype) else e.cast(e[v], wide) for v in n.inputs]
        return e.make(op, *names)

    return spelling


for _name, _op in {
    "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}.items():  # fmt: skip
    export(_name)(_for(lambda d: d is not bool_, int32, _op))
export("isnan")(_for(lambda d: d.is_float, float32, "IsNaN"))
export("isinf")(_for(lambda d: d.is_float, float32, "IsInf"))


def _two(numbers: str, bools: str) -> Spelling:
    """Ops that mean something else for bool."""
    return lambda e, n: e.make(
        bools if n.inputs[0].type.dtype is bool_ else numbers, *e.inputs(n)
    )  # fmt: skip


export("add")(_two("Add", "Or"))
export("multiply")(_two("Mul", "And"))
export("maximum")(_two("Max", "Or"))
export("minimum")(_two("Min", "And"))
export("bitwise_and")(_two("BitwiseAnd", "And"))
export("bitwise_or")(_two("BitwiseOr", "Or"))
export("bitwise_xor")(_two("BitwiseXor", "Xor"))
export("bitwise_not")(_two("BitwiseNot", "Not"))


@export("from_front")
def from_front(e: Emitter, n: Node) -> Any:
    (x,), dtype, besides = e.inputs(n), n.output.type.dtype, n.attrs["besides"]
    negative = e.make("Less", x, e.constant(0, dtype))
    if besides:
        kept = e.make("Equal", x, e.constant(besides, dtype))
        negative = e.make("And", negative, e.make("Not", kept))
    return e.make("Where", negative, e.constant(np.iinfo(dtype.carrier).max, dtype), x)


@export("not_equal")
def not_equal(e: Emitter, n: Node) -> str:
    return str(e.make("Not", e.make("Equal", *e.inputs(n))))


def _truths(op: str) -> Spelling:
    def spelling(e: Emitter, n: Node) -> Any:
        names = [
            e[v] if v.type.dtype is bool_ else e.cast(e[v], bool_) for v in n.inputs
        ]  # fmt: skip
        return e.make(op, *names)

    return spelling


for _name, _op in {
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not",
}.items():  # fmt: skip
    export(_name)(_truths(_op))


def _rounding(op: str) -> Spelling:
    """Whole numbers are whole already, and ONNX has these for floats alone."""
    return lambda e, n: e.make(op if n.output.type.dtype.is_float else "Identity", *e.inputs(n))


export("floor")(_rounding("Floor"))
export("ceil")(_rounding("Ceil"))
export("round")(_rounding("Round"))


@export("trunc")
def trunc(e: Emitter, n: Node) -> Any:
    (x,) = e.inputs(n)
    if not n.output.type.dtype.is_float:
        return e.make("Identity", x)
    return e.make("Mul", e.make("Sign", x), e.make("Floor", e.make("Abs", x)))


@export("sign")
def sign(e: Emitter, n: Node) -> Any:
    return e.make("Sign", *e.inputs(n))


@export("cast")
def cast(e: Emitter, n: Node) -> Any:
    return e.cast(e[n.inputs[0]], n.attrs["dtype"])


@export("clip")
def clip(e: Emitter, n: Node) -> Any:
    dtype = n.output.type.dtype
    low, high = (
        "" if n.attrs[key] is None else e.constant(n.attrs[key], dtype) for key in ("low", "high")
    )
    return e.make("Clip", e[n.inputs[0]], low, high)


@export("floor_divide")
def floor_divide(e: Emitter, n: Node) -> Any:
    x, y = e.inputs(n)
    dtype = n.output.type.dtype
    if dtype.is_float:
        return e.make("Floor", e.make("Div", x, y))
    quotient = e.make("Div", x, y)
    if dtype in UNSIGNED:
        return quotient
    # ONNX rounds towards zero: one less where there is a rest and the signs differ.
    rest = e.make("Sub", x, e.make("Mul", quotient, y))
    zero = e.constant(0, dtype)
    some = e.make("Not", e.make("Equal", rest, zero))
    differ = e.make("Xor", e.make("Less", rest, zero), e.make("Less", y, zero))
    less = e.cast(e.make("And", some, differ), dtype)
    return e.make("Sub", quotient, less)


@export("remainder")
def remainder(e: Emitter, n: Node) -> Any:
    x, y = e.inputs(n)
    if not n.output.type.dtype.is_float:
        return e.make("Mod", x, y)
    return e.make("Sub", x, e.make("Mul", y, e.make("Floor", e.make("Div", x, y))))


# ------------------------------------------------------------------------------ one op and a number
def _near(e: Emitter, n: Node, value: float) -> str:
    return e.constant(value, n.output.type.dtype)


def _chain(*steps: Callable[[Emitter, Node, str], str]) -> Spelling:
    def spelling(e: Emitter, n: Node) -> Any:
        name = e[n.inputs[0]]
        for step in steps:
            name = step(e, n, name)
        return name

    return spelling


export("log1p")(
    _chain(lambda e, n, x: e.make("Add", x, _near(e, n, 1)), lambda e, n, x: e.make("Log", x))
)
export("expm1")(
    _chain(lambda e, n, x: e.make("Exp", x), lambda e, n, x: e.make("Sub", x, _near(e, n, 1)))
)
export("rsqrt")(_chain(lambda e, n, x: e.make("Sqrt", x), lambda e, n, x: e.make("Reciprocal", x)))
export("silu")(lambda e, n: e.make("Mul", e[n.inputs[0]], e.make("Sigmoid", e[n.inputs[0]])))
export("leaky_relu")(lambda e, n: e.make("LeakyRelu", *e.inputs(n), alpha=n.attrs["slope"]))
export("elu")(lambda e, n: e.make("Elu", *e.inputs(n), alpha=n.attrs["alpha"]))
export("gelu")(lambda e, n: e.make("Gelu", *e.inputs(n), approximate=n.attrs["approximate"]))
export("hardsigmoid")(lambda e, n: e.make("HardSigmoid", *e.inputs(n), alpha=1 / 6, beta=0.5))


@export("softplus")
def softplus(e: Emitter, n: Node) -> Any:
    beta = n.attrs["beta"]
    x = e[n.inputs[0]]
    scaled = x if beta == 1 else e.make("Mul", x, _near(e, n, beta))
    y = e.make("Softplus", scaled)
    y = y if beta == 1 else e.make("Div", y, _near(e, n, beta))
    if n.attrs["threshold"] >= 20:  # log(1 + exp(20)) is 20 up to 2e-9
        return y
    return e.make("Where", e.make("Greater", scaled, _near(e, n, n.attrs["threshold"])), x, y)


# ------------------------------------------------------------------------------------- quantisation
@export("quantize", "dequantize")
def quantize(e: Emitter, n: Node) -> Any:
    stored = n.output if n.op.name == "quantize" else n.inputs[0]
    if n.attrs.get("low") is not None or n.attrs.get("high") is not None:
        raise Unsupported("ONNX quantises to the whole range of a type", str(n.origin.source))
    if stored.type.dtype is int32 and n.op.name == "quantize":
        raise Unsupported("ONNX does not quantise to int32", str(n.origin.source))
    x, scale, zero = e.inputs(n)
    real = (n.inputs[0] if n.op.name == "quantize" else n.output).type.dtype
    if n.inputs[1].type.dtype is not real:
        scale = e.cast(scale, real)
    if n.inputs[2].type.dtype is not stored.type.dtype:
        zero = e.cast(zero, stored.type.dtype)
    op = "QuantizeLinear" if n.op.name == "quantize" else "DequantizeLinear"
    if real is not float64:
        return e.make(op, x, scale, zero, axis=n.attrs["axis"])
    # ONNX has neither for float64.
    x = e.cast(x, float32) if n.op.name == "quantize" else x
    made = e.make(op, x, e.cast(scale, float32), zero, axis=n.attrs["axis"])
    return made if n.op.name == "quantize" else e.cast(made, float64)
