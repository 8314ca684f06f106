"""How ONNX's types become the core's: named sizes are symbols, unnamed ones get a name."""

from __future__ import annotations

import re
from typing import Any

from glasshouse.errors import CaptureError
from glasshouse.frontend.onnx.dtypes import FROM_ONNX, dtype_of
from glasshouse.ir.dim import Dim, SymDim, as_symbol, symbol
from glasshouse.ir.types import TensorType, tensor_type


class OnnxSymbols:
    """The named sizes of one model."""

    def __init__(self) -> None:
        self.by_name: dict[str, Dim] = {}
        self._fresh = 0

    def named(self, name: str, low: int = 1) -> Dim:
        """The size with this name. Sizes of inputs count as at least 1: no model is run on nothing,
        and much more can be said about shapes then."""
        clean = re.sub(r"\W+", "_", name).strip("_") or "size"
        if clean[0].isdigit():
            clean = f"d{clean}"
        found = self.by_name.setdefault(clean, symbol(clean, low))
        return self.by_name.setdefault(name, found)

    def fresh(self) -> SymDim:
        """A size that is known when the model runs only."""
        self._fresh += 1
        return symbol(f"u{self._fresh - 1}")


def input_type(info: Any, symbols: OnnxSymbols, given: tuple[Dim, ...] | None = None) -> TensorType:
    """The type of a graph input; the shape of an example, where there is one, says more."""
    what = f"input {info.name!r}"
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        said = (kind or "no type").removesuffix("_type").replace("_", " ")
        raise CaptureError(f"{what} is of kind {said}; tensors alone can be compiled")
    tensor = info.type.tensor_type
    dtype = dtype_of(tensor.elem_type, what)
    if given is not None:
        if tensor.HasField("shape"):
            _check(what, tensor.shape.dim, given)
        for dim in given:
            symbol_of = as_symbol(dim)
            if symbol_of is not None:
                symbols.by_name.setdefault(symbol_of.name, dim)
        return tensor_type(dtype, given)
    if not tensor.HasField("shape"):
        raise CaptureError(f"the rank of {what} is not known", hint="give example inputs")
    dims: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
            dims.append(int(dim.dim_value))
        else:
            dims.append(symbols.named(dim.dim_param or f"{info.name}_{axis}"))
    return tensor_type(dtype, dims)


def _check(what: str, declared: Any, shape: tuple[Any, ...]) -> None:
    fits = len(declared) == len(shape) and all(
        not isinstance(have, int) or d.WhichOneof("value") != "dim_value" or d.dim_value == have
        for d, have in zip(declared, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(d.dim_param or str(d.dim_value) for d in declared)
        raise CaptureError(f"{what} has the shape [{wanted}], the example has {list(shape)}")


def declared_type(proto: Any, symbols: OnnxSymbols, fill: bool = False) -> TensorType | None:
    """What a file says of a value: None unless it is a tensor with a known rank, and (without
    `fill`) all sizes are numbers or names that inputs have. `fill` makes names for the others."""
    if proto is None or proto.WhichOneof("value") != "tensor_type":
        return None
    tensor = proto.tensor_type
    if tensor.elem_type not in FROM_ONNX or not tensor.HasField("shape"):
        return None
    dims: list[Dim] = []
    for dim in tensor.shape.dim:
        if dim.WhichOneof("value") == "dim_value":
            dims.append(int(dim.dim_value))
        elif dim.dim_param in symbols.by_name:
            dims.append(symbols.by_name[dim.dim_param])
        elif fill:
            dims.append(symbols.fresh())
        else:
            return None
    return tensor_type(FROM_ONNX[tensor.elem_type], dims)
