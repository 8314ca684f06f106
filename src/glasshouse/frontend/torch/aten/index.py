"""How ATen's reading and writing at computed places is spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.arithmetic import as_index
from glasshouse.frontend.torch.aten.registry import Context, apply, aten, common, is_handle, scalar
from glasshouse.frontend.torch.aten.shape import over_parts
from glasshouse.ir.dim import bounds, product
from glasshouse.ir.dtype import bool_, int64, uint8
from glasshouse.ops import composite
from glasshouse.ops.create import arange_near, full_near
from glasshouse.ops.pieces import concat
from glasshouse.ops.shape import expanded, permuted, reshaped
from glasshouse.ops.shapes import axis_of, broadcast_shapes

_MOVERS = ("reshape", "expand", "permute", "slice", "cast")
_COUNTING = frozenset({("arange", 0), ("argmax", 0), ("argmin", 0), ("topk", 1), ("sort", 1)})
"""Outputs of ops that are never negative; of a topk and a sort, the second."""


def from_front(x: Any, besides: int | None = None) -> Any:
    """Indices for an op that refuses negative ones, unlike brackets: gather, embedding, losses.

    `besides` is a negative number that is meant. Numbers that cannot be negative stay as they are.
    """
    x = as_index(x)
    made = x.value
    while made.node.op.name in _MOVERS and made.type.dtype.bits >= 32:  # int8 of 200 is -56
        made = made.node.inputs[0]
    attrs = made.node.attrs
    upwards = not attrs.get("start") and attrs.get("step", 1) == 1
    counts = (made.node.op.name, made.index) in _COUNTING and upwards
    if counts or made.type.dtype in (bool_, uint8):
        return x
    return x.apply("from_front", besides=min(besides or 0, 0))


def within(x: Any, size: Any) -> Any:
    """Indices that are compared and not looked up; one outside of 0 to size - 1 ends the run."""
    return arange_near(x, size).apply("take", from_front(x))


def _is_mask(index: Any) -> bool:
    return (
        index is not None and index.dtype.bits in (1, 8) and index.dtype.name in ("bool", "uint8")
    )


@aten("index.Tensor", "_unsafe_index.Tensor")
def index(x: Any, indices: Any) -> Any:
    if any(_is_mask(i) for i in indices):
        raise Unsupported("the number of elements that a mask selects depends on data")
    key = tuple(slice(None) if i is None else as_index(i) for i in indices)
    return over_parts(composite.getitem)(x, key)


@aten("index_put", "_unsafe_index_put", "_index_put_impl")
def index_put(
    x: Any, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    if any(_is_mask(i) for i in indices):
        return _masked_put(x, indices, values, accumulate)
    places = [a for a, i in enumerate(indices) if i is not None]
    rest = [a for a in range(x.ndim) if a not in places]
    arrays = [as_index(indices[a]) for a in places]
    shape = broadcast_shapes([a.shape for a in arrays])
    front = permuted(x, [*places, *rest])
    # The axes of the indices stand first in `values` when a slice lies between them, and always in
    # what scatter_nd wants.
    values = values.cast(x.dtype)
    if places != list(range(places[0], places[0] + len(places))) or places[0] == 0:
        pass
    elif values.ndim > 0:
        full = (*[x.shape[a] for a in range(places[0])], *shape,
                *[x.shape[a] for a in rest[places[0] :]])  # fmt: skip
        values = expanded(values, full)
        k = places[0]
        order = [*range(k, k + len(shape)), *range(k), *range(k + len(shape), len(full))]
        values = permuted(values, order)
    out = composite.index_put(front, arrays, values, accumulate)
    order = [*places, *rest]
    return permuted(out, [order.index(a) for a in range(x.ndim)])


def _masked_put(x: Any, indices: Any, values: Any, accumulate: bool) -> Any:
    mask = indices[0]
    if len([i for i in indices if i is not None]) > 1 or mask is None:
        raise Unsupported("which value goes where depends on data")
    whole = _selected_from(values, mask)
    mask, rest = mask.cast(bool_), x.shape[mask.ndim :]
    values = values.cast(x.dtype)
    if whole is not None and whole.shape == x.shape:
        new = whole.cast(x.dtype)
    elif values.type.numel == 1:
        new = reshaped(values, ())
    elif values.ndim == len(rest) + 1:
        new = reshaped(_in_order(mask, values), (*mask.shape, *rest))
    else:
        new = values  # the same for every place
    mask = reshaped(mask, (*mask.shape, *[1] * len(rest)))
    return apply("where", mask, x + new if accumulate else new, x)


def _selected_from(values: Any, mask: Any) -> Any:
    """What this mask selects these values from, each of which so stands at its place (`x[mask] =
    y[mask]`); None for others."""
    node = values.value.node
    if node.op.name != "opaque" or node.attrs["target"] != "aten.index.Tensor":
        return None
    if node.attrs["arguments"] != "%0, [%1]" or node.inputs[1] is not mask.value:
        return None
    return values.builder.wrap(node.inputs[0])


def _in_order(mask: Any, values: Any) -> Any:
    """For each place of a mask a value: for its n-th True, row by row, the n-th of them."""
    flat = reshaped(mask, (product(mask.shape),)).cast(int64)
    numbers = flat.apply("cumsum", axis=0, exclusive=True)
    if bounds(values.shape[0])[0] < 1:  # none at all, and still something is read
        row = full_near(values, (1, *values.shape[1:]), 0, values.dtype)
        values = concat(values, row, axis=0)
    last = scalar(values, values.shape[0] - 1, int64)
    return values.apply("take", apply("minimum", numbers, last))


@aten("gather")
def gather(x: Any, dim: int, index: Any, sparse_grad: bool = False) -> Any:
    if index.type.numel == 0:  # of any rank
        return full_near(x, index.shape, 0, x.dtype)
    if not x.ndim:
        return expanded(x, index.shape)
    if not index.ndim:
        return reshaped(x.apply("take", reshaped(from_front(index), (1,)), axis=dim), ())
    return x.apply("gather", from_front(index), axis=dim)


def _around(indices: Any, size: Any) -> Any:
    """Indices modulo a size: this one op of PyTorch's lets them go round, from 5 in 5 to 0."""
    return as_index(indices).apply("remainder", scalar(indices, size, as_index(indices).dtype))


