"""Whether a graph is well formed; run before and after every pass, in linear time."""

from __future__ import annotations

from collections import Counter
from typing import NoReturn

from glasshouse.errors import GlasshouseError, GraphError
from glasshouse.ir.dim import Symbol
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import INPUT, VARIABLE
from glasshouse.ir.types import symbols_in


def verify(graph: Graph, after: str = "") -> None:
    """Raise a `GraphError` that names the node and its place in the user's model.

    Checked: every operand is produced in this graph by a node before its use; declared inputs and
    outputs are in it; the recorded uses are the real ones; each node's types are those that its op
    infers; each size has one range; and all this of the bodies of control flow. `after` names the
    pass to blame.
    """
    pending, met = [graph], {graph}
    while pending:
        current = pending.pop()
        _verify_one(current, after)
        for node in current.nodes:
            if node.op.family == "control":
                bodies = [v for v in node.attrs.values() if isinstance(v, Graph) and v not in met]
                pending += bodies
                met.update(bodies)


def _verify_one(graph: Graph, after: str) -> None:
    seen: set[Value] = set()
    real: Counter[Value] = Counter()
    for node in graph.nodes:
        for position, value in enumerate(node.inputs):
            if value not in seen:
                _fail(node, f"operand {position} comes from outside the graph", after)
        real.update(node.inputs)
        types = [v.type for v in (*node.inputs, *node.outputs)]
        known = graph._typed.get(node)
        if known is None or known[0] is not node.attrs or known[1] != types:
            _check_types(node, after)
            graph._typed[node] = node.attrs, types
        seen.update(node.outputs)
    for node in graph.nodes:
        for value in node.outputs:
            if value.use_count != real[value]:
                counts = f"{value.use_count} uses are recorded, {real[value]} are there"
                _fail(node, counts, after)
    for value in graph.inputs:
        if value not in seen or value.node.op is not INPUT:
            _fail(value.node, "declared as an input, but not an input node of the graph", after)
    declared = {v.node for v in graph.inputs}
    for node in graph.nodes:
        if node.op is INPUT and node not in declared:
            _fail(node, "an input node that the graph does not declare", after)
    for value in [*graph.outputs, *graph.updates.values()]:
        if value not in seen:
            _fail(value.node, "an output of the graph that is not in it", after)
    _check_symbols(graph, after)
    for variable, value in graph.updates.items():
        if variable.op is not VARIABLE or variable not in graph:
            _fail(variable, "updated, but not a variable of the graph", after)
        if variable.output.type != value.type:
            _fail(
                variable, f"a variable of {variable.output.type} updated with {value.type}", after
            )


def _check_symbols(graph: Graph, after: str) -> None:
    """A size has one range; printed, compiled and saved, only its name tells it from others."""
    known: dict[str, Symbol] = {}
    for symbol in symbols_in(v.type for n in graph.nodes for v in n.outputs):
        other = known.setdefault(symbol.name, symbol)
        if other != symbol:
            at = next(n for n in graph.nodes if symbol in symbols_in(v.type for v in n.outputs))
            _fail(at, f"a size of two ranges: {other.declared}, and {symbol.declared}", after)


def _check_types(node: Node, after: str) -> None:
    if node.op.kind is Kind.SOURCE:
        return
    try:
        inferred = node.op.types([v.type for v in node.inputs], node.attrs)
    except GlasshouseError as error:
        _fail(node, error.message, after)
    declared = tuple(v.type for v in node.outputs)
    if inferred != declared:
        _fail(node, f"declared as {declared}, but its op gives {inferred}", after)


def _fail(node: Node, what: str, after: str) -> NoReturn:
    blame = f" after {after}" if after else ""
    raise GraphError(f"broken graph{blame}: {node}: {what}", where=str(node.origin.source))
