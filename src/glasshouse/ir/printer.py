"""How a graph reads as text; `parser` reads the same form back.

    Graph(x: float32[batch, 768]){
      batch in 1..64
      c = Constant(float32[768, 768])
      x_1: float32[batch, 768] = Matmul(x, c)
      return x_1
    }

The bodies of control flow follow, as `graph_1 = Graph(...){ ... }`, under the name by which their
node calls them. Constants are `c`, variables `v`, everything else `x`, numbered in order of
appearance. Data of constants is shown for single elements only; attributes that have their default,
and functions, are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import DType, from_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE
from glasshouse.ir.types import symbols_in

_PREFIX = {CONSTANT: "c", VARIABLE: "v"}


def print_graph(graph: Graph, *, names: bool = False, bodies: bool = False) -> str:
    """The graph as text; with `names`, constants show theirs; with `bodies`, fused insides too."""
    nested: dict[Graph, str] = {}
    lines = _section(graph, nested, names, bodies)
    pending = list(nested)
    while pending:  # a body's own bodies come behind it
        known = len(nested)
        for body in pending:
            inside = _section(body, nested, names, bodies)
            lines += [f"{nested[body]} = {inside[0]}", *inside[1:]]
        pending = list(nested)[known:]
    return "\n".join(lines)


def _section(graph: Graph, nested: dict[Graph, str], names: bool, bodies: bool) -> list[str]:
    """One graph's lines; bodies that it calls are entered into `nested` with their names."""
    naming = value_names(graph)
    header = ", ".join(f"{naming[v]}: {v.type}" for v in graph.inputs)
    lines = [f"Graph({header}){{"]
    symbols = symbols_in(v.type for n in graph.nodes for v in n.outputs)
    lines += [f"  {symbol.declared}" for symbol in symbols]
    for node in graph.nodes:
        if node.op is not INPUT:
            lines.append("  " + _line(node, naming, nested, names))
            if bodies:
                lines += [f"    # {t}" for t in _inside(node)]
    for variable, value in graph.updates.items():
        lines.append(f"  update {naming[variable.output]} = {naming[value]}")
    lines.append("  return " + ", ".join(naming[v] for v in graph.outputs))
    lines.append("}")
    return lines


def value_names(graph: Graph) -> dict[Value, str]:
    """The name of each value in the printed form."""
    counts: dict[str, int] = {}
    names: dict[Value, str] = {}
    for value in [*graph.inputs, *(v for n in graph.nodes for v in n.outputs)]:
        if value not in names:
            prefix = _PREFIX.get(value.node.op, "x")
            number = counts.get(prefix, 0)
            counts[prefix] = number + 1
            names[value] = f"{prefix}_{number}" if number else prefix
    return names


def format_attr(value: Any) -> str:
    """An attribute's value as text."""
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(format_attr(v) for v in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'
    if isinstance(value, (DType, SymDim)):
        return str(value)
    if isinstance(value, np.ndarray):
        return f"array{list(value.shape)}"
    if isinstance(value, Graph):
        return f"graph({len(value)})"
    return repr(value)


def attributes(node: Node) -> dict[str, str]:
    """A node's attributes as text, without those that have their default."""
    declared = node.op.attrs
    return {
        key: format_attr(value)
        for key, value in node.attrs.items()
        if key not in declared or not _same(value, declared[key].default)
    }


def label_of(node: Node) -> str:
    """The op as printed; a fused node names its anchor."""
    label = node.attrs.get("label")
    return label if isinstance(label, str) and node.op.name == "fused" else node.op.label


def _line(node: Node, naming: dict[Value, str], nested: dict[Graph, str], with_names: bool) -> str:
    if node.op in _PREFIX:
        return f"{naming[node.output]} = {node.op.label}({_source_text(node, with_names)})"
    left = ", ".join(f"{naming[v]}: {v.type}" for v in node.outputs)
    parts = [naming[v] for v in node.inputs]
    hidden = ("label", "body", "types") if node.op.name == "fused" else ()
    for key, text in attributes(node).items():
        value = node.attrs[key]
        if key in hidden or callable(value):
            continue
        if isinstance(value, Graph):
            text = nested.setdefault(value, f"graph_{len(nested) + 1}")
        parts.append(f"{key}={text}")
    return f"{left} = {label_of(node)}({', '.join(parts)})"


def _source_text(node: Node, with_names: bool) -> str:
    text = str(node.output.type)
    data = node.attrs.get("data")
    if isinstance(data, np.ndarray) and data.size == 1:
        text += f", value={from_storage(data, node.output.type.dtype).reshape(-1)[0].item()!r}"
    if node.attrs.get("name") and (with_names or node.op is VARIABLE):
        text += f", name={format_attr(node.attrs['name'])}"
    return text


def _inside(node: Node) -> list[str]:
    body = node.attrs.get("body")
    return print_graph(body).splitlines() if isinstance(body, Graph) else []


def _same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and bool(np.all(value == default))