@aten("take_along_dim")
def take_along_dim(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        flat = reshaped(x, (product(x.shape),))
        places = reshaped(_around(indices, flat.shape[0]), (product(indices.shape),))
        return flat.apply("gather", places, axis=0)
    at = axis_of(dim, x.ndim)
    shape = broadcast_shapes(
        [tuple([1 if i == at else s for i, s in enumerate(t.shape)]) for t in (x, indices)]
    )
    wide = [x.shape[at] if i == at else s for i, s in enumerate(shape)]
    places = [indices.shape[at] if i == at else s for i, s in enumerate(shape)]
    return expanded(x, wide).apply(
        "gather", expanded(_around(indices, x.shape[at]), places), axis=at
    )


@aten("take")
def take(x: Any, index: Any) -> Any:
    return reshaped(x, (product(x.shape),)).apply("take", as_index(index))


@aten("put")
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    count = product(index.shape)
    flat = reshaped(x, (product(x.shape),)).apply(
        "scatter", reshaped(as_index(index), (count,)), reshaped(source, (count,)), axis=0,
        mode="add" if accumulate else "set",
    )  # fmt: skip
    return reshaped(flat, x.shape)


@aten("index_select", "index_select_copy")
def index_select(x: Any, dim: int, index: Any) -> Any:
    if not x.ndim:
        return x
    return x.apply("take", reshaped(from_front(index), (product(index.shape),)), axis=dim)


def times_used(x: Any, indices: Any, rows: Any) -> Any:
    """How often each row that is read is read, as numbers of the type of x."""
    counts = full_near(x, indices.shape, 1, x.dtype).apply("take_grad", indices, axis=0, size=rows)
    return composite.unsqueeze(counts.apply("take", indices), indices.ndim)


@aten("embedding", context=True)
def embedding(
    ctx: Context, weight: Any, indices: Any, padding_idx: int = -1, scale_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """In training, the row for padding is read like any other and never learns."""
    indices = from_front(indices)
    found = weight.apply("take", indices)
    if ctx.stopped is None:
        return found
    if scale_by_freq:
        times = times_used(found, indices, weight.shape[0])
        found = ctx.stopped(found) + (found - ctx.stopped(found)) / times
    if padding_idx < 0:
        return found
    padding = composite.unsqueeze(indices.apply("equal", padding_idx), indices.ndim)
    return apply("where", padding, ctx.stopped(found), found)


@aten("one_hot")
def one_hot(x: Any, classes: Any = -1) -> Any:
    if isinstance(classes, int) and classes < 0:
        raise Unsupported("the number of classes depends on data")
    return within(x, classes).apply("one_hot", depth=classes)


# ---------------------------------------------------------------------------------------- scatter
def scattered(x: Any, dim: int, index: Any, source: Any, mode: str) -> Any:
    """x with elements of the source set, added or multiplied along an axis."""
    index = from_front(index)
    if not is_handle(source):
        source = full_near(x, index.shape, source, x.dtype)
    if not x.ndim:
        meets = {"add": "add", "mul": "multiply"}.get(mode)
        return (x.apply(meets, source) if meets else source) if index.type.numel else x
    source = source.cast(x.dtype)
    for axis, (have, wanted) in enumerate(zip(source.shape, index.shape, strict=True)):
        if have != wanted:
            source = composite.narrow(source, axis, 0, wanted)
    return x.apply("scatter", index, source, axis=dim, mode=mode)


@aten("scatter")
def scatter(x: Any, dim: int, index: Any, source: Any) -> Any:
    return scattered(x, dim, index, source, "set")


@aten("scatter_add")
def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    return scattered(x, dim, index, source, "add")


def _along(x: Any, dim: int, index: Any, source: Any, mode: str) -> Any:
    """Whole slices written at the places of an axis."""
    if not x.ndim:
        source = reshaped(source, ())
        return x + source if mode == "add" else source
    at = axis_of(dim, x.ndim)
    places = reshaped(from_front(index), (product(index.shape), 1))
    shape = (*x.shape[:at], places.shape[0], *x.shape[at + 1 :])
    new = composite.unsqueeze(source, at) if source.ndim == x.ndim - 1 else source
    return x.apply("scatter_nd", places, expanded(new.cast(x.dtype), shape), mode=mode, axis=at)


@aten("index_add")
def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    return _along(x, dim, index, source if alpha == 1 else source * alpha, "add")


@aten("index_copy")
def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    return _along(x, dim, index, source, "set")


@aten("index_fill")
def index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    new = scalar(x, value, x.dtype)
    if not x.ndim:
        return new
    at = axis_of(dim, x.ndim)
    places = reshaped(as_index(index), (product(index.shape),))
    marks = full_near(x, (x.shape[at],), 0, int64)
    marks = marks.apply("scatter", places, full_near(x, places.shape, 1, int64), axis=0)
    row = reshaped(marks.apply("equal", 1), (x.shape[at], *[1] * (x.ndim - at - 1)))
    return apply("where", row, new, x)


# ------------------------------------------------------------------------------------------ masks
@aten("masked_fill")
def masked_fill(x: Any, mask: Any, value: Any) -> Any:
    value = value.cast(x.dtype) if is_handle(value) else value
    return apply("where", mask.cast(bool_), common(x, value, dtype=x.dtype)[1], x)


@aten("masked_scatter")
def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    """The n-th place where the mask is True takes the n-th element of the source."""
    shape = broadcast_shapes([x.shape, mask.shape])
    if mask.value.node.op.name == "expand":  # of tokens, over their features
        mask = mask.builder.wrap(mask.value.node.inputs[0])
    given = (*[1] * (len(shape) - mask.ndim), *mask.shape)
    at = len(shape)
    while at and given[at - 1] == 1:
        at -= 1
    row = shape[at:]  # of which a place takes all or nothing: the mask is the same along it
    before = source.ndim - len(row)
    if before < 0 or source.shape[before:] != row:  # the source has other rows: by elements
        at, row, before = len(shape), (), source.ndim
    mask = expanded(reshaped(mask.cast(bool_), given[:at]), shape[:at])
    values = reshaped(source, (product(source.shape[:before]), *row))
    new = reshaped(_in_order(mask, values), shape).cast(x.dtype)
    return apply("where", reshaped(mask, (*shape[:at], *[1] * len(row))), new, expanded(x, shape))


# --------------------------------------------------------------------------------- sorted tables
@aten("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    table: Any, x: Any, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Any = None,
) -> Any:  # fmt: skip
    if sorter is not None:
        table = table.apply("gather", as_index(sorter), axis=-1)
    x = x if is_handle(x) else scalar(table, x, table.dtype)
    reached = "greater" if right or side == "right" else "greater_equal"

    def before(row: Any, value: Any) -> Any:
        # Not "less": NaN is not below anything, and stands behind all of it.
        return apply(reached, *common(row, value)).apply("logical_not")

    size = table.shape[-1]
    if isinstance(size, int) and size:
        return _halved(table, x, size, before)
    values = composite.unsqueeze(x, x.ndim)
    row = table if table.ndim == 1 else composite.unsqueeze(table, table.ndim - 1)
    return before(row, values).cast(int64).apply("sum", axes=[-1])


def _halved(table: Any, x: Any, size: int, before: Callable[[Any, Any], Any]) -> Any:
    """How many elements of a sorted row lie before each value: a search by halves.

    The same elements are looked at as in PyTorch, so that rows with NaN give what it gives. A
    search that has ended looks at its last element again, and stays; only one that passed them all
    goes one further. Bounds begin as literals, not as tensors: compilers then prove every index and
    make vectors of the search (51 ns a value among 1000, now 7).
    """
    last = scalar(table, size - 1, int64)
    low: Any = scalar(table, 0, int64)
    high: Any = scalar(table, size, int64)
    middle: Any = scalar(table, size // 2, int64)
    for step in range(size.bit_length()):
        if step:
            middle = (low + high).apply("right_shift", scalar(table, 1, int64))
        if table.ndim == 1:
            row = table.apply("take", middle.apply("minimum", last), axis=0)
        elif step:
            row = table.apply("gather", middle.apply("minimum", last), axis=-1)
        else:
            row = composite.narrow(table, -1, size // 2, 1)
        behind = before(row, x)
        low = apply("where", behind, middle + 1, low)
        high = apply("where", behind, high, middle)
    return low.apply("minimum", scalar(table, size, int64))


@aten("bucketize")
def bucketize(x: Any, boundaries: Any, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(boundaries, x, out_int32, right)


_COMPARED = 64
"""Elements that each other one is compared with; among more it is searched for."""


@aten("isin.Tensor_Tensor")
def isin(elements: Any, test: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    elements, test = common(elements, composite.flatten(test))
    size = test.shape[0]
    if isinstance(size, int) and size > _COMPARED and elements.dtype is not bool_:
        # NaN is not below anything: those of the table stand last and are never passed, and one
        # that is searched for is unlike the first element.
        row = test.apply("sort", axis=0)[0]
        place = _halved(row, elements, size, lambda a, b: a.apply("less", b))
        near = row.apply("take", place.apply("minimum", scalar(row, size - 1, int64)), axis=0)
        found = near.apply("equal", elements)
    else:
        wide = composite.unsqueeze(elements, elements.ndim)
        found = wide.apply("equal", test).apply("any", axes=[-1])
    return found.apply("logical_not") if invert else found


@aten("nonzero", "nonzero_numpy", context=True)
def nonzero(ctx: Context, x: Any) -> Any:
    raise Unsupported("the number of elements depends on data")
