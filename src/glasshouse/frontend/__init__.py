"""Models of other systems: which frontend reads what, by type or by the ending of a path."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from glasshouse.errors import CaptureError, Unsupported
from glasshouse.ir.graph import Graph

__all__ = ["trace"]


def trace(
    model: Any, inputs: Sequence[Any] = (), keywords: Mapping[str, Any] | None = None
) -> Graph:
    """The graph of a PyTorch model or program, an ONNX model, or the file of one."""
    options = dict(keywords or {})
    ending = os.path.splitext(os.fspath(model))[1] if isinstance(model, (str, os.PathLike)) else ""
    if ending == ".onnx" or type(model).__module__.split(".")[0] == "onnx":
        graph: Graph = import_module("glasshouse.frontend.onnx").trace(model, inputs, options)
        return graph
    if ending and ending != ".pt2":
        raise CaptureError(
            f"{os.fspath(model)!r} cannot be traced", hint="files that end in .onnx and .pt2 can"
        )
    if find_spec("torch") is None:
        raise Unsupported(
            f"{os.fspath(model)!r}: compiling an exported program needs PyTorch",
            hint="pip install 'glasshouse[torch]'; glasshouse view opens it without",
        )
    from glasshouse.frontend.torch import trace as trace_torch

    return trace_torch(model, inputs, options)
