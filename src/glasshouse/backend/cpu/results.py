"""Renders what a routine does with its results: the lambda that takes each vector of them."""

from __future__ import annotations

from glasshouse.backend.cpu.byte_tables import byte_tables, still_needed
from glasshouse.backend.cxx.elements import VECTOR_TYPE, Elements
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.lower.epilogue import in_order
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.statement import Let, Parts, Tile


def hand_over(out: KernelText, tile: Tile, call: str, behind: str = "", whole: str = "") -> None:
    """A call of a routine whose last argument is a lambda over its indices, a vector of results and
    its range `t`; `behind` are further arguments.

    A routine that sums whole numbers hands over `whole`; the expression given here makes real ones
    of them.
    """
    elements, tables = Elements(_lanes(tile)), byte_tables(tile)
    for table in tables.values():
        table.make(out, elements)
    parameters = ", ".join(f"long {x.name}" for x in tile.variables)
    taken = "gh::vi whole" if whole else f"{VECTOR_TYPE[tile.dtype]} {tile.result}"
    out.add(f"{call}, [=]({parameters}, {taken}, auto t) {{", tile.ops)
    out.indent += "  "
    if whole:
        out.add(f"const gh::vf {tile.result} = {whole};", tile.ops)
    for s in still_needed(tile.epilogue, tables) if tables else tile.epilogue:
        if isinstance(s, Let) and s.name in tables:
            tables[s.name].look_up(out)
        else:
            elements.put(out, s)
    out.indent = out.indent[:-2]
    out.add(f"}}{behind});")


def row_hint(tile: Tile) -> str:
    """Further arguments for routines over rows and columns: where rows go.

    They then own the lines before they write them: 2 % of a product with 512 multiplications.
    """
    store = in_order(tile)
    if store is None:
        return ""
    size = f"(long)sizeof({C_TYPE[store.dtype]})"
    columns = size_text(tile.variables[-1].extent)
    return f", gh::OutHint{{{store.buffer}, {columns} * {size}, {size}}}"


def _lanes(tile: Tile) -> Loop:
    """The variable that runs over lanes: the last one, or the inner part of it."""
    last = tile.variables[-1]
    for s in tile.epilogue:
        if isinstance(s, Parts) and s.loop == last:
            last = s.inner
    return last
