"""Decides how attention is computed on CPUs: one fused template, operands read where they lie."""

from __future__ import annotations

from glasshouse.backend.cpu.results import take_results
from glasshouse.errors import Unsupported
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import bfloat16, bool_, float32
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.cxx import C_TYPE, number_text, size_text
from glasshouse.lower.index import Loop
from glasshouse.lower.view import view_of
from glasshouse.lower.writer import KernelWriter


def attention(writer: KernelWriter, node: Node) -> None:
    """Write scaled dot-product attention over [batch, heads, length, dim]."""
    q, k, v, *rest = node.inputs
    dtype = q.type.dtype
    if dtype not in (float32, bfloat16) or k.type.dtype is not dtype or v.type.dtype is not dtype:
        raise Unsupported(f"no attention of {dtype}")
    if not q.type.rank == k.type.rank == v.type.rank == 4:
        raise Unsupported(f"no attention over {q.type.rank} dimensions")
    batch, heads, length, dim = q.type.shape
    if k.type.shape[0] != batch or v.type.shape[0] != batch:
        raise Unsupported("no attention with a broadcast batch")
    kv_heads, keys = k.type.shape[1], k.type.shape[2]
    width = v.type.shape[3]
    scale = node.attrs["scale"]
    if scale is None:
        if not isinstance(dim, int):
            raise Unsupported("no attention over a symbolic dim without a scale")
        scale = 1.0 / float(dim) ** 0.5
    operands = ", ".join(_strided(writer, x) for x in (q, k, v))
    mask = _mask(writer, rest[0], node.attrs["fill"]) if rest else "gh::NoMask{}"
    sizes = ", ".join(size_text(d) for d in (batch, heads, kv_heads, length, keys, dim, width))
    causal = "true" if node.attrs["causal"] else "false"
    plain = "false" if node.attrs["fill"] is None else "true"
    shape = (
        f"gh::AttentionShape{{{sizes}, {number_text(scale, float32)}, {causal}, false, {plain}}}"
    )
    variables = {"b": batch, "h": heads, "i": length, "d": width}
    body = take_results(writer, node.output, variables)
    kind = "gh::DotF32" if dtype is float32 else "gh::DotBF16"
    writer.lines.append(f"  gh::attention<{kind}>(*ctx.pool, {shape}, {operands}, {mask}, {body});")


def _strided(writer: KernelWriter, value: Value) -> str:
    """An operand as `gh::Strided`; its last axis must lie together."""
    loops = [Loop(f"a{axis}_", size) for axis, size in enumerate(value.type.shape)]
    view = view_of(writer, value, loops)
    last: Dim = view.stride(loops[3])
    if last != 1 and value.type.shape[3] != 1:
        raise Unsupported("the last axis of an operand of attention does not lie together")
    steps = ", ".join(size_text(view.stride(loop)) for loop in loops[:3])
    ctype = C_TYPE[value.type.dtype]
    return f"gh::Strided<{ctype}>{{{view.buffer} + {view.begin(*loops)}, {steps}}}"


def _mask(writer: KernelWriter, mask: Value, fill: float | None) -> str:
    """A lambda that masks a vector of scores; broadcast axes stay at 0."""
    names = ("b", "h", "i", "j")[4 - mask.type.rank :]
    loops = [Loop(n, d) for n, d in zip(names, mask.type.shape, strict=True)]
    view = view_of(writer, mask, loops)
    along = view.stride(loops[-1]) if mask.type.shape[-1] != 1 else 0
    if along not in (0, 1) or product(mask.type.shape) == 0:
        raise Unsupported("keys of the mask do not lie together")
    place = f"{view.buffer} + {view.position.text()}"
    if mask.type.dtype is bool_:
        keep = f"gh::load_mask({place}, t)" if along else f"gh::splat(*({place}))"
        low = number_text(float("-inf") if fill is None else fill, float32)
        changed = f"gh::select({keep}, x, gh::vf({low}))"
    elif mask.type.dtype in (float32, bfloat16):
        changed = f"x + gh::load({place}, t)" if along else f"x + gh::vf(gh::to_scalar(*({place})))"
    else:
        raise Unsupported(f"no mask of {mask.type.dtype}")
    return f"[=](long b, long h, long i, long j, gh::vf x, auto t) {{ return {changed}; }}"
