"""Decides how the common case is run with the least overhead: fixed sizes, kernels alone, no state.

All that does not depend on the call (table of pointers, shapes, arguments) is made once. A call
then checks its inputs, writes their addresses into the table and enters the library: 6 us for a
model of two small kernels, where the general way took 31.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.lower.cxx import is_static
from glasshouse.lower.program import Call, Program
from glasshouse.runtime.arrays import Array

Slot = tuple[int, tuple[int, ...], np.dtype[Any]]


class StaticRun:
    """A program whose calls differ in nothing but the data of inputs and outputs."""

    def __init__(self, program: Program, table: Mapping[Value, int], places: int) -> None:
        graph = program.graph
        self._inputs: list[Slot] = [_slot(v, table) for v in graph.inputs]
        self._outputs: list[Slot] = [_slot(v, table) for v in graph.outputs]
        self._table = (ctypes.c_void_p * max(places, 1))()
        self._steps = len(program.steps)

    @staticmethod
    def serves(program: Program) -> bool:
        """Whether a program is of this kind."""
        graph = program.graph
        return (
            not graph.updates
            and len(set(graph.outputs)) == len(graph.outputs)
            and all(v.node.op.kind is not Kind.SOURCE for v in graph.outputs)
            and all(is_static(v.type.shape) for v in (*graph.inputs, *graph.outputs))
            and not program.symbols
            and all(isinstance(s, Call) for s in program.steps)
        )

    def bind(
        self, library: ctypes.CDLL, pool: Any, arena: Array, fixed: Mapping[int, Array]
    ) -> None:
        """Take the addresses that hold from now on."""
        for place, array in fixed.items():
            self._table[place] = array.ctypes.data
        self._run = library.glasshouse_run
        sizes = (ctypes.c_int64 * 1)()
        begin = ctypes.c_void_p(arena.ctypes.data)
        self._arguments = (pool, self._table, begin, sizes, 0, self._steps, None)

    def __call__(self, inputs: Sequence[Array]) -> tuple[list[Array], int] | None:
        """Outputs and the library's answer; None when an input is not just what it should be."""
        if len(inputs) != len(self._inputs):
            return None
        table = self._table
        for array, (place, shape, dtype) in zip(inputs, self._inputs, strict=True):
            if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
                return None
            table[place] = array.__array_interface__["data"][0]
        outputs: list[Array] = []
        for place, shape, dtype in self._outputs:
            array = np.empty(shape, dtype)
            table[place] = array.__array_interface__["data"][0]
            outputs.append(array)
        return outputs, self._run(*self._arguments)


def _slot(value: Value, table: Mapping[Value, int]) -> Slot:
    shape = tuple(d for d in value.type.shape if isinstance(d, int))
    return table[value], shape, value.type.dtype.storage
