"""When a new value may be written over the old one: nothing reads the old one any more.

The kernel that computes the new value reads the old one at the same index alone, no later step
reads it, and for variables no later step can fail (a run that fails changes nothing).
"""

from __future__ import annotations

from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.lower.kernel.queries import may_share
from glasshouse.lower.program import Call, Program


class Timeline:
    """When the values of a program are read and written, by the numbers of steps."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.writer: dict[Value, int] = {}
        self.last_read: dict[Value, int] = {}
        self.last_risk = -1  # the last step that may end a run with an error
        for number, step in enumerate(program.steps):
            self.writer.update((v, number) for v in step.node.outputs)
            self.last_read.update((program.buffer_of(v), number) for v in step.node.inputs)
            if not isinstance(step, Call) or _may_fail(step.node):
                self.last_risk = number

    def can_overwrite(self, old: Value, new: Value, whole: bool = True) -> bool:
        """Whether a new value can be written over the old one; without `whole`, that of an argument
        which a run that fails may leave written to, as it would without us."""
        program, writer = self.program, self.writer.get(new)
        if writer is None or old in program.orders or new in program.orders or old.type != new.type:
            return False
        if (whole and writer <= self.last_risk) or self.last_read.get(old, -1) > writer:
            return False
        step = program.steps[writer]
        if any(v is not old and program.buffer_of(v) is old for v in step.node.inputs):
            return False  # through a reshape: other indices
        if not isinstance(step, Call) or old not in step.operands:
            return False
        if dict(step.starts())[old]:
            return False
        names = f"x{step.operands.index(old)}", f"y{step.outputs.index(new)}"
        return may_share(step.kernel, *names)


def _may_fail(node: Node) -> bool:
    """Whether a kernel looks up indices that may lie outside, which ends the run with an error."""
    return any(
        n.op.kind is not Kind.ELEMENTWISE and any(_is_integer(v.type.dtype) for v in n.inputs)
        for n in _members(node)
    )


def _members(node: Node) -> list[Node]:
    body = node.attrs.get("body")
    return list(body.nodes) if isinstance(body, Graph) else [node]


def _is_integer(dtype: DType) -> bool:
    return not dtype.is_float and dtype.storage.kind in "iu"
