"""How a whole ONNX model becomes a graph: its inputs, weights, nodes and outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glasshouse.errors import CaptureError
from glasshouse.frontend.onnx import ops
from glasshouse.frontend.onnx.bodies import prune
from glasshouse.frontend.onnx.importer import Env, OnnxImporter
from glasshouse.frontend.onnx.item import Item, of_handle
from glasshouse.frontend.onnx.load import OnnxModel, load
from glasshouse.frontend.onnx.shapes import input_type
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Graph
from glasshouse.ir.origin import Origin
from glasshouse.ir.types import TensorType
from glasshouse.ir.verify import verify

ops.load()


@dataclass(frozen=True)
class Imported:
    """A graph and what is to be said about how it came to be."""

    graph: Graph
    refused: tuple[tuple[str, str], ...]  # ops that stayed opaque, with the reason
    wanted: tuple[str, ...]  # inputs whose elements ops would need as numbers: see `fixed`


def import_model(
    model: Any,
    inputs: Sequence[Any] = (),
    *,
    name: str = "",
    fixed: Mapping[str, Any] | None = None,
    allow_unknown: bool = False,
    **named: Any,
) -> Imported:
    """The graph of an ONNX model; see `trace`."""
    found = load(model, name)
    found.allows_unknown = allow_unknown
    builder = GraphBuilder(found.name)
    importer = OnnxImporter(found, builder, {}, opsets=found.opsets)
    graph = found.proto.graph
    importer.declare(graph)
    importer.initializers(graph)
    _inputs(found, builder, importer.env, list(inputs), named, dict(fixed or {}))
    importer.run(graph.node)
    names = [info.name for info in graph.output]
    handles = []
    for item, output in zip(importer.results(names), names, strict=True):
        if not isinstance(item, Item):
            raise CaptureError(f"output {output!r} is a sequence; tensors alone can be compiled")
        handles.append(item.handle)
    finished = builder.finish(*handles, names=names)
    prune(finished)
    verify(finished, "importing an ONNX model")
    return Imported(finished, tuple(found.refused), tuple(found.wanted))


def _inputs(
    model: OnnxModel,
    builder: GraphBuilder,
    env: Env,
    examples: list[Any],
    named: dict[str, Any],
    fixed: dict[str, Any],
) -> None:
    # Until IR version 4 initializers stood among the inputs too; they are weights all the same.
    infos = [i for i in model.proto.graph.input if i.name not in env]
    open_names = [i.name for i in infos if i.name not in fixed]
    given = dict(zip(open_names, examples, strict=False)) | named
    if len(examples) > len(open_names) or not set(given) <= set(open_names):
        extra = sorted(set(given) - set(open_names)) or [f"{len(examples)} examples"]
        raise CaptureError(
            f"{model.name or 'the model'} has no inputs for {', '.join(extra)}",
            hint=f"its inputs are {', '.join(open_names) or 'none'}",
        )
    for info in infos:
        example = _shape(given.get(info.name))
        with builder.at(Origin(name=info.name)):
            if info.name in fixed:
                type = input_type(info, model.symbols, np.shape(fixed[info.name]))
                data = to_storage(np.asarray(fixed[info.name]), type.dtype)
                env[info.name] = Item(builder, type.dtype, data=data, name=info.name)
            else:
                type = input_type(info, model.symbols, example)
                env[info.name] = of_handle(builder.input(type.dtype, type.shape, info.name))
    unknown = sorted(set(fixed) - {i.name for i in infos})
    if unknown:
        raise CaptureError(f"there is no input {', '.join(unknown)} to fix")


def _shape(example: Any) -> tuple[Dim, ...] | None:
    """The shape of an array, a tensor or a `spec`; None without an example."""
    if example is None:
        return None
    type = getattr(example, "type", None)
    if isinstance(type, TensorType):
        return type.shape
    return tuple(example.shape) if hasattr(example, "shape") else np.shape(example)
