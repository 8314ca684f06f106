"""How ONNX's constants and ranges are spelled."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.call import OnnxCall
from glasshouse.frontend.onnx.item import Item
from glasshouse.frontend.onnx.opaque import opaque_call
from glasshouse.frontend.onnx.registry import spell
from glasshouse.frontend.onnx.tensors import array_of
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import float32, int64
from glasshouse.ir.types import tensor_type


@spell("Constant")
def constant(c: OnnxCall) -> Any:
    name = c.node.output[0]
    if c.attr("value") is not None:
        data, dtype = array_of(c.attr("value"), c.importer.model.folder)
        return Item(c.builder, dtype, data=data, name=name)
    for key, dtype in (
        ("value_int", int64), ("value_ints", int64), ("value_float", float32),
        ("value_floats", float32),
    ):  # fmt: skip
        if c.attr(key) is not None:
            return Item(c.builder, dtype, data=np.asarray(c.attr(key), dtype.carrier), name=name)
    raise Unsupported("a constant of strings or a sparse one")


@spell("ConstantOfShape")
def constant_of_shape(c: OnnxCall) -> Any:
    value, dtype = (np.zeros(1, np.float32), float32)
    if c.attr("value") is not None:
        value, dtype = array_of(c.attr("value"), None)
    declared = c.declared_for_want_of(0)
    shape = c.sizes(0) if declared is None else declared[0].shape
    return c.full(shape, value.reshape(-1)[0].item(), dtype)


@spell("Range")
def range_(c: OnnxCall) -> Any:
    dtype = c.item(0).dtype
    if any(c.value(i) is None for i in range(3)):
        # How many there are is known when it runs only.
        for i in range(3):
            if c.value(i) is None:
                c.importer.want(c.item(i))
        c.importer.model.refused.append(("Range", "its ends are not known before it runs"))
        said = c.declared() or tensor_type(dtype, (c.importer.model.symbols.fresh(),))
        return opaque_call(c.importer, c, [said])
    ends = [c.known(i).reshape(-1)[0] for i in range(3)]
    start, stop, step = (e.item() if isinstance(e, np.generic) else e for e in ends)
    if isinstance(step, SymDim):
        raise Unsupported(f"a step of {step}")
    return c.builder.apply("arange", start=start, stop=stop, step=step, dtype=dtype)


@spell("EyeLike")
def eye_like(c: OnnxCall) -> Any:
    rows, columns = c.type(0).shape
    dtype = c.dtype("dtype", c.item(0).dtype)
    number = c.builder.apply("arange", stop=rows).apply("reshape", shape=(rows, 1))
    k = c.attr("k", 0)
    return (number + k).apply("equal", c.builder.apply("arange", stop=columns)).cast(dtype)


@spell("Trilu")
def trilu(c: OnnxCall) -> Any:
    k = int(c.number(1)) if c.has(1) else 0
    return c[0].apply("triangle", diagonal=k, upper=bool(c.attr("upper", 1)))
