"""Decides how a matrix product is computed on CPUs: packed weights, rows and columns, epilogues.

With a constant second operand its panels are packed once, when the module is loaded; otherwise
they are packed on the way. Batches that share the second operand are rows of one large product.
"""

from __future__ import annotations

from glasshouse.backend.cpu.int8 import int8_matmul
from glasshouse.backend.cpu.results import take_results, take_rows
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import bfloat16, float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.cxx import C_TYPE, size_text
from glasshouse.lower.index import Loop
from glasshouse.lower.view import batch_loops, view_of
from glasshouse.lower.writer import KernelWriter


def matmul(writer: KernelWriter, node: Node) -> None:
    """Write `node`, with what follows it inlined where that is possible."""
    x, y = node.inputs
    if x.type.dtype not in (float32, bfloat16) or y.type.dtype is not x.type.dtype:
        raise Unsupported(f"no matrix product of {x.type.dtype} and {y.type.dtype}")
    if int8_matmul(writer, node):
        return
    if x.type.rank < 2 or y.type.rank < 2:
        raise Unsupported("a product with a vector is a reduction")
    across = node.attrs["transpose_x"]
    batch_y = y.type.shape[:-2]
    kind = "gh::DotF32" if x.type.dtype is float32 else "gh::DotBF16"
    if all(d == 1 for d in batch_y) and not across:
        _rows_times_weights(writer, node, kind)
    else:
        _batched(writer, node, kind)


def _sizes(node: Node) -> tuple[Dim, Dim, Dim]:
    """Rows, columns and depth of one product."""
    x, y = node.inputs
    rows, depth = x.type.shape[-2:]
    if node.attrs["transpose_x"]:
        rows, depth = depth, rows
    return rows, y.type.shape[-2] if node.attrs["transpose_y"] else y.type.shape[-1], depth


def _rows_times_weights(writer: KernelWriter, node: Node, kind: str) -> None:
    """All rows of the batch are rows of one product."""
    x, y = node.inputs
    rows, columns, depth = _sizes(node)
    m = product(x.type.shape[:-2]) * rows
    left, right = writer.in_memory(x), writer.in_memory(y)
    source = f"gh::RowsA<{C_TYPE[x.type.dtype]}>{{{left}, {size_text(depth)}}}"
    sizes = ", ".join(size_text(d) for d in (m, columns, depth))
    row_step, column_step = (1, depth) if node.attrs["transpose_y"] else (columns, 1)
    if y in writer.constants:
        packed = _packed(writer, y, kind, row_step, column_step, depth, columns)
        body = take_rows(writer, node.output, {"m": m, "n": columns})
        writer.lines.append(f"  gh::gemm<{kind}>(*ctx.pool, {sizes}, {source}, {packed}, {body});")
        return
    work = _panel_space(writer, depth, columns)
    body = take_rows(writer, node.output, {"m": m, "n": columns})
    writer.lines.append(
        f"  gh::gemm_dynamic<{kind}>(*ctx.pool, {sizes}, {source}, {right}, "
        f"{size_text(row_step)}, {size_text(column_step)}, {work}, {body});"
    )


def _batched(writer: KernelWriter, node: Node, kind: str) -> None:
    """A product for each item of the batch; operands are read where they lie."""
    x, y = node.inputs
    rows, columns, depth = _sizes(node)
    batch = node.output.type.shape[:-2]
    loops, find = batch_loops("b", batch)
    m, n, k = Loop("m", rows), Loop("n", columns), Loop("k", depth)
    left = view_of(writer, x, _aligned(x, loops, (k, m) if node.attrs["transpose_x"] else (m, k)))
    right = view_of(writer, y, _aligned(y, loops, (n, k) if node.attrs["transpose_y"] else (k, n)))
    if left.stride(k) != 1 and left.stride(m) != 1:
        raise Unsupported("neither rows nor columns of the first operand lie together")
    by_rows = left.stride(k) == 1 or depth == 1
    step = size_text(left.stride(m) if by_rows else left.stride(k))
    source = f"gh::{'RowsA' if by_rows else 'ColsA'}<{C_TYPE[x.type.dtype]}>"
    variables = {"b": product(batch), "m": rows, "n": columns}
    body = take_results(writer, node.output, variables)
    lines = " ".join(find)
    sizes = ", ".join(size_text(d) for d in (product(batch), rows, columns, depth))
    begin = f"{left.buffer} + {left.begin(m, k)}"
    writer.lines.append(
        f"  gh::gemm_batched<{kind}>(*ctx.pool, {sizes}, "
        f"[=](long b) {{ {lines} return {source}{{{begin}, {step}}}; }}, "
        f"{right.buffer}, [=](long b) -> long {{ {lines} return {right.begin(n, k)}; }}, "
        f"{size_text(right.stride(k))}, {size_text(right.stride(n))}, {body});"
    )


def _aligned(operand: Value, batch: list[Loop], last: tuple[Loop, Loop]) -> list[Loop]:
    """The loops of an operand's axes; a batch axis of size 1 is broadcast and stays at 0."""
    own = operand.type.shape[:-2]
    loops = batch[len(batch) - len(own) :]
    return [Loop(x.name, 1) if d == 1 else x for x, d in zip(loops, own, strict=True)] + list(last)


def _packed(
    writer: KernelWriter,
    y: Value,
    kind: str,
    row_step: Dim,
    column_step: Dim,
    depth: Dim,
    columns: Dim,
) -> str:
    ctype = C_TYPE[y.type.dtype]
    k, n = size_text(depth), size_text(columns)
    text = (
        f"(gh::ThreadPool& threads, const {ctype}* source, void* out) "
        f"{{ gh::pack_b_parallel<{kind}>(threads, source, {size_text(row_step)}, "
        f"{size_text(column_step)}, {k}, {n}, out); }}"
    )
    return writer.prepared(y, text, f"gh::packed_b_bytes<{kind}>({k}, {n})")


def _panel_space(writer: KernelWriter, depth: Dim, columns: Dim) -> str:
    """Room for packed panels: columns rounded up to a panel of 32, depth to a unit of 4."""
    nbytes = (columns + 63) // 32 * 32 * (depth + 4) * 4
    return writer.scratch(nbytes, f"panels{len(writer.lines)}")
