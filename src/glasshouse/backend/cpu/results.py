"""Renders what a routine does with its results: the lambda that takes each vector of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from glasshouse.backend.cpu.byte_tables import ByteTable, byte_tables, still_needed
from glasshouse.backend.cpu.fixed_values import fixed_values
from glasshouse.backend.cpu.in_steps import InSteps, Whole
from glasshouse.backend.cxx.elements import VECTOR_TYPE, Elements
from glasshouse.backend.cxx.text import KernelText
from glasshouse.backend.cxx.words import C_TYPE, size_text
from glasshouse.lower.epilogue import in_order
from glasshouse.lower.kernel.index import Loop
from glasshouse.lower.kernel.statement import Let, Parts, Tile


def hand_over(out: KernelText, tile: Tile, call: str, behind: str = "") -> None:
    """A call of a routine whose last argument is a lambda over its indices, a vector of results and
    its range `t`; `behind` are further arguments."""
    elements, tables = _begun(out, tile)
    fixed = _fixed(out, tile, tables)
    elements = replace(elements, single={let.name for let in fixed})
    taken = f"{VECTOR_TYPE[tile.dtype]} {tile.result}"
    out.add(f"{call}, [=]({_indices(tile.variables)}, {taken}, auto t) {{", tile.ops)
    out.indent += "  "
    for s in still_needed(tile.epilogue, tables) if tables else tile.epilogue:
        if s in fixed:
            continue
        if isinstance(s, Let) and s.name in tables:
            tables[s.name].look_up(out)
        else:
            elements.put(out, s)
    out.indent = out.indent[:-2]
    out.add(f"}}{behind});")


def hand_over_whole(out: KernelText, tile: Tile, call: str, whole: Whole) -> None:
    """The same for a routine that hands over sums of whole numbers, `whole`. Where it has rows and
    columns, what a column decides is a step of its own (`gh::ByColumns`)."""
    elements, tables = _begun(out, tile)
    epilogue = InSteps(out, tile, whole, tables)
    *rows, column = tile.variables
    if len(rows) == 1:
        out.add(f"{call}, gh::ByColumns{{[=]({_indices([column])}, auto t) {{", tile.ops)
        out.indent += "  "
        epilogue.put_columns(elements)
        taken = f"{_indices(rows)}, gh::vi whole"
        out.add(f"return [=]({taken}) __attribute__((always_inline)) {{", tile.ops)
        out.indent += "  "
        epilogue.put_rows(elements)
        out.indent = out.indent[:-2]
        out.add("};")
        out.indent = out.indent[:-2]
        out.add("}});")
        return
    out.add(f"{call}, [=]({_indices(tile.variables)}, gh::vi whole, auto t) {{", tile.ops)
    out.indent += "  "
    epilogue.put_columns(elements)
    epilogue.put_rows(elements)
    out.indent = out.indent[:-2]
    out.add("});")


def _begun(out: KernelText, tile: Tile) -> tuple[Elements, dict[str, ByteTable]]:
    """How elements are written; the tables of the epilogue, made."""
    elements, tables = Elements(_lanes(tile)), byte_tables(tile)
    for table in tables.values():
        table.make(out, elements)
    return elements, tables


def _fixed(out: KernelText, tile: Tile, tables: Collection[str]) -> list[Let]:
    """Writes what an epilogue would read for each vector anew in front of the call."""
    loops = [*tile.variables]
    for s in tile.epilogue:
        loops += [s.outer, s.inner] if isinstance(s, Parts) else []
    fixed = fixed_values(tile.epilogue, loops, [tile.result, *tables, *out.given, *out.quantizers])
    for let in fixed:
        Elements().put(out, let)
    return fixed


def _indices(loops: Sequence[Loop]) -> str:
    return ", ".join(f"long {x.name}" for x in loops)


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
