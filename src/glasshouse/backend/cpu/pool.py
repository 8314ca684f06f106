"""Decides how pooling is computed on CPUs: channels last, vectors over channels."""

from __future__ import annotations

from glasshouse.backend.cpu.results import take_results
from glasshouse.errors import Unsupported
from glasshouse.ir.dtype import bfloat16, float32
from glasshouse.ir.graph import Node
from glasshouse.lower.cxx import size_text
from glasshouse.lower.order import channels_last
from glasshouse.lower.writer import KernelWriter
from glasshouse.ops.pool_ref import pool_window


def pool(writer: KernelWriter, node: Node) -> None:
    """Write a maximum or mean over windows, with what follows it inlined where possible."""
    x, out = node.inputs[0], node.output
    spatial = x.type.rank - 2
    if x.type.dtype not in (float32, bfloat16) or spatial > 2:
        raise Unsupported(f"no pooling of {x.type}")
    attrs = node.attrs
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    order = channels_last(x.type.rank)
    source = writer.in_memory(x, order)
    lead, none = (1,) * (2 - spatial), (0,) * (2 - spatial)
    result = (*lead, *out.type.shape[2:])
    sizes = (*x.type.shape[:2], *lead, *x.type.shape[2:], *result)
    numbers = (
        *lead, *window.kernel, *lead, *window.stride, *none, *window.begins, *lead,
        *window.dilation, *none, *window.ends,
    )  # fmt: skip
    longs = ", ".join(size_text(d) for d in sizes)
    ints = ", ".join(size_text(d) for d in numbers)
    counts = "true" if attrs.get("count_include_pad", True) else "false"
    kind = "gh::MaxOp" if node.op.name == "max_pool" else "gh::SumOp"
    pixels = x.type.shape[0] * result[0] * result[1]
    body = take_results(writer, out, {"pixel": pixels, "c": x.type.shape[1]}, order)
    writer.lines.append(
        f"  gh::pool2d_nhwc<{kind}>(*ctx.pool, gh::PoolShape{{{longs}, {ints}, {counts}}}, "
        f"{source}, {body});"
    )
