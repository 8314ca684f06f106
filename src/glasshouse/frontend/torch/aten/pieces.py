"""How ATen's ops that join tensors, cut them and put borders around them are spelled."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten, common, is_static
from glasshouse.frontend.torch.aten.shape import over_pairs, over_parts
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.ir.dim import SymDim, floor_div
from glasshouse.ops import composite
from glasshouse.ops.pieces import concat, split
from glasshouse.ops.shapes import axis_of


@aten("cat", "concat", "concatenate")
def cat(tensors: Any, dim: int = 0) -> Any:
    """Empty vectors are skipped, whatever the rank of the others, as old code relies on."""
    if isinstance(tensors[0], Complex):
        at = axis_of(dim, tensors[0].ndim)
        if any(t.is_apart for t in tensors):
            both = zip(*(t.parts() for t in tensors), strict=True)
            return joined(*(concat(*parts, axis=at) for parts in both))
        return Complex(concat(*[t.pairs for t in tensors], axis=at))
    kept = [t for t in tensors if t.shape != (0,)] or list(tensors)
    same = common(*kept)
    return concat(*same, axis=dim) if len(same) > 1 else same[0]


@aten("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    if isinstance(tensors[0], Complex):
        at = axis_of(dim, tensors[0].ndim + 1)
        both = zip(*(t.parts() for t in tensors), strict=True)
        return joined(*(composite.stack(list(parts), at) for parts in both))
    return composite.stack(common(*tensors), dim)


def _at_least(xs: Any, rank: int) -> list[Any]:
    from glasshouse.frontend.torch.aten.shape import _at_least as lifted

    return [lifted(rank)(x) for x in xs]


@aten("hstack")
def hstack(tensors: Any) -> Any:
    parts = _at_least(tensors, 1)
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


aten("vstack", "row_stack")(lambda tensors: cat(_at_least(tensors, 2), 0))
aten("dstack")(lambda tensors: cat(_at_least(tensors, 3), 2))


@aten("column_stack")
def column_stack(tensors: Any) -> Any:
    return cat([composite.reshape(t, [-1, 1]) if t.ndim < 2 else t for t in tensors], 1)


@aten("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def split_every(x: Any, size: Any, dim: int = 0) -> Any:
    at = axis_of(dim, x.ndim)
    total = x.shape[at]
    if isinstance(total, SymDim) or isinstance(size, SymDim):
        count = floor_div(total, size)
        if not isinstance(count, int):
            raise Unsupported(f"the number of parts of size {size} of {total} is not known")
        sizes = [size] * count
        return tuple(split(x, axis=at, sizes=sizes)) if count > 1 else (x,)
    return composite.split_every(x, size, at) if size else (x,)


@aten("split.sizes", "split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes")
def split_sizes(x: Any, sizes: Any, dim: int = 0) -> Any:
    return tuple(split(x, axis=dim, sizes=list(sizes))) if len(sizes) > 1 else (x,)


@aten("chunk", "unsafe_chunk")
def chunk(x: Any, count: int, dim: int = 0) -> Any:
    return composite.chunk(x, count, dim)


@aten("tensor_split.sections")
def tensor_split(x: Any, sections: int, dim: int = 0) -> Any:
    at = axis_of(dim, x.ndim)
    total = x.shape[at]
    if not is_static(total):
        raise Unsupported("parts of an axis without a fixed size")
    small, more = divmod(total, sections)
    sizes = [small + 1] * more + [small] * (sections - more)
    return split_sizes(x, sizes, at)


@aten("tensor_split.indices")
def tensor_split_at(x: Any, indices: Any, dim: int = 0) -> Any:
    at = axis_of(dim, x.ndim)
    begins, ends = [0, *indices], [*indices, None]
    return tuple(slice_(x, at, b, e) for b, e in zip(begins, ends, strict=True))


def _parts(x: Any, given: Any, dim: int) -> Any:
    return tensor_split(x, given, dim) if isinstance(given, int) else tensor_split_at(x, given, dim)


aten("hsplit")(lambda x, given: _parts(x, given, 0 if x.ndim == 1 else 1))
aten("vsplit")(lambda x, given: _parts(x, given, 0))
aten("dsplit")(lambda x, given: _parts(x, given, 2))


@aten("unbind", "unbind_copy")
def unbind(x: Any, dim: int = 0) -> Any:
    return over_parts(composite.unstack)(x, dim)


@aten("slice", "slice_copy")
def slice_(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    at = axis_of(dim, x.ndim)
    last = None if isinstance(end, int) and end >= 2**62 else end
    entry = slice(0 if start is None else start, last, step)
    return over_pairs(lambda y: composite.getitem(y, (*[slice(None)] * at, entry)), x)


@aten("select", "select_copy")
def select(x: Any, dim: int, index: Any) -> Any:
    def one(part: Any) -> Any:
        at = axis_of(dim, part.ndim)
        if hasattr(index, "builder"):  # a number that was computed: a row of a table
            return part.apply("take", index.cast("int64"), axis=at)
        return composite.getitem(part, (*[slice(None)] * at, index))

    return over_parts(one)(x)


@aten("narrow", "narrow_copy")
def narrow(x: Any, dim: int, start: Any, length: Any) -> Any:
    at = axis_of(dim, x.ndim)
    if hasattr(start, "builder"):
        from glasshouse.ops.create import arange_near

        places = arange_near(x, length) + start.cast("int64")
        return x.apply("take", places, axis=at)
    begin = start + x.shape[at] if isinstance(start, int) and start < 0 else start
    return composite.narrow(x, at, begin, length)


@aten("slice_scatter")
def slice_scatter(
    x: Any, source: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    at = axis_of(dim, x.ndim)
    if step == 1:
        last = None if isinstance(end, int) and end >= 2**62 else end
        entry = slice(0 if start is None else start, last)
        return composite.setitem(x, (*[slice(None)] * at, entry), source)
    if not is_static(x.shape[at]):
        raise Unsupported("steps along an axis without a fixed size")
    places = range(*slice(start, end, step).indices(x.shape[at]))
    return _put(x, source, at, list(places))


def _put(x: Any, source: Any, axis: int, places: list[int]) -> Any:
    """x with the slices at these places of an axis replaced."""
    front = composite.moveaxis(x, axis, 0)
    new = composite.moveaxis(source.cast(x.dtype), axis, 0)
    return composite.moveaxis(composite.index_put(front, [places], new), 0, axis)


@aten("select_scatter")
def select_scatter(x: Any, source: Any, dim: int, index: Any) -> Any:
    return composite.setitem(x, (*[slice(None)] * axis_of(dim, x.ndim), index), source)


@aten("diagonal_scatter")
def diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    from glasshouse.ops.composite.shape import moveaxis

    front = moveaxis(x, [dim1, dim2], [0, 1])
    rows, columns = front.shape[:2]
    if not is_static(rows, columns):
        raise Unsupported("a diagonal of axes without fixed sizes")
    down, right = max(-offset, 0), max(offset, 0)
    count = max(0, min(rows - down, columns - right))
    places = [[i + down for i in range(count)], [i + right for i in range(count)]]
    new = composite.index_put(front, places, moveaxis(source, -1, 0))
    return moveaxis(new, [0, 1], [dim1, dim2])


# ---------------------------------------------------------------------------------------- borders
@aten("constant_pad_nd")
def constant_pad(x: Any, pad: Any, value: Any = 0) -> Any:
    if isinstance(x, Complex) and value == 0 and not x.is_apart:
        return Complex(composite.pad_last(x.pairs, [0, 0, *pad], "constant", 0.0))
    return over_parts(composite.pad_last)(x, list(pad), "constant", value)


@aten("pad")
def pad(x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    return composite.pad_last(x, list(pad), mode, 0.0 if value is None else value)


for _rank in (1, 2, 3):
    aten(f"reflection_pad{_rank}d")(lambda x, pad: composite.pad_last(x, list(pad), "reflect"))
    aten(f"replication_pad{_rank}d")(lambda x, pad: composite.pad_last(x, list(pad), "replicate"))
aten("_pad_circular")(lambda x, pad: composite.pad_last(x, list(pad), "circular"))
