"""Kernel IR: typed loops, lets, stores, folds and tiles, which know no language and no machine.

All of it is immutable and compares by content. A kernel reads and writes `Buffer`s; a position in a
buffer is an `Index` (flat, in elements, in the order in which the axes lie).
"""

from glasshouse.lower.kernel.expr import (
    Apply,
    Choose,
    Compare,
    Expr,
    Load,
    Number,
    Position,
    Var,
)
from glasshouse.lower.kernel.index import ZERO, Checked, Derived, Index, Loop, SplitLoop, of
from glasshouse.lower.kernel.kernel import Buffer, Kernel
from glasshouse.lower.kernel.statement import (
    Fold,
    For,
    Form,
    Let,
    Operand,
    Parts,
    Role,
    Scratch,
    Statement,
    Store,
    Tile,
)

__all__ = [
    "ZERO",
    "Apply",
    "Buffer",
    "Checked",
    "Choose",
    "Compare",
    "Derived",
    "Expr",
    "Fold",
    "For",
    "Form",
    "Index",
    "Kernel",
    "Let",
    "Load",
    "Loop",
    "Number",
    "Operand",
    "Parts",
    "Position",
    "Role",
    "Scratch",
    "SplitLoop",
    "Statement",
    "Store",
    "Tile",
    "Var",
    "of",
]
