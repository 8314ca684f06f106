"""How control flow and fused groups are written in ONNX: as bodies, or unfolded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.frontend.onnx.dtypes import TO_ONNX
from glasshouse.frontend.onnx.exporting.emitter import Emitter, export
from glasshouse.ir.graph import Graph, Node, Value


def info_of(e: Emitter, name: str, value: Value) -> Any:
    dims = [d if isinstance(d, int) else str(d) for d in value.type.shape]
    return e.onnx.helper.make_tensor_value_info(name, TO_ONNX[value.type.dtype], dims)


def _body(
    e: Emitter,
    graph: Graph,
    given: Sequence[str],
    own: Sequence[tuple[str, Value]],
    extra: Any = None,
) -> Any:
    """A GraphProto: `given` names the body's operands, `own` are those that it declares itself."""
    inner = Emitter(e)
    inner.names.update(zip(graph.inputs, given, strict=True))
    inner.run(graph)
    results = [inner.make("Identity", inner[v]) for v in graph.outputs]
    inputs = [info_of(e, name, value) for name, value in own]
    outputs = [info_of(e, name, v) for name, v in zip(results, graph.outputs, strict=True)]
    if extra is not None:
        inputs, outputs = extra(inner, inputs, outputs)
    name = e.fresh(graph.name or "body")
    return e.onnx.helper.make_graph(inner.nodes, name, inputs, outputs)


@export("cond")
def cond(e: Emitter, n: Node) -> Any:
    given = [e[v] for v in n.inputs[1:]]
    then, other = (_body(e, n.attrs[key], given, []) for key in ("then", "other"))
    return _listed(
        e.make("If", e[n.inputs[0]], count=len(n.outputs), then_branch=then, else_branch=other)
    )


@export("while_loop")
def while_loop(e: Emitter, n: Node) -> Any:
    carried = [e[v] for v in n.inputs]
    first = Emitter(e)
    first.names.update(zip(n.attrs["test"].inputs, carried, strict=True))
    first.run(n.attrs["test"])
    e.nodes += first.nodes
    begin = first[n.attrs["test"].outputs[0]]
    body = n.attrs["body"]
    names = [e.fresh("carried") for _ in carried]

    def with_test(inner: Emitter, inputs: list[Any], outputs: list[Any]) -> Any:
        test = n.attrs["test"]
        inner.names.update(zip(test.inputs, [o.name for o in outputs], strict=True))
        inner.run(test)
        helper = e.onnx.helper
        flag = inner.make("Identity", inner[test.outputs[0]])
        count = helper.make_tensor_value_info(e.fresh("iteration"), 7, [])
        before = helper.make_tensor_value_info(e.fresh("condition"), 9, [])
        return [count, before, *inputs], [helper.make_tensor_value_info(flag, 9, []), *outputs]

    graph = _body(e, body, names, list(zip(names, body.inputs, strict=True)), with_test)
    return _listed(e.make("Loop", "", begin, *carried, count=len(n.outputs), body=graph))


@export("scan")
def scan(e: Emitter, n: Node) -> Any:
    body, carries, scanned = n.attrs["body"], n.attrs["carries"], n.attrs["scanned"]
    own = [e.fresh("slice") for _ in range(carries + scanned)]
    whole = [e[v] for v in n.inputs[carries + scanned :]]
    given = [e[v] for v in n.inputs[: carries + scanned]]
    declared = list(zip(own, body.inputs, strict=False))
    if not scanned:
        # ONNX's Scan wants something to scan: numbers that nobody reads.
        length = e.make("Reshape", e.size(n.attrs["length"]), e.constant([]))
        given.append(e.make("Range", e.constant(0), length, e.constant(1)))

        def numbered(_: Emitter, inputs: list[Any], outputs: list[Any]) -> Any:
            number = e.onnx.helper.make_tensor_value_info(e.fresh("number"), 7, [])
            return [*inputs, number], outputs

        graph = _body(e, body, [*own, *whole], declared, numbered)
    else:
        graph = _body(e, body, [*own, *whole], declared)
    back = int(n.attrs["reverse"])
    collected = len(n.outputs) - carries
    return _listed(
        e.make(
            "Scan", *given, count=len(n.outputs), body=graph, num_scan_inputs=max(1, scanned),
            scan_input_directions=[back] * max(1, scanned),
            scan_output_directions=[back] * collected if collected else None,
        )
    )  # fmt: skip


@export("fused")
def fused(e: Emitter, n: Node) -> Any:
    """A kernel's ops again, each as it was before it was fused."""
    body = n.attrs["body"]
    e.names.update(zip(body.inputs, e.inputs(n), strict=True))
    e.run(body)
    return [e[v] for v in body.outputs]


def _listed(made: Any) -> list[str]:
    return made if isinstance(made, list) else [made]
