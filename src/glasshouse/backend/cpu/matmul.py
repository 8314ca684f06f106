"""Decides how a matrix product is computed on CPUs: packed weights, rows and columns, epilogues.

With a constant second operand its panels are packed once, when the module is loaded; otherwise
they are packed on the way. Batches that share the second operand are rows of one large product.
"""

from __future__ import annotations

from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import bfloat16, float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.cxx import C_TYPE, size_text
from glasshouse.lower.epilogue import RESULT, Epilogue, epilogue
from glasshouse.lower.index import strides
from glasshouse.lower.writer import KernelWriter


def matmul(writer: KernelWriter, node: Node) -> None:
    """Write `node`, with what follows it inlined where that is possible."""
    x, y = node.inputs
    out = node.output
    if x.type.dtype not in (float32, bfloat16) or y.type.dtype is not x.type.dtype:
        raise Unsupported(f"no matrix product of {x.type.dtype} and {y.type.dtype}")
    if x.type.rank < 2 or y.type.rank < 2:
        raise Unsupported("a product with a vector is a reduction")
    across, down = node.attrs["transpose_x"], node.attrs["transpose_y"]
    rows, depth = x.type.shape[-2:][::-1] if across else x.type.shape[-2:]
    columns = y.type.shape[-2] if down else y.type.shape[-1]
    batch_x, batch_y = x.type.shape[:-2], y.type.shape[:-2]
    kind = "gh::DotF32" if x.type.dtype is float32 else "gh::DotBF16"
    left, right = writer.in_memory(x), writer.in_memory(y)
    shared = all(d == 1 for d in batch_y)
    if shared and not across:
        m: Dim = product(batch_x) * rows
        after = _after(writer, out, {"m": m, "n": columns})
        source = f"gh::RowsA<{C_TYPE[x.type.dtype]}>{{{left}, {size_text(depth)}}}"
        sizes = ", ".join(size_text(d) for d in (m, columns, depth))
        body = _function(after, "long m, long n", writer, out)
        row_step, column_step = (1, depth) if down else (columns, 1)
        if _is_weight(writer, y):
            packed = _packed(writer, y, kind, row_step, column_step, depth, columns)
            writer.lines.append(
                f"  gh::gemm<{kind}>(*ctx.pool, {sizes}, {source}, {packed}, {body});"
            )
        else:
            work = _panel_space(writer, depth, columns)
            writer.lines.append(
                f"  gh::gemm_dynamic<{kind}>(*ctx.pool, {sizes}, {source}, {right}, "
                f"{size_text(row_step)}, {size_text(column_step)}, {work}, {body});"
            )
        return
    _batched(writer, node, kind, left, right)


def _batched(writer: KernelWriter, node: Node, kind: str, left: str, right: str) -> None:
    x, y = node.inputs
    out = node.output
    across, down = node.attrs["transpose_x"], node.attrs["transpose_y"]
    rows, depth = x.type.shape[-2:][::-1] if across else x.type.shape[-2:]
    columns = y.type.shape[-2] if down else y.type.shape[-1]
    batch = out.type.shape[:-2]
    after = _after(writer, out, {"b": product(batch), "m": rows, "n": columns})
    body = _function(after, "long b, long m, long n", writer, out)
    kind_a = "ColsA" if across else "RowsA"
    ctype = C_TYPE[x.type.dtype]
    ld = size_text(rows if across else depth)
    begin_x = _batch_offset(x, batch, rows * depth)
    begin_y = _batch_offset(y, batch, depth * columns)
    row_step, column_step = (1, depth) if down else (columns, 1)
    writer.lines.append(
        f"  gh::gemm_batched<{kind}>(*ctx.pool, {size_text(product(batch))}, {size_text(rows)}, "
        f"{size_text(columns)}, {size_text(depth)}, "
        f"[=](long b) {{ return gh::{kind_a}<{ctype}>{{{left} + {begin_x}, {ld}}}; }}, {right}, "
        f"[=](long b) {{ return {begin_y}; }}, {size_text(row_step)}, {size_text(column_step)}, "
        f"{body});"
    )


def _batch_offset(operand: Value, batch: tuple[Dim, ...], item: Dim) -> str:
    """Where item `b` of the batch begins in an operand whose batch axes may be broadcast."""
    own = operand.type.shape[:-2]
    own = (1,) * (len(batch) - len(own)) + own
    if own == batch:
        return f"b * {size_text(item)}"
    parts: list[str] = []
    for size, mine, step, total in zip(batch, own, strides(own), strides(batch), strict=True):
        if mine != 1:
            place = f"(b / {size_text(total)} % {size_text(size)})"
            parts.append(f"{place} * {size_text(step * item)}")
    return " + ".join(parts) or "0L"


def _after(writer: KernelWriter, out: Value, variables: dict[str, Dim]) -> Epilogue | None:
    """What is inlined behind the product; None where its plain results are written."""
    try:
        return epilogue(writer, out, variables)
    except Unsupported:
        return None


def _function(after: Epilogue | None, parameters: str, writer: KernelWriter, out: Value) -> str:
    """The lambda that takes results."""
    head = f"[=]({parameters}, gh::vf {RESULT}, auto t) {{ "
    if after is not None:
        for value in after.outputs:
            writer.buffers[value] = writer.outputs[value]
        return head + " ".join(after.lines) + " }"
    place = writer.place_for(out)
    item = (
        f"b * {size_text(out.type.shape[-2] * out.type.shape[-1])} + "
        if "long b" in parameters
        else ""
    )
    return (
        head
        + f"gh::store({place} + {item}m * {size_text(out.type.shape[-1])} + n, {RESULT}, t); }}"
    )


def _is_weight(writer: KernelWriter, value: Value) -> bool:
    return value in writer.constants


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
    return writer.pack(y, text, f"gh::packed_b_bytes<{kind}>({k}, {n})")


def _panel_space(writer: KernelWriter, depth: Dim, columns: Dim) -> str:
    """Room for packed panels: columns rounded up to a panel of 32, depth to a unit of 4."""
    nbytes = (columns + 63) // 32 * 32 * (depth + 4) * 4
    return writer.scratch(nbytes, f"panels{len(writer.lines)}")
