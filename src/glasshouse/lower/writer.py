"""Decides how one kernel function is put together: parameters, temporaries, and steps in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from glasshouse.ir.dim import Dim
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.sources import CONSTANT
from glasshouse.lower.cxx import C_TYPE, size_text
from glasshouse.lower.loops import lower_loops
from glasshouse.lower.program import Packed
from glasshouse.lower.target import Target

ALIGN = 64


@dataclass
class KernelWriter:
    """Collects the text of a kernel that computes `body`.

    `buffers` maps each value that lies in memory, an operand, an output or a temporary, to the
    variable that points to it. Single-element constants stand in the code as numbers.
    """

    body: Graph
    target: Target
    buffers: dict[Value, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    outputs: dict[Value, str] = field(default_factory=dict)
    packed: list[tuple[Packed, str]] = field(default_factory=list)
    constants: frozenset[Value] = frozenset()  # operands that are constants of the whole graph
    workspace: Dim = 0
    variant: str = "loops"

    def temporary(self, value: Value) -> str:
        """A buffer inside this kernel's workspace."""
        name = f"tmp{value.node.id}_{value.index}"
        ctype = C_TYPE[value.type.dtype]
        self.lines.append(f"  {ctype}* {name} = ({ctype}*)(work + {size_text(self.workspace)});")
        self.workspace = self.workspace + rounded(value.type.nbytes)
        self.buffers[value] = name
        return name

    def scratch(self, nbytes: Dim, name: str, ctype: str = "char") -> str:
        """Unnamed memory of this kernel's workspace."""
        self.lines.append(f"  {ctype}* {name} = ({ctype}*)(work + {size_text(self.workspace)});")
        self.workspace = self.workspace + rounded(nbytes)
        return name

    def compute(self, values: Sequence[Value]) -> None:
        """Compute values with loops, into their output buffers or into temporaries."""
        wanted = [v for v in values if v not in self.buffers]
        places = [(v, self.outputs.get(v) or f"tmp{v.node.id}_{v.index}") for v in wanted]
        known = dict(self.buffers)
        for value in wanted:
            if value in self.outputs:
                self.buffers[value] = self.outputs[value]
            else:
                self.temporary(value)
        if places:
            self.lines += lower_loops(places, known, self.target)

    def in_memory(self, value: Value) -> str:
        """The buffer of a value, which is computed now if it does not lie in memory yet."""
        if value not in self.buffers:
            self.compute([value])
        return self.buffers[value]

    def place_for(self, value: Value) -> str:
        """The buffer to write a value into: its output buffer, or a new temporary."""
        if value in self.outputs:
            self.buffers[value] = self.outputs[value]
            return self.outputs[value]
        return self.temporary(value)

    def pack(self, source: Value, text: str, nbytes: str) -> str:
        """A constant in another form, made once when the module is loaded; gives its variable."""
        for existing, name in self.packed:
            if existing.source is source and existing.text == text:
                return name
        name = f"packed{len(self.packed)}"
        self.packed.append((Packed(source, text, nbytes), name))
        return name


def rounded(nbytes: Dim) -> Dim:
    """Up to the next multiple of 64, the width of a cache line and of the widest vector."""
    return (nbytes + (ALIGN - 1)) // ALIGN * ALIGN


def is_number(value: Value) -> bool:
    """Whether a value is a constant of one element, which stands in the code as a number."""
    data = value.node.attrs.get("data") if value.node.op is CONSTANT else None
    return data is not None and data.size == 1
