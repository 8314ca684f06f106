"""The smallest graph that still shows a fault: the ops of one rewrite, or of one kernel, alone.

Their operands are what they were in the whole model, so the part is wrong for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from glasshouse.checking.blame import Blame
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.ir.sources import CONSTANT, INPUT
from glasshouse.numerics.widen import Array
from glasshouse.numpy_ref import run
from glasshouse.runtime.module import Module

Fails = Callable[[Graph, Sequence[Array]], bool]
GROWTH = 6
"""How often the producers of a part are added to it until it is wrong alone, too."""


@dataclass(frozen=True)
class WrongPart:
    """A graph, and inputs for which it is wrong."""

    graph: Graph
    inputs: list[Array]


def of_rewrite(found: Blame, inputs: Sequence[Array], fails: Fails) -> WrongPart | None:
    """The ops that the rewrites to blame replaced; with those before them until it shows."""
    graph = found.before
    values = _values(graph, inputs)
    ids = dict.fromkeys(i for step in found.rewrites for i in step.before)
    chosen = [n for i in ids if (n := graph.find(i)) is not None and n.op.kind is not Kind.SOURCE]
    for _ in range(GROWTH):
        part = _part(graph, chosen, values)
        if part is not None and fails(part.graph, part.inputs):
            return part
        more = [v.node for n in chosen for v in n.inputs if v.node.op.kind is not Kind.SOURCE]
        if not set(more) - set(chosen):
            break
        chosen = list(dict.fromkeys([*chosen, *more]))
    return None


def of_kernel(
    module: Module, kernel: Node, inputs: Sequence[Array], fails: Fails
) -> WrongPart | None:
    """The shortest beginning of a kernel's ops that fails; of these the last one, if it does."""
    operands: list[Array] = []

    def see(step: object, read: Callable[[Value], Array]) -> None:
        if getattr(step, "node", None) is kernel:
            operands.extend(np.array(read(v)) for v in kernel.inputs)

    with module.unchanged():
        module.watch(inputs, see)
    body, given = _body(kernel, operands)
    values = _values(body, given)
    ops = [n for n in body.nodes if n.op.kind is not Kind.SOURCE]
    low, high = 0, len(ops)
    whole = _part(body, ops, values, body.outputs)
    if whole is None or not fails(whole.graph, whole.inputs):
        return None
    best = whole
    while high - low > 1:  # what begins wrong stays wrong: the ops behind read it
        middle = (low + high) // 2
        part = _part(body, ops[:middle], values)
        if part is not None and fails(part.graph, part.inputs):
            high, best = middle, part
        else:
            low = middle
    alone = _part(body, ops[high - 1 : high], values)
    return alone if alone is not None and fails(alone.graph, alone.inputs) else best


def _body(kernel: Node, operands: Sequence[Array]) -> tuple[Graph, list[Array]]:
    body = kernel.attrs.get("body")
    if kernel.op.name == "fused" and isinstance(body, Graph):
        return body, list(operands)
    alone = Graph()
    twin: dict[Value, Value] = {}
    given: list[Array] = []
    for value, array in zip(kernel.inputs, operands, strict=True):
        if value in twin:
            continue
        attrs = {"dtype": value.type.dtype, "shape": value.type.shape, "name": ""}
        made = alone._add(INPUT, (), attrs, (value.type,), value.node.origin)
        alone.inputs.append(made.output)
        twin[value] = made.output
        given.append(array)
    copy = alone._add(
        kernel.op, tuple(twin[v] for v in kernel.inputs), kernel.attrs,
        [v.type for v in kernel.outputs], kernel.origin,
    )  # fmt: skip
    alone._set_outputs(copy.outputs)
    return alone, given


def _values(graph: Graph, inputs: Sequence[Array]) -> dict[Value, Array]:
    """What every value of a graph is, in the graph's own types."""
    seen: dict[Value, Array] = {}

    def observe(node: Node, outputs: Sequence[Array]) -> None:
        seen.update(zip(node.outputs, outputs, strict=True))

    run(graph, inputs, observer=observe)
    return seen


def _part(
    graph: Graph,
    chosen: Sequence[Node],
    values: dict[Value, Array],
    outputs: Sequence[Value] | None = None,
) -> WrongPart | None:
    """Some nodes as a graph: constants stay what they are, all else that they read is an input."""
    inside = set(chosen)
    ordered = [n for n in graph.nodes if n in inside]
    if not ordered:
        return None
    held = [v for n in ordered for v in n.outputs]
    leaving = [v for v in held if not v.users or not set(v.users) <= inside or graph.is_held(v)]
    results = list(outputs) if outputs is not None else leaving or list(ordered[-1].outputs)
    out, twin, given = Graph("smallest"), dict[Value, Value](), list[Array]()
    for node in ordered:
        for value in dict.fromkeys(node.inputs):
            if value in twin or value.node in inside:
                continue
            source = value.node
            if source.op is CONSTANT:
                made = out._add(CONSTANT, (), source.attrs, (value.type,), source.origin)
            else:
                attrs = {"dtype": value.type.dtype, "shape": value.type.shape, "name": ""}
                made = out._add(INPUT, (), attrs, (value.type,), source.origin)
                out.inputs.append(made.output)
                given.append(values[value])
            twin[value] = made.output
        types = [v.type for v in node.outputs]
        copy = out._add(
            node.op, tuple(twin[v] for v in node.inputs), node.attrs, types, node.origin
        )
        twin.update(zip(node.outputs, copy.outputs, strict=True))
    out._set_outputs([twin[v] for v in results if v in twin])
    return WrongPart(out, given)
