"""How a graph becomes an ONNX model: what ONNX can say, under the names the graph has."""

from __future__ import annotations

import os
from typing import Any

from glasshouse.errors import GraphError, Unsupported
from glasshouse.frontend.onnx import exporting
from glasshouse.frontend.onnx.exporting.control import info_of
from glasshouse.frontend.onnx.exporting.emitter import Emitter
from glasshouse.frontend.onnx.package import onnx_package
from glasshouse.ir.dim import as_symbol
from glasshouse.ir.graph import Graph

OPSET = 21
IR_VERSION = 10
# A protobuf message ends at 2 GiB; weights beyond this lie in a file beside the model.
EXTERNAL_FROM = 1 << 30

exporting.load()


def export_model(graph: Graph) -> Any:
    """The graph as an onnx.ModelProto."""
    if graph.updates:
        raise Unsupported(
            "a graph that changes variables cannot be written as ONNX",
            hint="trace the model for inference: model.eval()",
        )
    onnx = onnx_package()
    emitter = Emitter()
    inputs = []
    for i, value in enumerate(graph.inputs):
        name = emitter.fresh(value.node.attrs["name"] or f"input_{i}")
        emitter.names[value] = name
        inputs.append(info_of(emitter, name, value))
        for axis, dim in enumerate(value.type.shape):
            symbol = as_symbol(dim)
            if symbol is not None:
                emitter.sizes.setdefault(symbol.name, (name, axis))
    wishes = [n or f"output_{i}" for i, n in enumerate(_padded(graph))]
    names = [emitter.fresh(wish) for wish in wishes]
    emitter.run(graph)
    emitter.node_of = None
    for value, name in zip(graph.outputs, names, strict=True):
        emitter.nodes.append(onnx.helper.make_node("Identity", [emitter[value]], [name], name=name))
    outputs = [info_of(emitter, n, v) for n, v in zip(names, graph.outputs, strict=True)]
    proto = onnx.helper.make_graph(
        emitter.nodes, graph.name or "graph", inputs, outputs, emitter.initializers
    )
    return onnx.helper.make_model(
        proto, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
        producer_name="glasshouse",
    )  # fmt: skip


def export_onnx(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph as an .onnx file; large weights go into a file beside it."""
    if not isinstance(graph, Graph):
        raise GraphError(
            f"{type(graph).__name__} is no graph", hint="gh.export_onnx(gh.trace(model, x), path)"
        )
    onnx, model = onnx_package(), export_model(graph)
    size = sum(len(t.raw_data) for t in model.graph.initializer)
    target = os.fspath(path)
    if size < EXTERNAL_FROM:
        onnx.save_model(model, target)
        return
    beside = os.path.basename(target) + ".data"
    onnx.save_model(model, target, save_as_external_data=True, location=beside)


def _padded(graph: Graph) -> list[str]:
    names = list(graph.output_names)
    return names + [""] * (len(graph.outputs) - len(names))
