"""Decides how the functions of `library.h` are called: sorting, running sums, scattering."""

from __future__ import annotations

from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import float64, int64
from glasshouse.ir.graph import Node, Value
from glasshouse.lower.cxx import C_TYPE, COMPUTE_TYPE, size_text
from glasshouse.lower.index import strides
from glasshouse.lower.writer import KernelWriter
from glasshouse.ops.shapes import axis_of


def _lines(value: Value, axis: int) -> tuple[int, str]:
    """The axis, and the sizes outer, n, inner of a value seen as lines along it."""
    shape = value.type.shape
    if not shape:
        return 0, "1, 1, 1"
    at = axis_of(axis, len(shape))
    sizes: tuple[Dim, ...] = (product(shape[:at]), shape[at], product(shape[at + 1 :]))
    return at, ", ".join(size_text(d) for d in sizes)


def _flag(value: object) -> str:
    return "true" if value else "false"


def sort(writer: KernelWriter, node: Node) -> None:
    """Write a sort or the top k."""
    x = node.inputs[0]
    axis, lines = _lines(x, node.attrs["axis"])
    descending = node.attrs["descending"] if node.op.name == "sort" else node.attrs["largest"]
    size = x.type.shape[axis] if x.type.rank else 1
    k = size if node.op.name == "sort" else node.attrs["k"]
    source = writer.in_memory(x)
    values, indices = (writer.place_for(v) for v in node.outputs)
    writer.lines.append(
        f"  gh::topk_lines(ctx, {source}, {lines}, {size_text(k)}, {_flag(descending)}, "
        f"{values}, {indices});"
    )


def arg_extreme(writer: KernelWriter, node: Node) -> None:
    _, lines = _lines(node.inputs[0], node.attrs["axis"])
    source = writer.in_memory(node.inputs[0])
    out = writer.place_for(node.output)
    most = _flag(node.op.name == "argmax")
    writer.lines.append(f"  gh::arg_lines<{most}>(ctx, {source}, {lines}, {out});")


def cumsum(writer: KernelWriter, node: Node) -> None:
    _, lines = _lines(node.inputs[0], node.attrs["axis"])
    source = writer.in_memory(node.inputs[0])
    out = writer.place_for(node.output)
    flags = f"{_flag(node.attrs['exclusive'])}, {_flag(node.attrs['reverse'])}"
    wide = COMPUTE_TYPE[node.output.type.dtype]
    writer.lines.append(f"  gh::cumsum_lines<{wide}>(ctx, {source}, {lines}, {flags}, {out});")


def _copied(writer: KernelWriter, node: Node) -> str:
    """The output, filled with the first operand."""
    x = node.inputs[0]
    source = writer.in_memory(x)
    out = writer.place_for(node.output)
    writer.lines.append(f"  memcpy((void*){out}, {source}, {size_text(x.type.nbytes)});")
    return out


def _array(dims: tuple[Dim, ...]) -> str:
    numbers = ", ".join(f"(int64_t)({size_text(d)})" for d in dims) or "0"
    return f"(const int64_t[]){{{numbers}}}"


def scatter(writer: KernelWriter, node: Node) -> None:
    x, indices, updates = node.inputs
    places, news = writer.in_memory(indices), writer.in_memory(updates)
    out = _copied(writer, node)
    axis = axis_of(node.attrs["axis"], x.type.rank)
    adds = _flag(node.attrs["mode"] == "add")
    shape, steps = _array(indices.type.shape), _array(strides(x.type.shape))
    writer.lines.append(
        f"  gh::scatter_along<{adds}>(ctx, {places}, {news}, {x.type.rank}, {shape}, {steps}, "
        f"{axis}, {size_text(x.type.shape[axis])}, {out});"
    )


def scatter_nd(writer: KernelWriter, node: Node) -> None:
    x, indices, updates = node.inputs
    places, news = writer.in_memory(indices), writer.in_memory(updates)
    out = _copied(writer, node)
    depth = indices.type.shape[-1]
    assert isinstance(depth, int), "the op's shape rule wants it fixed"
    rows, width = product(indices.type.shape[:-1]), product(x.type.shape[depth:])
    sizes, steps = _array(x.type.shape[:depth]), _array(strides(x.type.shape)[:depth])
    adds = _flag(node.attrs["mode"] == "add")
    writer.lines.append(
        f"  gh::scatter_rows<{adds}>(ctx, {places}, {news}, {size_text(rows)}, {depth}, {sizes}, "
        f"{steps}, {size_text(width)}, {out});"
    )


def take_grad(writer: KernelWriter, node: Node) -> None:
    g, indices = node.inputs
    axis = node.attrs["axis"]
    gradient, places = writer.in_memory(g), writer.in_memory(indices)
    out = writer.place_for(node.output)
    shape = node.output.type.shape
    wide = "double" if g.type.dtype is float64 else "float" if g.type.dtype.is_float else "int64_t"
    width = (float64 if wide == "double" else int64).itemsize
    sums = writer.scratch(product(shape) * width, f"sums{len(writer.lines)}", wide)
    sizes = (
        product(shape[:axis]),
        product(indices.type.shape),
        shape[axis],
        product(shape[axis + 1 :]),
    )
    text = ", ".join(size_text(d) for d in sizes)
    ctype = C_TYPE[g.type.dtype]
    writer.lines.append(
        f"  gh::take_grad<{wide}, {ctype}>(ctx, {gradient}, {places}, {text}, {sums}, {out});"
    )
