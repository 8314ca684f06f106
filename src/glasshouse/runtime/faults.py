"""The errors that end a call because of its data: an index outside of its tensor, an integer
divided by zero; each names the ops that may have met it, and their lines.

Generated code notes the first step with a fault (`Executable.run`). A step may hold several ops
that index or divide; then all of them are named.
"""

from __future__ import annotations

from collections.abc import Callable

from glasshouse.errors import ExecutionError
from glasshouse.ir.dtype import Category
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Program
from glasshouse.ops.elementwise import BY_ZERO

BAD_INDEX = "an index lies outside of the tensor that it points into"


def fault(program: Program, found: int) -> ExecutionError:
    """The error for what `Executable.run` gave."""
    node = program.steps[abs(found) - 1].node
    if found > 0:
        hint = "negative indices count from the end in brackets alone: x[i]"
        return _error(node, _indexes, BAD_INDEX, hint)
    return _error(node, _divides, BY_ZERO, "PyTorch refuses it too; keep zeros out of the divisor")


def _error(node: Node, concerns: Callable[[Node], bool], what: str, hint: str) -> ExecutionError:
    body = node.attrs.get("body")
    members = list(body.nodes) if isinstance(body, Graph) else [node]
    asked = [n for n in members if concerns(n)] or [node]
    names = ", ".join(dict.fromkeys(n.op.label for n in asked))
    places = ", ".join(dict.fromkeys(str(n.origin.source) for n in asked if n.origin.source))
    return ExecutionError(f"{what} ({names})", places, hint=hint)


def _indexes(node: Node) -> bool:
    return node.op.kind is not Kind.ELEMENTWISE and any(
        v.type.dtype.storage.kind in "iu" for v in node.inputs
    )


def _divides(node: Node) -> bool:
    integral = any(v.type.dtype.category is Category.INT for v in node.outputs)
    return integral and node.op.name in ("floor_divide", "remainder")
