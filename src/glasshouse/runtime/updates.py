"""Decides where a run writes the new value of a variable, so that no run ends with copies.

In place of the old value, where nothing reads that any more: the kernel that computes the new one
reads the old one at the same index alone, no later step reads it, and no later step can fail.
Otherwise into a second buffer; the two take turns as old and new. What remains is copied: a new
value that is an output as well lies in the caller's memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Graph, Node, Value
from glasshouse.ir.op import Kind
from glasshouse.lower.program import Call, Program
from glasshouse.runtime.arrays import Array


class State:
    """The variables that runs change.

    `turns` are one or two ways to point into their memory, by place in the table of pointers, for
    the variables and for their new values; `turn` is the one that holds for the next run.
    """

    def __init__(self, program: Program, table: Mapping[Value, int]) -> None:
        graph = program.graph
        even: dict[int, Array] = {}
        odd: dict[int, Array] = {}
        self.copies: list[
            tuple[int, int, int]
        ] = []  # (place of a variable, of its new value, bytes)
        written: set[Value] = set()
        order = _Order(program)
        for variable, new in graph.updates.items():
            old = variable.output
            place, next_place = table[old], table[new]
            array = np.array(variable.attrs["data"], order="C")
            even[place] = odd[place] = array
            if new in written or new in graph.outputs or new.node.op.kind is Kind.SOURCE:
                self.copies.append((place, next_place, array.nbytes))
            elif order.can_overwrite(old, new):
                even[next_place] = odd[next_place] = array
            else:
                even[next_place] = odd[place] = np.empty_like(array)
                odd[next_place] = array
                even[place] = array
            written.add(new)
        differ = any(odd[p] is not a for p, a in even.items())
        self.turns = (even, odd) if differ else (even,)
        self.turn = 0

    def array(self, place: int) -> Array:
        """What a variable holds between two runs."""
        return self.turns[self.turn][place]

    def advance(self) -> None:
        """A run has ended well: what it wrote is what the next one reads."""
        self.turn = (self.turn + 1) % len(self.turns)


class _Order:
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

    With further outputs made of `old`, another loop might read it once more; not where the kernel's
    text names it once. (A loaded module has no texts: such variables take turns there.)
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
    return all(outer is new for inner, outer in pairs if inner in made) or _is_named_once(call, old)


def _is_named_once(call: Call, operand: Value) -> bool:
    number = call.inputs.index(operand)
    code = call.kernel.text.partition(") {")[2]
    return len(re.findall(rf"\bx{number}\b", code)) == 1


def _members(node: Node) -> list[Node]:
    body = node.attrs.get("body")
    return list(body.nodes) if isinstance(body, Graph) else [node]


def _is_integer(dtype: DType) -> bool:
    return not dtype.is_float and dtype.storage.kind in "iu"
