"""When a new value may be written over the old one: nothing reads the old one any more.

The kernel that computes the new value reads the old one at the same index alone, no later step
reads it, and no later step can fail (a run that fails changes nothing).
"""

from __future__ import annotations

from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.lower.kernel.queries import readers
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

    def can_overwrite(self, old: Value, new: Value) -> bool:
        """Whether a variable's new value can be written over the old one."""
        program, writer = self.program, self.writer.get(new)
        if writer is None or old in program.orders or new in program.orders or old.type != new.type:
            return False
        if writer <= self.last_risk or self.last_read.get(old, -1) > writer:
            return False
        step = program.steps[writer]
        if any(v is not old and program.buffer_of(v) is old for v in step.node.inputs):
            return False  # through a reshape: other indices
        return isinstance(step, Call) and _index_by_index(step, old, new)


def _may_fail(node: Node) -> bool:
    """Whether a kernel looks up indices that may lie outside, which ends the run with an error."""
    return any(
        n.op.kind is not Kind.ELEMENTWISE and any(_is_integer(v.type.dtype) for v in n.inputs)
        for n in _members(node)
    )


def _index_by_index(call: Call, old: Value, new: Value) -> bool:
    """Whether a kernel uses each element of `old` at its own index alone, before it is replaced.

    With further outputs made of `old`, another loop might read it once more; not where the kernel
    reads it once.
    """
    node = call.node
    body = node.attrs.get("body")
    inside = body.inputs if isinstance(body, Graph) else node.inputs
    made = {b for b, outer in zip(inside, node.inputs, strict=True) if outer is old}
    for member in _members(node):
        if not made.isdisjoint(member.inputs):
            same = all(v.type.shape == old.type.shape for v in member.outputs)
            if member.op.kind is not Kind.ELEMENTWISE or not same:
                return False
            made.update(member.outputs)
    outputs = body.outputs if isinstance(body, Graph) else node.outputs
    pairs = zip(outputs, node.outputs, strict=True)
    return all(outer is new for inner, outer in pairs if inner in made) or _is_read_once(call, old)


def _is_read_once(call: Call, operand: Value) -> bool:
    return len(readers(call.kernel, f"x{call.operands.index(operand)}")) == 1


def _members(node: Node) -> list[Node]:
    body = node.attrs.get("body")
    return list(body.nodes) if isinstance(body, Graph) else [node]


def _is_integer(dtype: DType) -> bool:
    return not dtype.is_float and dtype.storage.kind in "iu"
