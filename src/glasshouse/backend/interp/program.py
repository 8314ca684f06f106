"""Runs a lowered program step by step, each value in memory of its own.

For looking at kernels and for checks of lowering: no plan, no text, no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from glasshouse.backend.interp.elements import Array
from glasshouse.backend.interp.kernel import run_kernel
from glasshouse.errors import ExecutionError
from glasshouse.ir.dtype import from_storage, to_storage
from glasshouse.ir.graph import Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import INPUT
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.program import Call, Program
from glasshouse.numpy_ref.executor import bind_sizes, resolve, run_node


def run_program(
    program: Program, inputs: Sequence[Array], kernel_of: Callable[[Kernel], Kernel] = lambda k: k
) -> list[Array]:
    """The outputs, as the reference executor gives them; `kernel_of` may exchange kernels."""
    graph = program.graph
    sizes = bind_sizes([v.type for v in graph.inputs], inputs)
    memory: dict[Value, Array] = {}  # as stored, flat, in the order in which axes lie

    def keep(value: Value, array: Array) -> None:
        order = program.orders.get(value)
        laid_out = array if order is None else array.transpose(order)
        memory[value] = np.ascontiguousarray(to_storage(laid_out, value.type.dtype)).reshape(-1)

    def read(value: Value) -> Array:
        flat = memory[program.buffer_of(value)]
        order = program.orders.get(value)
        shape = [int(resolve(d, sizes)) for d in value.type.shape]
        laid_out = flat.reshape(shape if order is None else [shape[a] for a in order])
        usual = laid_out if order is None else laid_out.transpose(np.argsort(order))
        return from_storage(usual, value.type.dtype)

    for value, given in zip(graph.inputs, inputs, strict=True):
        keep(value, np.asarray(given))
    for node in graph.nodes:
        if node.op.kind is Kind.SOURCE and node.op is not INPUT:
            memory[node.output] = np.ascontiguousarray(node.attrs["data"]).reshape(-1)
    for step in program.steps:
        if not isinstance(step, Call):
            made = run_node(step.node, [read(v) for v in step.node.inputs], sizes)
            for value, array in zip(step.node.outputs, made, strict=True):
                keep(value, array)
            continue
        bound = {
            f"x{i}": memory[program.buffer_of(v)][start // v.type.dtype.itemsize :]
            for i, (v, start) in enumerate(step.starts())
        }
        for i, value in enumerate(step.outputs):
            count = int(resolve(value.type.numel, sizes))
            bound[f"y{i}"] = memory[value] = np.zeros(count, value.type.dtype.storage)
        if run_kernel(kernel_of(step.kernel), bound, sizes):
            raise ExecutionError("an index is out of bounds", str(step.node.origin.source))
    for value in graph.outputs:
        if program.buffer_of(value) not in memory:  # without elements: no step computes it
            memory[value] = np.zeros(0, value.type.dtype.storage)
    return [read(v) for v in graph.outputs]
