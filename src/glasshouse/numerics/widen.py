"""A graph in float64: every narrow float wide, nothing rounded on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glasshouse.ir.dtype import NARROW as HELD_NARROW
from glasshouse.ir.dtype import DType, float32, float64, from_storage
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.ir.types import tensor_type

Array = np.ndarray[Any, Any]
NARROW: tuple[DType, ...] = (float32, *HELD_NARROW)
"""Element types that become float64."""


def widened(graph: Graph, held: Mapping[str, Array] | None = None) -> Graph:
    """The same graph, with the same ids, that computes in float64.

    `held` are the values that named constants and variables have now, as they are stored; without
    one, a constant has the data of the graph.
    """
    out = Graph(graph.name)
    twin: dict[Value, Value] = {}
    for node in graph.nodes:
        attrs = dict(node.attrs)
        if attrs.get("dtype") in NARROW:
            attrs["dtype"] = float64
        for key, body in node.attrs.items():
            if isinstance(body, Graph):
                attrs[key] = widened(body)
        if node.op is CONSTANT or node.op is VARIABLE:
            data = attrs["data"]
            if held is not None:
                data = held.get(attrs["name"] or f"%{node.id}", data)
            if data is not None:
                attrs["data"] = wide(np.asarray(data), node.output.type.dtype)
        types = [
            tensor_type(float64 if v.type.dtype in NARROW else v.type.dtype, v.type.shape)
            for v in node.outputs
        ]
        inputs = tuple(twin[v] for v in node.inputs)
        made = out._add(node.op, inputs, attrs, types, node.origin, node.id)
        twin.update(zip(node.outputs, made.outputs, strict=True))
    out.inputs = [twin[v] for v in graph.inputs]
    out._set_outputs([twin[v] for v in graph.outputs], graph.output_names)
    for variable, value in graph.updates.items():
        out._set_update(twin[variable.output].node, twin[value])
    return out


def wide(array: Array, dtype: DType) -> Array:
    """What is stored, in float64 if it is a float."""
    plain = from_storage(array, dtype)
    return plain.astype(np.float64) if dtype.is_float else np.array(plain)
