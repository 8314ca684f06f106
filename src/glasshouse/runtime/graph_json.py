"""How a compiled graph is written as JSON, ids, types and origins with it, and read back.

Arrays are not part of the text: `keep` takes each one and gives the number by which `fetch` finds
it again. Attributes that are Python functions cannot be written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, Function, Symbol, SymDim
from glasshouse.ir.dtype import BY_NAME, DType
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import op_named
from glasshouse.ir.origin import Frame, Origin, Scope, Source
from glasshouse.ir.types import TensorType, tensor_type
from glasshouse.runtime.late_array import LateArray

Json = Any
Keep = Callable[[Node, np.ndarray[Any, Any] | LateArray], int]
Fetch = Callable[[int], np.ndarray[Any, Any]]


def value_to_json(value: Value) -> list[int]:
    return [value.node.id, value.index]


def value_from_json(graph: Graph, given: list[int]) -> Value:
    return graph.node(given[0]).outputs[given[1]]


def graph_to_json(graph: Graph, keep: Keep) -> Json:
    """The graph as lists and dictionaries."""
    return {
        "name": graph.name,
        "nodes": [_node_to_json(n, keep) for n in graph.nodes],
        "inputs": [value_to_json(v) for v in graph.inputs],
        "outputs": [value_to_json(v) for v in graph.outputs],
        "output_names": list(graph.output_names),
        "updates": [[n.id, value_to_json(v)] for n, v in graph.updates.items()],
    }


def graph_from_json(given: Json, fetch: Fetch) -> Graph:
    graph = Graph(given["name"])
    for node in given["nodes"]:
        inputs = tuple(value_from_json(graph, v) for v in node["inputs"])
        attrs = {k: _from_json(v, fetch) for k, v in node["attrs"].items()}
        types = [_type_from_json(t) for t in node["types"]]
        origin = _origin_from_json(node["origin"])
        graph._add(op_named(node["op"]), inputs, attrs, types, origin, node["id"])
    graph.inputs = [value_from_json(graph, v) for v in given["inputs"]]
    outputs = [value_from_json(graph, v) for v in given["outputs"]]
    graph._set_outputs(outputs, given["output_names"])
    for variable, value in given["updates"]:
        graph._set_update(graph.node(variable), value_from_json(graph, value))
    return graph


def _node_to_json(node: Node, keep: Keep) -> Json:
    return {
        "id": node.id,
        "op": node.op.name,
        "inputs": [value_to_json(v) for v in node.inputs],
        "attrs": {k: _to_json(node, v, keep) for k, v in node.attrs.items()},
        "types": [_type_to_json(v.type) for v in node.outputs],
        "origin": _origin_to_json(node.origin),
    }


def _to_json(node: Node, value: Any, keep: Keep) -> Json:
    """An attribute; what JSON has no word for becomes a dictionary with one key."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [_to_json(node, v, keep) for v in value]
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, SymDim):
        return {"dim": dim_to_json(value)}
    if isinstance(value, TensorType):
        return {"type": _type_to_json(value)}
    if isinstance(value, (np.ndarray, LateArray)):
        return {"array": keep(node, value)}
    if isinstance(value, Graph):
        return {"graph": graph_to_json(value, keep)}
    raise Unsupported(
        f"{node.op.label} cannot be saved: it holds a {type(value).__name__}",
        where=str(node.origin.source),
        hint="ops that call Python run in the process that made them alone",
    )


def _from_json(given: Json, fetch: Fetch) -> Any:
    if isinstance(given, list):
        return tuple(_from_json(v, fetch) for v in given)
    if not isinstance(given, dict):
        return given
    ((kind, value),) = given.items()
    readers: dict[str, Callable[[Json], Any]] = {
        "float": float,
        "dtype": BY_NAME.__getitem__,
        "dim": dim_from_json,
        "type": _type_from_json,
        "array": fetch,
        "graph": lambda g: graph_from_json(g, fetch),
    }
    return readers[kind](value)


def dim_to_json(dim: Dim) -> Json:
    if isinstance(dim, int):
        return dim
    return [[[_atom_to_json(a) for a in monomial], count] for monomial, count in dim.terms]


def dim_from_json(given: Json) -> Dim:
    if isinstance(given, int):
        return given
    terms = ((tuple(_atom_from_json(a) for a in monomial), count) for monomial, count in given)
    return SymDim(tuple(terms))


def _atom_to_json(atom: Symbol | Function) -> Json:
    if isinstance(atom, Symbol):
        return [atom.name, atom.low, atom.high]
    return {"kind": atom.kind, "left": dim_to_json(atom.left), "right": dim_to_json(atom.right)}


def _atom_from_json(given: Json) -> Symbol | Function:
    if isinstance(given, list):
        return Symbol(*given)
    return Function(given["kind"], dim_from_json(given["left"]), dim_from_json(given["right"]))


def _type_to_json(type: TensorType) -> Json:
    return [type.dtype.name, [dim_to_json(d) for d in type.shape]]


def _type_from_json(given: Json) -> TensorType:
    return tensor_type(BY_NAME[given[0]], tuple(dim_from_json(d) for d in given[1]))


def _origin_to_json(origin: Origin) -> Json:
    """The module path and the user's line; the rest of the story is in the recording."""
    source = origin.source
    last = source.frames[-1:]
    return [
        [[s.name, s.cls, s.file, s.line] for s in source.scopes],
        [[f.file, f.line, f.function] for f in last],
        origin.name,
    ]


def _origin_from_json(given: Json) -> Origin:
    scopes, frames, name = given
    return Origin(Source(tuple(Scope(*s) for s in scopes), tuple(Frame(*f) for f in frames)), name)
