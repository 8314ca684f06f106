"""ONNX models as graphs, and graphs as ONNX models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from glasshouse.frontend.onnx.model import Imported, import_model
from glasshouse.ir.graph import Graph

__all__ = ["Imported", "import_model", "trace"]


def trace(
    model: Any, inputs: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None
) -> Graph:
    """The graph of an ONNX file or ModelProto.

    Without inputs, named sizes stay symbolic; with examples (in order, or by name), sizes are
    theirs. `fixed={"axes": array}` makes inputs constants, `name` is the graph's. An op that ONNX
    does not know is refused; with `allow_unknown=True` it stays as an opaque node, which can be
    looked at and fails when it is run.
    """
    return import_model(model, inputs, **(keywords or {})).graph
