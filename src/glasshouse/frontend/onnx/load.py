"""What is a model that can be compiled: a file or a ModelProto, readable and new enough."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from glasshouse.errors import CaptureError, FormatError
from glasshouse.frontend.onnx.bodies import bodies_of
from glasshouse.frontend.onnx.origins import OnnxSources
from glasshouse.frontend.onnx.package import onnx_package
from glasshouse.frontend.onnx.shapes import OnnxSymbols
from glasshouse.record.budget import Budget
from glasshouse.record.open_file import open_regular

# Models of opset 6 differ in how they broadcast; older ones in much more.
OLDEST = 6


@dataclass
class OnnxModel:
    """A model and what all its graphs share."""

    proto: Any
    folder: str | None
    name: str
    opsets: dict[str, int]
    symbols: OnnxSymbols = field(default_factory=OnnxSymbols)
    sources: OnnxSources = field(default_factory=OnnxSources)
    functions: dict[tuple[str, str, str], Any] = field(default_factory=dict)
    count: int = 0  # nodes that were imported, those of functions at every call
    inputs: frozenset[str] = frozenset()
    allows_unknown: bool = False  # ops that nobody here can compute stay, to be looked at
    refused: list[tuple[str, str]] = field(default_factory=list)  # (op, why it is opaque)
    wanted: dict[str, None] = field(default_factory=dict)  # inputs that ops need as numbers


def load(model: Any, name: str = "") -> OnnxModel:
    """The model in a file or in memory."""
    onnx = onnx_package()
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        folder = os.path.dirname(os.path.abspath(path))
        name = name or os.path.splitext(os.path.basename(path))[0]
        proto = _read(onnx, path)
    else:
        proto, path = model, "the model"
    if not isinstance(proto, onnx.ModelProto):
        raise CaptureError(
            f"{type(proto).__name__} cannot be traced", hint="an onnx.ModelProto or a path can"
        )
    if not proto.HasField("graph"):
        raise FormatError(f"{path}: not an ONNX model (it has no graph)")
    opsets = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in proto.opset_import}
    version = opsets.get("")
    changed = _changed(onnx, proto.graph, version)
    if changed:
        raise CaptureError(
            f"{path}: {changed} of opset {version} is too old, opset {OLDEST} and newer can be "
            "compiled",
            hint="onnx.version_converter.convert_version(model, 13) makes a newer one",
        )
    _count_bodies(proto, path)
    found = OnnxModel(proto, folder, name or proto.graph.name, opsets)
    found.inputs = frozenset(info.name for info in proto.graph.input)
    for function in proto.functions:
        found.functions[function.domain, function.name, function.overload] = function
    return found


def _count_bodies(proto: Any, path: str) -> None:
    """Each body becomes a graph of half a millisecond; a file of 7 MB may nest 131,070 of them."""
    budget = Budget(path, proto.ByteSize())
    waiting = [proto.graph]
    while waiting:
        budget.spend("graphs")
        for node in waiting.pop().node:
            waiting += bodies_of(node)


def _changed(onnx: Any, graph: Any, version: int | None) -> str:
    """An op that meant something else in a version before the oldest; "" if there is none."""
    if version is None or version >= OLDEST:
        return ""
    for node in graph.node:
        try:
            then = onnx.defs.get_schema(node.op_type, version, "").since_version
            if then != onnx.defs.get_schema(node.op_type, OLDEST, "").since_version:
                return str(node.op_type)
        except onnx.defs.SchemaError:
            return str(node.op_type)
    return ""


def _read(onnx: Any, path: str) -> Any:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        Budget(path, size).within("file_bytes", size)
        data = file.read(size)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except Exception as error:  # the class depends on which protobuf is installed
        raise FormatError(
            f"{path}: not an ONNX model, or cut off ({type(error).__name__})"
        ) from None
    if not proto.HasField("graph") or not (proto.ir_version or proto.opset_import):
        raise FormatError(f"{path}: not an ONNX model (it has no graph)")
    return proto
