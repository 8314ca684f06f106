"""Calls that have most of their arrays in the same places every time: parameters and moments of a
training loop. They are checked once, and their addresses are kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from glasshouse.ir.graph import Graph, Value
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.overlap import Span, overlap
from glasshouse.runtime.quick_run import QuickCall, QuickRun


def bound_call(
    graph: Graph,
    overwrites: Mapping[int, int],
    quick: QuickRun,
    run: Callable[[Any], int],
    inputs: Sequence[Array | None],
    outputs: Sequence[Array | None],
) -> QuickCall | None:
    """See `Module.partly_bound`; `run` is the library's function that takes a frame."""
    pairs = [*zip(graph.inputs, inputs, strict=True), *zip(graph.outputs, outputs, strict=True)]
    if not all(array is None or _serves(value, array) for value, array in pairs):
        return None
    if any(a is not None and not a.flags.writeable for a in outputs):
        return None
    read = [
        _span(x)
        for i, x in enumerate(inputs)
        if x is not None
        and not any(outputs[o] is x for o, place in overwrites.items() if place == i)
    ]
    if overlap([_span(y) for y in outputs if y is not None], read):
        return None
    given = (frozenset(i for i, a in enumerate(s) if a is not None) for s in (inputs, outputs))
    call = quick.bound_for(run, *given)
    at = tuple([a.ctypes.data for _, a in pairs if a is not None])
    return None if call is None else partial(call, at)


def _serves(value: Value, array: Array) -> bool:
    """Whether an array is what the graph wants there, as it is stored."""
    return (
        type(array) is np.ndarray
        and array.shape == value.type.shape
        and array.dtype == value.type.dtype.storage
        and array.flags.c_contiguous
        and array.flags.aligned
    )


def _span(array: Array) -> Span:
    begin = int(array.ctypes.data)
    return begin, begin + array.nbytes
