"""The functions of real numbers: exponentials, roots, trigonometry, rounding.

All but the roundings want floats: integer operands become float32 first, in sight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from glasshouse.ir.op import Kind, Op, Operands
from glasshouse.ops.arrays import Array
from glasshouse.ops.declare import op
from glasshouse.ops.erf import erf as erf_ref
from glasshouse.ops.shapes import broadcast, same_shape, unbroadcast

_ROUND: dict[str, Any] = {"kind": Kind.ELEMENTWISE, "family": "math", "infer": same_shape}
_REAL: dict[str, Any] = {**_ROUND, "operands": Operands.FLOAT}

# ------------------------------------------------------------------ exponentials, logarithms, roots
exp = op(
    "exp",
    cost=12,
    never_negative=True,
    onnx="Exp",
    **_REAL,
    ref=np.exp,
    vjp=lambda g, x, y: (g * y,),
    doc="e to the power of x",
)
log = op(
    "log",
    cost=14,
    onnx="Log",
    **_REAL,
    ref=np.log,
    vjp=lambda g, x, y: (g / x,),
    doc="Natural logarithm",
)
log1p = op(
    "log1p", cost=16,
    **_REAL, ref=np.log1p, vjp=lambda g, x, y: (g / (x + 1.0),),
    doc="log(1 + x), exact for small x",
)  # fmt: skip
expm1 = op(
    "expm1", cost=16,
    **_REAL, ref=np.expm1, vjp=lambda g, x, y: (g * (y + 1.0),),
    doc="exp(x) - 1, exact for small x",
)  # fmt: skip
sqrt = op(
    "sqrt",
    cost=4,
    never_negative=True,
    onnx="Sqrt",
    **_REAL,
    ref=np.sqrt,
    vjp=lambda g, x, y: (g * 0.5 / y,),
    doc="Square root",
)
rsqrt = op(
    "rsqrt", cost=4, never_negative=True,
    **_REAL, ref=lambda x: 1 / np.sqrt(x), vjp=lambda g, x, y: (g * (y * y * y) * -0.5,),
    doc="1 / sqrt(x)",
)  # fmt: skip

# ------------------------------------------------------------------------------------ trigonometry
sin = op(
    "sin",
    cost=20,
    onnx="Sin",
    **_REAL,
    ref=np.sin,
    vjp=lambda g, x, y: (g * cos(x),),
    doc="Sine, x in radians",
)
cos: Op = op(
    "cos",
    cost=20,
    onnx="Cos",
    **_REAL,
    ref=np.cos,
    vjp=lambda g, x, y: (-g * sin(x),),
    doc="Cosine, x in radians",
)
tan = op(
    "tan",
    cost=24,
    onnx="Tan",
    **_REAL,
    ref=np.tan,
    vjp=lambda g, x, y: (g * (y * y + 1.0),),
    doc="Tangent, x in radians",
)
asin = op(
    "asin", cost=20, onnx="Asin",
    **_REAL, ref=np.arcsin, vjp=lambda g, x, y: (g * rsqrt(1.0 - x * x),),
    doc="Inverse sine; NaN outside -1..1",
)  # fmt: skip
acos = op(
    "acos", cost=20, onnx="Acos",
    **_REAL, ref=np.arccos, vjp=lambda g, x, y: (-g * rsqrt(1.0 - x * x),),
    doc="Inverse cosine; NaN outside -1..1",
)  # fmt: skip
atan = op(
    "atan",
    cost=20,
    onnx="Atan",
    **_REAL,
    ref=np.arctan,
    vjp=lambda g, x, y: (g / (x * x + 1.0),),
    doc="Inverse tangent",
)


def _atan2_vjp(g: Any, y: Any, x: Any, z: Any) -> tuple[Any, Any]:
    square = x * x + y * y
    share = square.apply("equal", 0.0).apply("where", 0.0, g / square)  # at the origin none
    return unbroadcast(share * x, y), unbroadcast(-share * y, x)


atan2 = op(
    "atan2", cost=28,
    **{**_REAL, "infer": broadcast}, inputs=("y", "x"), ref=np.arctan2, vjp=_atan2_vjp,
    doc="The angle of the point (x, y), from -pi to pi",
)  # fmt: skip

# -------------------------------------------------------------------------------------- hyperbolic
sinh = op(
    "sinh",
    cost=24,
    onnx="Sinh",
    **_REAL,
    ref=np.sinh,
    vjp=lambda g, x, y: (g * cosh(x),),
    doc="Hyperbolic sine",
)
cosh: Op = op(
    "cosh",
    cost=24,
    never_negative=True,
    onnx="Cosh",
    **_REAL,
    ref=np.cosh,
    vjp=lambda g, x, y: (g * sinh(x),),
    doc="Hyperbolic cosine",
)
tanh = op(
    "tanh",
    cost=18,
    narrows=True,
    onnx="Tanh",
    **_REAL,
    ref=np.tanh,
    vjp=lambda g, x, y: (g * (1.0 - y * y),),
    doc="Hyperbolic tangent",
)
asinh = op(
    "asinh", cost=30, onnx="Asinh",
    **_REAL, ref=np.arcsinh, vjp=lambda g, x, y: (g * rsqrt(x * x + 1.0),),
    doc="Inverse hyperbolic sine",
)  # fmt: skip
acosh = op(
    "acosh", cost=30, onnx="Acosh",
    **_REAL, ref=np.arccosh, vjp=lambda g, x, y: (g * rsqrt(x * x - 1.0),),
    doc="Inverse hyperbolic cosine; NaN below 1",
)  # fmt: skip
atanh = op(
    "atanh", cost=24, onnx="Atanh",
    **_REAL, ref=np.arctanh, vjp=lambda g, x, y: (g / (1.0 - x * x),),
    doc="Inverse hyperbolic tangent; NaN outside -1..1",
)  # fmt: skip
erf = op(
    "erf", cost=20, onnx="Erf",
    **_REAL, ref=erf_ref,
    vjp=lambda g, x, y: (g * exp(-(x * x)) * (2 / math.sqrt(math.pi)),),
    doc="Error function: 2 / sqrt(pi) times the integral of exp(-t*t) from 0 to x",
)  # fmt: skip


# ---------------------------------------------------------------------------------------- rounding
def _rounding(x: Array, how: Any) -> Array:
    """Integers are whole already, and too large for a detour over float64."""
    out: Array = how(x) if x.dtype.kind == "f" else x
    return out


def _flat(g: Any, x: Any, y: Any) -> tuple[None]:
    """Constant between its jumps: the gradient is zero."""
    return (None,)


floor = op(
    "floor", **_ROUND, ref=lambda x: _rounding(x, np.floor), vjp=_flat,
    doc="The largest whole number that is not above x",
)  # fmt: skip
ceil = op(
    "ceil", **_ROUND, ref=lambda x: _rounding(x, np.ceil), vjp=_flat,
    doc="The smallest whole number that is not below x",
)  # fmt: skip
round_ = op(
    "round", **_ROUND, ref=lambda x: _rounding(x, np.rint), vjp=_flat,
    doc="The nearest whole number; halves go to the even one",
)  # fmt: skip
trunc = op(
    "trunc", **_ROUND, ref=lambda x: _rounding(x, np.trunc), vjp=_flat,
    doc="x without its fraction",
)  # fmt: skip
