"""What is kept of the work that ran, in the form of Jittor's trace data.

    with flag_scope(trace_py_var=2):
        ...
    data = dump_trace_data()       # {"node_data": {...}, "execute_op_info": {...}}

There is a node for every op and one for every value between ops, from the moment it runs. Levels: 0
and 1 keep no node; 2 keeps nodes with the modules they are in (outside of modules, with lines); 3
keeps nodes with all lines of the user's stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from glasshouse.errors import TypeMismatch, Unsupported
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.origin import Origin
from glasshouse.tensor.pending import LazyValue, resolve
from glasshouse.tensor.state import TRACING
from glasshouse.tensor.tensor import Tensor

_GRAD = {"name": "grad", "type": "Grad", "file_path": "", "lineno": 0}


@dataclass
class _Data:
    nodes: dict[int, dict[str, Any]] = field(default_factory=dict)
    executed: dict[int, dict[str, Any]] = field(default_factory=dict)
    ops: dict[int, int] = field(default_factory=dict)  # id of a node -> id of its op here
    values: dict[tuple[int, int], int] = field(default_factory=dict)  # (node, output) -> id here
    names: dict[tuple[int, int], str] = field(default_factory=dict)  # of parameters' values


_data = _Data()
# Ids are never used twice, also after data was cleared.
_next_node = count().__next__
_next_run = count().__next__


@contextmanager
def flag_scope(**flags: int) -> Iterator[None]:
    """Keep what runs inside: `flag_scope(trace_py_var=2)`."""
    unknown = set(flags) - {"trace_py_var"}
    if unknown:
        raise Unsupported(f"there is no flag {', '.join(sorted(unknown))}; there is trace_py_var")
    level = flags.get("trace_py_var", 0)
    if level not in (0, 1, 2, 3):
        raise TypeMismatch(f"trace_py_var is 0, 1, 2 or 3, not {level!r}")
    before = TRACING.level
    TRACING.set_level(level)
    try:
        yield
    finally:
        TRACING.set_level(before)


def dump_trace_data() -> dict[str, dict[int, dict[str, Any]]]:
    """What was kept so far: plain dicts, lists, strings and numbers, ready to be pickled."""
    return {
        "node_data": {
            id: {
                **node,
                "inputs": list(node["inputs"]),
                "outputs": list(node["outputs"]),
                "stacks": [dict(step) for step in node["stacks"]],
                "attrs": dict(node["attrs"]),
            }
            for id, node in _data.nodes.items()
        },
        "execute_op_info": {
            id: {**info, "fused_ops": list(info["fused_ops"])}
            for id, info in _data.executed.items()
        },
    }


def clear_trace_data() -> None:
    """Forget what was kept."""
    for kept in (_data.nodes, _data.executed, _data.ops, _data.values, _data.names):
        kept.clear()


def recorder(graph: Graph, tensors: Sequence[Tensor]) -> Any:
    """Keep a graph that is about to run; gives what the executor reports its kernels to."""
    if not TRACING.is_on:
        return None
    for node in graph.nodes:
        _keep(node)
    _name_values(tensors)
    return _ran


def name_parameter(parameter: Tensor, name: str) -> None:
    """Let a parameter, and the value it holds now, be known by this name."""
    parameter.name = name
    held = resolve(parameter.value)
    _data.names[held.node.id, held.index] = name


def same_value(new: int, old: LazyValue) -> None:
    """From now on a node stands for a value that was kept."""
    if (old.node.id, old.index) in _data.values:
        _data.values[new, 0] = _data.values[old.node.id, old.index]


def _ran(node_ids: Sequence[int], key: str, source_file: str) -> None:
    ops = [_data.ops[i] for i in node_ids if i in _data.ops]
    if ops:
        info = {"fused_ops": ops, "jit_key": key, "file_path": source_file, "attrs": {}}
        _data.executed[_next_run()] = info


def _keep(node: Node) -> None:
    if node.id in _data.ops or (node.id, 0) in _data.values:
        return
    stacks = _stacks(node.origin)
    common = {} if node.origin.grad_of is None else _grad_attr(node.origin.grad_of)
    inputs = [_data.values[v.node.id, v.index] for v in node.inputs]
    is_source = node.op.kind is Kind.SOURCE
    op = _next_node()
    _data.ops[node.id] = op
    _data.nodes[op] = {
        "id": op, "inputs": inputs, "outputs": [], "stacks": stacks,
        "attrs": {"is_var": "0", "name": "array" if is_source else node.op.name, **common},
    }  # fmt: skip
    for id in inputs:
        _data.nodes[id]["outputs"].append(op)
    for value in node.outputs:
        _keep_value(value, op, stacks, common)


def _keep_value(value: Value, op: int, stacks: list[Any], common: dict[str, str]) -> None:
    id = _next_node()
    _data.values[value.node.id, value.index] = id
    shape = "".join(f"{d}," for d in value.type.shape)
    attrs = {
        "is_var": "1", "name": _data.names.get((value.node.id, value.index), ""),
        "shape": f"[{shape}]", "ndim": str(value.type.rank), "dtype": value.type.dtype.name,
        "dsize": str(value.type.dtype.itemsize), **common,
    }  # fmt: skip
    _data.nodes[id] = {
        "id": id, "inputs": [op], "outputs": [], "stacks": stacks, "attrs": attrs,
    }  # fmt: skip
    _data.nodes[op]["outputs"].append(id)


def _grad_attr(forward: int) -> dict[str, str]:
    """The op whose gradient this is, unless it did not run: ids never dangle."""
    return {"grad_op_id": str(_data.ops[forward])} if forward in _data.ops else {}


def _name_values(tensors: Sequence[Tensor]) -> None:
    """Values that become parameters have the parameter's name."""
    for tensor in tensors:
        found = resolve(tensor.value)
        key = (found.node.id, found.index)
        if tensor.name and key in _data.values:
            _data.nodes[_data.values[key]]["attrs"]["name"] = tensor.name


def _stacks(origin: Origin) -> list[dict[str, Any]]:
    """Outermost first; a backward node's begins with a step of its own."""
    source = origin.source
    if TRACING.level == 2 and source.scopes:
        steps = [
            {"name": s.name or s.cls, "type": s.cls, "file_path": s.file, "lineno": s.line}
            for s in source.scopes
        ]
    else:
        steps = [
            {
                "name": f"{f.file}:{f.line}", "type": f.function if TRACING.level == 3 else "",
                "file_path": f.file, "lineno": f.line,
            }
            for f in source.frames
        ]  # fmt: skip
    return [dict(_GRAD), *steps] if origin.grad_of is not None else steps
