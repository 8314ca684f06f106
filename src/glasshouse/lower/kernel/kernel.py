"""A kernel: one function over buffers, as statements of kernel IR."""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.statement import Form, Statement, Tile

OPERAND, OUTPUT, TEMPORARY = "operand", "output", "temporary"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that a kernel reads or writes: so many elements in a row.

    `role`: operand (read), output (written, and read only where the kernel wrote before), or
    temporary (in the kernel's own workspace).
    """

    name: str
    dtype: DType
    size: Dim  # elements
    role: str
    constant: bool = False  # set where a target makes use of it


@dataclass(frozen=True, slots=True)
class Kernel:
    """One function, which knows no addresses: a `Call` binds it to values.

    Operands come first among the buffers, then outputs, in the order of the call; `ops` are the
    labels of the ops inside, in the order to which the positions in statements refer.
    """

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]
    ops: tuple[str, ...]
    variant: str = "loops"  # of its last tile
    workspace: Dim = 0  # bytes, for temporaries and scratch
    forms: tuple[Form, ...] = field(default=())  # of constants, one parameter each

    @property
    def tiles(self) -> tuple[Tile, ...]:
        return tuple(s for s in self.body if isinstance(s, Tile))

    def with_role(self, role: str) -> tuple[Buffer, ...]:
        return tuple(b for b in self.buffers if b.role == role)
