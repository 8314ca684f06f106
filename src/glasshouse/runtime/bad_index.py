"""The error for an index that lies outside of its tensor: which op looked it up, and where.

Generated code notes the first step that met one. A step may hold several ops that index; then all
of them are named.
"""

from __future__ import annotations

from glasshouse.errors import ExecutionError
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Program

BAD_INDEX = "an index lies outside of the tensor that it points into"


def bad_index(program: Program, step: int) -> ExecutionError:
    """The error for the step with this number, counted from 1."""
    node = program.steps[step - 1].node
    body = node.attrs.get("body")
    members = list(body.nodes) if isinstance(body, Graph) else [node]
    asked = [n for n in members if _indexes(n)] or [node]
    names = ", ".join(dict.fromkeys(n.op.label for n in asked))
    places = ", ".join(dict.fromkeys(str(n.origin.source) for n in asked if n.origin.source))
    return ExecutionError(
        f"{BAD_INDEX} ({names})", places,
        hint="negative indices count from the end in brackets alone: x[i]",
    )  # fmt: skip


def _indexes(node: Node) -> bool:
    return node.op.kind is not Kind.ELEMENTWISE and any(
        v.type.dtype.storage.kind in "iu" for v in node.inputs
    )
