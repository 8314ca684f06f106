"""What weights and the results of kernels held in one run, as rows of a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glasshouse.ir.dtype import from_storage
from glasshouse.ir.graph import Value
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.program import Step
from glasshouse.record.graph_writer import GraphWriter
from glasshouse.record.values import summary_of
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.late_array import LateArray
from glasshouse.runtime.module import Module


def keep_values(module: Module, inputs: Sequence[Any], owner: GraphWriter) -> None:
    """Range, NaNs and a histogram of every constant and of every kernel's outputs."""

    def keep(value: Value, array: Array) -> None:
        plain = from_storage(array, value.type.dtype)
        if (row := summary_of(value.node.id, value.index, plain)) is not None:
            owner.add(row)

    for node in module.graph.nodes:
        data = node.attrs.get("data")
        if node.op is CONSTANT and isinstance(data, (np.ndarray, LateArray)):
            keep(node.output, np.asarray(data))

    def see(step: Step, read: Callable[[Value], Array]) -> None:
        for value in step.node.outputs:
            keep(value, read(value))

    module.watch(inputs, see)
