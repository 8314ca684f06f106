"""Decides which arguments a compiled module takes, and how it says no: by name, type and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import Dim, SymDim, evaluate, symbols_of
from glasshouse.ir.dtype import bfloat16, to_storage
from glasshouse.ir.graph import Node, Value
from glasshouse.runtime.arrays import Array


def sizes_of(dims: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(d, sizes) for d in dims)


def empty(value: Value, sizes: Mapping[str, int]) -> Array:
    return np.empty(sizes_of(value.type.shape, sizes), value.type.dtype.storage)


def checked_input(value: Value, array: Array, sizes: Mapping[str, int], number: int) -> Array:
    """An input that has the type and a size that the code was compiled for."""
    name = value.node.attrs["name"] or f"input {number}"
    if array.shape != sizes_of(value.type.shape, sizes):
        raise ExecutionError(f"{name} must be {value.type}, got shape {list(array.shape)}")
    for dim in value.type.shape:
        if isinstance(dim, SymDim):
            _check_range(name, dim, sizes)
    if array.dtype != value.type.dtype.storage:
        if value.type.dtype is not bfloat16:
            raise ExecutionError(f"{name} must be {value.type}, got {array.dtype}")
        array = to_storage(array, bfloat16)
    return np.ascontiguousarray(array)


def check_output(value: Value, array: Array, sizes: Mapping[str, int]) -> None:
    """A buffer of the caller's must be just what a kernel writes."""
    right = array.shape == sizes_of(value.type.shape, sizes)
    if not right or array.dtype != value.type.dtype.storage or not array.flags.c_contiguous:
        raise ExecutionError(
            f"an output buffer must be a contiguous {value.type}, "
            f"got {array.dtype}{list(array.shape)}"
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
