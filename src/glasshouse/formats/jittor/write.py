"""How a recording becomes a Jittor trace: a dict of plain containers, pickled.

A trace has a node for every variable. A recording that came from a trace has them already; in any
other, each output of a node becomes one, numbered behind the nodes.
"""

from __future__ import annotations

import pickle
import re
from typing import Any

from glasshouse.formats.jittor.read import GENERATOR, VARIABLE
from glasshouse.formats.jittor.trace import StackEntry
from glasshouse.record import GraphView, Recording, StageView
from glasshouse.record.schema import KernelRow, NodeRow

_TYPE = re.compile(r"(\w+)\[(.*)\]", re.DOTALL)
_GRAD: dict[str, Any] = {"name": "grad", "type": "Grad", "file_path": "", "lineno": 0}


def write(recording: Recording) -> bytes:
    """The last stage of the first graph as the bytes of a `.pkl` file."""
    nodes: dict[int, Any] = {}
    groups: dict[int, Any] = {}
    if recording.graphs:
        view = recording.graphs[0]
        nodes = _nodes(view.stage(-1), _is_trace(recording))
        for order, kernel in enumerate(view.table(KernelRow)):
            groups[kernel.id if _is_trace(recording) else order] = {
                "fused_ops": list(kernel.ops),
                "jit_key": kernel.key,
                "file_path": kernel.file,
                "attrs": {},
            }
    return pickle.dumps({"node_data": nodes, "execute_op_info": groups}, protocol=4)


def lost(recording: Recording) -> list[str]:
    """What the recording says and a trace cannot hold."""
    tables = {name.partition("/")[2] for name in recording.table_names()}
    out = []
    if any(len(g.info.stages) > 1 for g in recording.graphs):
        out.append("stages before the last")
    if len(recording.graphs) > 1:
        out.append("graphs after the first")
    names = ("candidates", "times", "errors", "summaries", "rewrites", "rejects")
    return out + [name for name in names if name in tables]


def _is_trace(recording: Recording) -> bool:
    return recording.header.generator == GENERATOR


def _nodes(stage: StageView, is_trace: bool) -> dict[int, Any]:
    table = list(stage.nodes)
    outputs: dict[int, dict[int, None]] = {node.id: {} for node in table}
    if is_trace:
        out = {}
        for node in table:
            for producer in node.input_nodes:
                if producer in outputs:
                    outputs[producer][node.id] = None
        ports = {(n.id, p): n.input_ports[i] for n in table for i, p in enumerate(n.input_nodes)}
        for node in table:
            attrs = dict(zip(node.attr_keys, node.attr_values, strict=True))
            mine = list(outputs[node.id])
            if node.op != VARIABLE:
                mine = sorted(mine, key=lambda v: ports[v, node.id])
            out[node.id] = _entry(node, node.input_nodes, mine, _stack(node), attrs)
        return out
    return _with_variables(stage.graph, table)


def _with_variables(graph: GraphView, table: list[NodeRow]) -> dict[int, Any]:
    paths = _module_frames(graph)
    first = max((node.id for node in table), default=-1) + 1
    variable: dict[tuple[int, int], int] = {}
    for node in table:
        for port in range(max(1, len(node.outputs))):
            variable[node.id, port] = first + len(variable)
    readers: dict[int, list[int]] = {v: [] for v in variable.values()}
    out: dict[int, Any] = {}
    for node in table:
        operands = zip(node.input_nodes, node.input_ports, strict=True)
        inputs = [variable[value] for value in operands if value in variable]
        for read in dict.fromkeys(inputs):
            readers[read].append(node.id)
        made = [variable[node.id, port] for port in range(max(1, len(node.outputs)))]
        stack = next((paths[g] for g in node.groups if paths[g]), [])
        place = {"name": f"{node.file}:{node.line}", "type": "", "file_path": node.file}
        lines = [{**place, "lineno": node.line}] if node.file else []
        stack = ([_GRAD] if node.grad_of >= 0 else []) + stack + lines
        attrs = {"is_var": "0", "name": node.op}
        attrs |= {"grad_op_id": str(node.grad_of)} if node.grad_of >= 0 else {}
        for key, value in zip(node.attr_keys, node.attr_values, strict=True):
            attrs.setdefault(key, value)
        out[node.id] = _entry(node, inputs, made, stack, attrs)
        for port, id in enumerate(made):
            said = _variable(node, port)
            out[id] = {"id": id, "inputs": [node.id], "outputs": readers[id], "stacks": stack,
                       "attrs": said}  # fmt: skip
    return out


def _entry(
    node: NodeRow, inputs: list[int], outputs: list[int], stack: list[Any], attrs: dict[str, str]
) -> dict[str, Any]:
    return {"id": node.id, "inputs": list(inputs), "outputs": outputs, "stacks": stack,
            "attrs": attrs}  # fmt: skip


def _variable(node: NodeRow, port: int) -> dict[str, str]:
    kind = node.outputs[port] if port < len(node.outputs) else ""
    found = _TYPE.fullmatch(kind)
    dims = [d.strip() for d in found[2].split(",") if d.strip()] if found else []
    name = node.output_names[port] if port < len(node.output_names) else node.name
    return {
        "is_var": "1",
        "name": name,
        "dtype": found[1] if found else kind,
        "ndim": str(len(dims)),
        "shape": "[" + "".join(f"{d}," for d in dims) + "]",
    }


def _stack(node: NodeRow) -> list[dict[str, Any]]:
    frames = [StackEntry.parse(text) for text in node.frames]
    return [
        dict(_GRAD)
        if f.is_grad
        else {"name": f.name, "type": f.type, "file_path": f.file, "lineno": f.line}
        for f in frames
    ]


def _module_frames(graph: GraphView) -> list[list[dict[str, Any]]]:
    """The stack of scopes of each group; [] for groups that are no modules."""
    out: list[list[dict[str, Any]]] = []
    for group in graph.groups:
        above = out[group.parent] if group.parent >= 0 else []
        entry = {"name": group.name, "type": group.cls or "Module", "file_path": group.file,
                 "lineno": group.line}  # fmt: skip
        out.append([*above, entry] if group.grouping == "module" else [])
    return out
