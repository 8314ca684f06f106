"""Which arguments a compiled module takes, and how it says no: by name, type and size."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import Dim, SymDim, evaluate, symbols_of
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Node, Value
from glasshouse.runtime.arguments import as_array, name_of
from glasshouse.runtime.arrays import Array, contiguous


def sizes_of(dims: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, sizes) for d in dims)


def empty(value: Value, sizes: Mapping[str, int]) -> Array:
    return np.empty(sizes_of(value.type.shape, sizes), value.type.dtype.storage)


def checked_input(value: Value, array: Array, sizes: Mapping[str, int], number: int) -> Array:
    """An input that has a size that the code was compiled for."""
    name = name_of(value, number)
    if not _has_shape(value, array, sizes):
        known = [f"{s} = {sizes[s]}" for d in value.type.shape for s in symbols_of(d) if s in sizes]
        # Among other axes a size stands where none was asked for: it explains nothing.
        fits = known and array.ndim == len(value.type.shape)
        where = f" ({', '.join(dict.fromkeys(known))})" if fits else ""
        shape = list(array.shape)
        raise ExecutionError(f"{name} must be {value.type}{where}, got shape {shape}")
    for dim in value.type.shape:
        if isinstance(dim, SymDim):
            _check_range(name, dim, sizes)
    return contiguous(to_storage(array, value.type.dtype))


def _has_shape(value: Value, array: Array, sizes: Mapping[str, int]) -> bool:
    dims = value.type.shape
    if any(s not in sizes for d in dims for s in symbols_of(d)):
        return False  # a size that no number fits: 2*n, and 7 was given
    return tuple(array.shape) == sizes_of(dims, sizes)


def check_outputs(values: Sequence[Value], given: Sequence[Any]) -> list[Array]:
    """Buffers of the caller's as arrays of the right element types; sizes are checked later."""
    if not isinstance(given, (list, tuple)) or len(given) != len(values):
        kinds = ", ".join(str(v.type) for v in values)
        count = len(given) if isinstance(given, (list, tuple)) else type(given).__name__
        raise ExecutionError(
            f"the module gives {len(values)} outputs, buffers were given for {count}",
            hint=f"give a list of {kinds}",
        )
    return [_buffer(number, v, g) for number, (v, g) in enumerate(zip(values, given, strict=True))]


def _buffer(number: int, value: Value, given: Any) -> Array:
    torch: Any = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(given, torch.Tensor)
    if not is_tensor and not isinstance(given, np.ndarray):
        got = "None" if given is None else f"a {type(given).__name__}"
        raise ExecutionError(f"output buffer {number} must be {value.type}, got {got}")
    if is_tensor and given.is_neg():  # its array is a copy: what is written there is lost
        raise ExecutionError(
            f"output buffer {number} must be {value.type}, got a view of negated memory",
            hint="give a tensor of its own",
        )
    array = as_array(f"output buffer {number}", value.type, given.detach() if is_tensor else given)
    if array.dtype != value.type.dtype.storage:
        raise ExecutionError(f"output buffer {number} must be {value.type}, got {array.dtype}")
    if not array.flags.writeable:
        raise ExecutionError(f"output buffer {number} must be {value.type}, got a read-only array")
    return array


def check_output(number: int, value: Value, array: Array, sizes: Mapping[str, int]) -> None:
    """A buffer of the caller's has the size of the output, and is row-major."""
    wanted = sizes_of(value.type.shape, sizes)
    if array.shape != wanted or not array.flags.c_contiguous:
        how = "" if array.flags.c_contiguous else " that is not contiguous"
        raise ExecutionError(
            f"output buffer {number} must be a contiguous {value.type.dtype}{list(wanted)}, "
            f"got {array.dtype}{list(array.shape)}{how}"
        )


def _check_range(name: str, dim: SymDim, sizes: Mapping[str, int]) -> None:
    for symbol in symbols_of(dim).values():
        size = sizes[symbol.name]
        if size < symbol.low or (symbol.high is not None and size > symbol.high):
            raise ExecutionError(
                f"{name}: {symbol.name} is {size}, compiled for {symbol.low} to {symbol.high}",
                hint="compile again with a wider range",
            )


def check_given_sizes(node: Node, sizes: Mapping[str, int]) -> None:
    """Sizes that a node's result has decided lie in the range that memory was planned for."""
    for value in node.outputs:
        for dim in value.type.shape:
            if isinstance(dim, SymDim):
                _check_range(f"the result of {node.attrs['target']}", dim, sizes)
