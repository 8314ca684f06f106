"""Which values are numbers before the model runs: small ones made from constants alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import GlasshouseError
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import finish, from_storage
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.sources import CONSTANT

Array = np.ndarray[Any, Any]
# Shape arithmetic is a few dozen elements; what is larger is a weight, and left to the passes.
MAX_ELEMENTS = 4096
_NEVER = ("input", "variable", "opaque", "uniform", "normal", "dropout")


class Folder:
    """Remembers what each value is, or that it is not known."""

    def __init__(self) -> None:
        self.found: dict[Value, Array | None] = {}

    def value(self, asked: Value) -> Array | None:
        """The elements of a value, if constants alone determine them."""
        pending = [asked]
        while pending:
            value = pending[-1]
            if value in self.found:
                pending.pop()
                continue
            node = value.node
            if not _may(node):
                self.found.update(dict.fromkeys(node.outputs))
                continue
            missing = [v for v in node.inputs if v not in self.found]
            if missing:
                pending += missing
                continue
            self._run(node)
        return self.found[asked]

    def _run(self, node: Node) -> None:
        operands = [self.found[v] for v in node.inputs]
        results: list[Array | None] = [None] * len(node.outputs)
        if node.op is CONSTANT:
            if node.attrs["data"] is not None:
                results = [from_storage(np.asarray(node.attrs["data"]), node.output.type.dtype)]
        elif all(o is not None for o in operands):
            try:
                with np.errstate(all="ignore"):
                    out = node.op.ref(*operands, **node.attrs)
                many = out if isinstance(out, tuple) else (out,)
                results = [finish(a, v.type.dtype) for a, v in zip(many, node.outputs, strict=True)]
            except (GlasshouseError, ValueError, TypeError, IndexError):
                pass
        self.found.update(zip(node.outputs, results, strict=True))


def _may(node: Node) -> bool:
    if node.op.name in _NEVER:
        return False
    for value in node.outputs:
        size = value.type.numel
        if isinstance(size, SymDim) or size > MAX_ELEMENTS:
            return False
    return not any(_symbolic(a) for a in node.attrs.values())


def _symbolic(attr: Any) -> bool:
    if isinstance(attr, tuple):
        return any(_symbolic(a) for a in attr)
    return isinstance(attr, (SymDim, Graph))
