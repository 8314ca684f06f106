"""The operands of a product as the loaders of `gemm.cuh` see them: where each lies, over its rows
or columns and its depth."""

from __future__ import annotations

from dataclasses import dataclass

from glasshouse.backend.cuda.routine import lies_whole
from glasshouse.backend.cxx.words import C_TYPE, index_text, size_text
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.lower.kernel.index import Index, Loop, of
from glasshouse.lower.kernel.queries import view
from glasshouse.lower.kernel.statement import Operand, Tile


@dataclass(frozen=True)
class ProductSizes:
    """The loops of a product: rows, columns, depth; and how many matrices there are."""

    loops: tuple[Loop, Loop, Loop]
    batch: Dim


@dataclass(frozen=True)
class Matrix:
    """An operand as a loader of `gemm.cuh`: where it lies, over its rows or columns and depth."""

    buffer: str
    dtype: DType
    index: Index
    outer: Loop
    depth: Loop

    @property
    def _steps(self) -> tuple[Dim, Dim]:
        return self.index.coefficient(self.outer), self.index.coefficient(self.depth)

    @property
    def across(self) -> bool:
        outer, depth = self._steps
        return depth != 1 and outer == 1

    @property
    def whole(self) -> bool:
        along, other = (self.outer, self.depth) if self.across else (self.depth, self.outer)
        run = 2 if self.dtype.itemsize == 8 else 8
        return lies_whole(self.index, along, run) and other.extent != 0

    @property
    def rows_apart(self) -> int | None:
        """How far its rows are apart, along the depth or across it, where they begin with the
        buffer's first element and lie together; None for another matrix."""
        outer, inner = (self.depth, self.outer) if self.across else (self.outer, self.depth)
        step = self.index.coefficient(outer)
        lies = self.index == of(outer) * step + of(inner)
        return step if lies and isinstance(step, int) else None

    @property
    def is_fetched(self) -> bool:
        """Whether the copy engine can bring its rows from where they lie: aligned, one behind the
        other from the buffer's first element on."""
        plain = self.index == row_major(self.outer, self.depth)
        return not self.across and self.whole and plain

    def text(self) -> str:
        kind = f"gh::Matrix<{C_TYPE[self.dtype]}, {flag(self.across)}, {flag(self.whole)}>"
        place = f"{self.buffer} + {index_text(self.index.without(self.outer, self.depth))}"
        steps = ", ".join(map(size_text, self._steps))
        extents = ", ".join(f"(int){size_text(x.extent)}" for x in (self.outer, self.depth))
        return f"{kind}{{{place}, {steps}, {extents}}}"


def matrices_of(
    operands: tuple[Operand, ...], sizes: ProductSizes, together: bool, turned: bool
) -> tuple[Matrix, Matrix]:
    """Both operands; those of one large product lie whole, row by row."""
    m, n, k = sizes.loops
    left, right = (view(o) for o in operands)
    at, bt = left.index, right.index
    if together:
        at = row_major(m, k)
        bt = row_major(n, k) if turned else row_major(k, n)
    return (
        Matrix(left.buffer, left.dtype, at, m, k),
        Matrix(right.buffer, right.dtype, bt, n, k),
    )


def row_major(outer: Loop, inner: Loop) -> Index:
    return of(outer) * inner.extent + of(inner)


def product_sizes(tile: Tile) -> ProductSizes:
    depth = tile.operands[0].shape[-2 if tile.attr("transpose_x") else -1]
    *lead, m, n = tile.variables
    batch = lead[0].extent if lead else 1
    return ProductSizes((Loop("m", m.extent), Loop("n", n.extent), Loop("k", depth)), batch)


def flag(value: bool) -> str:
    return "true" if value else "false"
