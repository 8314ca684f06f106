"""What becomes of Python's own arithmetic on sizes, and of numbers read out of tensors."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from glasshouse.errors import CaptureError, Unsupported
from glasshouse.frontend.torch.aten import apply, is_handle, scalar
from glasshouse.ir.dim import SymDim, as_symbol, bounds
from glasshouse.ir.dtype import bool_, float64, int64
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.types import tensor_type

if TYPE_CHECKING:
    from glasshouse.frontend.torch.importer import Importer

_BINARY = {
    operator.add: "add", operator.sub: "subtract", operator.mul: "multiply",
    operator.truediv: "divide", operator.floordiv: "floor_divide", operator.mod: "remainder",
    operator.pow: "power", operator.lt: "less", operator.le: "less_equal",
    operator.gt: "greater", operator.ge: "greater_equal", operator.eq: "equal",
    operator.ne: "not_equal", operator.and_: "logical_and", operator.or_: "logical_or",
    torch.sym_max: "maximum", torch.sym_min: "minimum", math.pow: "power",
}  # fmt: skip
_UNARY = {
    operator.neg: "negative", torch.sym_not: "logical_not", operator.not_: "logical_not",
    torch.sym_int: "trunc", math.trunc: "trunc", math.floor: "floor", math.ceil: "ceil",
    round: "round", abs: "absolute",
}  # fmt: skip
# Switches of PyTorch's own state, which a graph does not have.
_SWITCHES = {
    torch._C._set_grad_enabled, torch.amp.autocast_mode._enter_autocast,
    torch.amp.autocast_mode._exit_autocast,
}  # fmt: skip
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_symbolic(val: Any) -> bool:
    """Whether a node gives a number rather than a tensor."""
    return isinstance(val, (bool, int, float, *_SYMBOLIC))


def value(importer: Importer, node: Any, args: Any) -> Any:
    """A size where one can be written; else a tensor without axes that is computed."""
    if node.target in _SWITCHES:
        return None
    val = node.meta.get("val")
    if isinstance(val, (bool, int, float)):
        return val
    if isinstance(val, torch.SymInt):
        if _is_item(node.target) and is_handle(args[0]):
            return _read_size(importer, val, args[0])
        try:
            return importer.symbols.dim(val)
        except Unsupported:
            pass
    return _computed(importer, node, args)


def _is_item(target: Any) -> bool:
    name = target._schema.name if isinstance(target, torch._ops.OpOverload) else ""
    return name in ("aten::item", "aten::_local_scalar_dense")


def _read_size(importer: Importer, val: Any, number: Any) -> Any:
    """A number read out of a tensor: a size whose value a node gives by the shape of its result.

    One that may be negative is no size; it stays a tensor without axes.
    """
    size = importer.symbols.dim(val)
    if as_symbol(size) is None or bounds(size)[0] < 0:
        return number
    attrs = {
        "target": "glasshouse.size", "arguments": "%0", "call": given_size,
        "types": [tensor_type(bool_, (size,))],
    }  # fmt: skip
    REGISTRY["opaque"].emit(importer.builder, [number], attrs)
    return size


def given_size(number: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of that length, which takes no memory."""
    return np.broadcast_to(np.False_, (int(number),))


def _computed(importer: Importer, node: Any, args: Any) -> Any:
    """SymFloat and SymBool: arithmetic on scalars in float64 and bool, as Python's is."""
    target = node.target
    if _is_item(target):
        return args[0]
    near = next((a for a in args if is_handle(a)), None) or importer.builder.apply(
        "full", shape=(), value=0, dtype=int64
    )
    if target in (torch.sym_float, float):
        return scalar(near, args[0], float64)
    if target is torch._sym_sqrt or target is math.sqrt:
        return scalar(near, args[0], float64).apply("sqrt")
    op = _BINARY.get(target) or _UNARY.get(target)
    if op is None:
        raise CaptureError(
            f"{target} of sizes cannot be captured", str(importer.sources.of(node)),
            "compute it from fixed sizes, or with tensors",
        )  # fmt: skip
    operands = [_operand(near, a) for a in args[:2]]
    if op == "divide":
        operands = [o.cast(float64) for o in operands]
    out = apply(op, *operands)
    return out.cast(int64) if target is torch.sym_int else out


def _operand(near: Any, given: Any) -> Any:
    if is_handle(given):
        return given
    if isinstance(given, bool):
        return scalar(near, given, bool_)
    return scalar(near, given, int64 if isinstance(given, (int, SymDim)) else float64)
