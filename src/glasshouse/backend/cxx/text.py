"""The text of one kernel as it is rendered: lines of C++, each with the ops that it computes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from glasshouse.backend.cxx.small_floats import SmallFloats
from glasshouse.ir.dtype import NARROW, DType, float32
from glasshouse.lower.kernel.expr import Apply, Expr
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.statement import Form, Let, Ops, Tile


class KernelText:
    """Collects lines. `ops` has, for each line, the positions of its ops in the kernel's group."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.lines: list[str] = []
        self.ops: list[Ops] = []
        self.indent = "  "
        self._forms = {form: f"packed{i}" for i, form in enumerate(kernel.forms)}
        self._names = 0
        self.tile = 0  # the number of the tile that is rendered
        self.numbers: list[tuple[str, str, str]] = []  # arguments by value: type, name, value
        self.given: dict[str, str] = {}  # variables that hold such an argument
        self.quantizers: dict[str, str] = {}  # by the variable that holds what one gives
        self.whole: set[str] = set()  # of those, what stays as whole numbers until it is stored
        self.casts: dict[str, tuple[DType, Expr]] = {}  # by variable: the type, what was rounded
        self.small = SmallFloats()
        self.prepared: list[str] = []  # lines before all others

    def add(self, line: str, ops: Ops = ()) -> None:
        self.lines.append(self.indent + line)
        self.ops.append(ops)

    def note_cast(self, let: Let) -> None:
        """Remember a variable that is a float rounded to a narrow one."""
        self.casts.pop(let.name, None)
        made = let.value
        if isinstance(made, Apply) and made.op == "cast" and let.dtype in NARROW:
            (source,) = made.args
            if source.dtype is float32 or source.dtype in NARROW:
                self.casts[let.name] = let.dtype, source

    def pragma(self, line: str) -> None:
        self.lines.append(line)
        self.ops.append(())

    @contextmanager
    def block(self, opened: str, closed: str) -> Iterator[None]:
        """What stands between belongs to the line that opens: that computes what they compute."""
        at = len(self.lines)
        self.add(opened)
        self.indent += "  "
        yield
        self.indent = self.indent[:-2]
        self.ops[at] = tuple(sorted({op for ops in self.ops[at:] for op in ops}))
        self.add(closed)

    def fresh(self, word: str) -> str:
        """A name that nothing else in the kernel has."""
        self._names += 1
        return f"{word}{self._names}"

    def scratch(self, tile: Tile, name: str = "") -> str:
        """The variable that points to scratch of the tile: of this name, or the only one."""
        return f"{name or tile.scratch[0].name}{self.tile}"

    def number(self, ctype: str, value: str) -> str:
        """A further argument, which the caller hands over."""
        name = f"n{len(self.numbers)}_"
        self.numbers.append((ctype, name, value))
        return name

    def form(self, form: Form) -> str:
        """The parameter that points to a constant in another form."""
        return self._forms[form]
