"""How ATen's views and other changes of shape are spelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from glasshouse.errors import Unsupported
from glasshouse.frontend.torch.aten.registry import aten, axes_or_none, is_static
from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.ir.dim import Dim, product
from glasshouse.ir.dtype import DType
from glasshouse.ops import composite
from glasshouse.ops.shape import expanded, permuted, reshaped
from glasshouse.ops.shapes import axis_of


def over_pairs(change: Callable[[Any], Any], x: Any) -> Any:
    """A change of leading axes alone leaves the pairs of a complex tensor together."""
    if isinstance(x, Complex) and x.is_apart:
        return joined(*(change(p) for p in x.parts()))
    return Complex(change(x.pairs)) if isinstance(x, Complex) else change(x)


def over_parts(spelling: Callable[..., Any]) -> Callable[..., Any]:
    """A change of shape of a complex tensor is one of both of its parts."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Complex):
            return spelling(x, *args, **kwargs)
        real, imaginary = (spelling(p, *args, **kwargs) for p in x.parts())
        if isinstance(real, (list, tuple)):
            return tuple(joined(*pair) for pair in zip(real, imaginary, strict=True))
        return joined(real, imaginary)

    return call


def _view(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(spelling: Callable[..., Any]) -> Callable[..., Any]:
        aten(*names)(over_parts(spelling))
        return spelling

    return register


@_view("view.default", "reshape", "_unsafe_view", "view_copy", "_reshape_alias", "reshape_copy")
def reshape(x: Any, size: Any, *_: Any) -> Any:
    wanted = list(size)
    if wanted.count(-1) == 1 and 0 in x.shape and 0 not in wanted:
        # Nothing divided by something is nothing; composite.reshape would take it as such.
        wanted[wanted.index(-1)] = 0
    return composite.reshape(x, wanted)


@aten("view.dtype")
def view_dtype(x: Any, dtype: DType) -> Any:
    if dtype is x.dtype:
        return x
    raise Unsupported("bits read as another element type")


aten("view_as", "reshape_as")(lambda x, other: reshaped(x, other.shape))


@aten("permute", "permute_copy")
def permute(x: Any, dims: Any) -> Any:
    axes = [axis_of(d, x.ndim) for d in dims]
    return over_pairs(lambda y: permuted(y, [*axes, *range(len(axes), y.ndim)]), x)


@aten("transpose", "transpose_copy", "swapaxes", "swapdims")
def transpose(x: Any, a: int, b: int) -> Any:
    if not x.ndim:
        return x
    first, second = axis_of(a, x.ndim), axis_of(b, x.ndim)
    return over_pairs(lambda y: composite.transpose(y, first, second), x)


@_view("t", "t_copy")
def t(x: Any) -> Any:
    return x if x.ndim < 2 else composite.transpose(x, 0, 1)


@aten("numpy_T")
def numpy_t(x: Any) -> Any:
    return permuted(x, list(range(x.ndim))[::-1])


aten("mT", "adjoint", "mH")(lambda x: composite.transpose(x, -2, -1))
aten("movedim", "moveaxis")(composite.moveaxis)


@_view("expand", "expand_copy", "broadcast_to")
def expand(x: Any, size: Any, implicit: bool = False) -> Any:
    return composite.broadcast_to(x, list(size))


aten("expand_as")(lambda x, other: expanded(x, other.shape))


@_view("squeeze", "squeeze_copy")
def squeeze(x: Any, dim: Any = None) -> Any:
    if dim is None:
        return composite.squeeze(x)
    axes = list(dim) if isinstance(dim, (list, tuple)) else [dim]
    return composite.squeeze(x, axes) if x.ndim else x


@_view("unsqueeze", "unsqueeze_copy")
def unsqueeze(x: Any, dim: int) -> Any:
    return composite.unsqueeze(x, dim)


@_view("flatten")
def flatten(x: Any, start: int = 0, end: int = -1) -> Any:
    return composite.flatten(x, start, end)


aten("ravel")(composite.flatten)
aten("unflatten.int")(lambda x, dim, sizes: composite.unflatten(x, dim, list(sizes)))


@aten("tile")
def tile(x: Any, dims: Any) -> Any:
    return composite.tile(x, list(dims))


@aten("repeat")
def repeat(x: Any, repeats: Any) -> Any:
    return composite.tile(x, list(repeats)) if len(repeats) else x


@aten("repeat_interleave.self_int")
def repeat_interleave(x: Any, repeats: Any, dim: int | None = None, output_size: Any = None) -> Any:
    return composite.repeat_interleave(x, repeats, dim)


@aten("flip")
def flip(x: Any, dims: Any) -> Any:
    return x.apply("flip", axes=list(dims)) if x.ndim and dims else x


aten("fliplr")(lambda x: x.apply("flip", axes=[1]))
aten("flipud")(lambda x: x.apply("flip", axes=[0]))


@aten("roll")
def roll(x: Any, shifts: Any, dims: Any = ()) -> Any:
    moves = list(shifts) if isinstance(shifts, (list, tuple)) else [shifts]
    if dims:
        return x.apply("roll", shifts=moves, axes=axes_or_none(dims))
    flat = reshaped(x, (product(x.shape),))
    return reshaped(flat.apply("roll", shifts=moves, axes=[0]), x.shape)


@aten("rot90")
def rot90(x: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    a, b = (axis_of(d, x.ndim) for d in dims)
    turns = k % 4
    if turns == 2:
        return x.apply("flip", axes=[a, b])
    if turns == 1:
        return composite.transpose(x.apply("flip", axes=[b]), a, b)
    return composite.transpose(x, a, b).apply("flip", axes=[b]) if turns == 3 else x


aten("pixel_shuffle")(composite.pixel_shuffle)
aten("pixel_unshuffle")(composite.pixel_unshuffle)


@aten("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(x: Any, groups: int) -> Any:
    batch, channels, *rest = x.shape
    apart = composite.reshape(x, [batch, groups, channels // groups, *rest])
    return reshaped(composite.transpose(apart, 1, 2), x.shape)


@aten("unfold", "unfold_copy")
def unfold(x: Any, dim: int, size: int, step: int) -> Any:
    if not x.ndim:
        return reshaped(x, (size,))
    return composite.unfold(x, dim, size, step)


@aten("diagonal", "diagonal_copy", "linalg_diagonal")
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return composite.diagonal(x, offset, dim1, dim2)


@aten("diag")
def diag(x: Any, diagonal: int = 0) -> Any:
    return diag_embed(x, diagonal) if x.ndim == 1 else composite.diagonal(x, diagonal)


@aten("diag_embed")
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    rank = x.ndim + 1
    a, b = axis_of(dim1, rank), axis_of(dim2, rank)
    size = x.shape[-1] + abs(offset)
    # The vector lies along the columns, moved by the offset, and is kept on the diagonal alone.
    before, after = (offset, 0) if offset > 0 else (0, -offset)
    row = composite.unsqueeze(composite.pad_last(x, [before, after]), -2)
    shape: tuple[Dim, ...] = (*x.shape[:-1], size, size)
    band = expanded(row, shape).apply("triangle", diagonal=offset)
    out = band.apply("triangle", diagonal=offset, upper=True)
    return composite.moveaxis(out, [rank - 2, rank - 1], [a, b])


aten("diagflat")(lambda x, offset=0: diag_embed(composite.flatten(x), offset))
aten("trace")(lambda x: composite.diagonal(x).apply("sum"))


@aten("as_strided", "as_strided_copy")
def as_strided(x: Any, size: Any, stride: Any, offset: Any = None) -> Any:
    """Reads x as if it lay in memory row by row."""
    if not is_static(*x.shape, *size, *stride) or not (offset is None or is_static(offset)):
        raise Unsupported("strides that depend on sizes")
    flat = reshaped(x, (product(x.shape),))
    if not all(size):
        return reshaped(composite.narrow(flat, 0, 0, 0), tuple(size))
    # Each axis is one of windows that hold all that the axes behind it reach.
    reach = [(n - 1) * s for n, s in zip(size, stride, strict=True)]
    out = composite.narrow(flat, 0, offset or 0, sum(reach) + 1)
    for axis, step in enumerate(stride):
        behind = sum(reach[axis + 1 :]) + 1
        if reach[axis]:
            out = out.apply("windows", axis=axis, size=behind, step=step)
        else:
            out = reshaped(out, (*size[:axis], 1, behind))
            out = expanded(out, (*size[: axis + 1], behind))
    return reshaped(out, tuple(size))


@aten("resize")
def resize(x: Any, size: Any, memory_format: Any = None) -> Any:
    """The first elements, row by row, in another shape."""
    count, wanted = product(x.shape), product(tuple(size))
    if not is_static(*x.shape, *size) or wanted > count:  # type: ignore[operator]  # both ints
        raise Unsupported("a tensor made larger: what is new in it is not defined")
    flat = reshaped(x, (count,))
    return reshaped(composite.narrow(flat, 0, 0, wanted), tuple(size))


def _at_least(rank: int) -> Callable[[Any], Any]:
    def one(x: Any) -> Any:
        if x.ndim >= rank:
            return x
        if rank == 3 and x.ndim == 2:
            return reshaped(x, (*x.shape, 1))
        shape = {0: [1] * rank, 1: [1, *x.shape, 1][:rank]}[x.ndim]
        return reshaped(x, shape)

    return lambda xs: tuple(map(one, xs)) if isinstance(xs, (list, tuple)) else one(xs)


for _rank in (1, 2, 3):
    aten(f"atleast_{_rank}d")(_at_least(_rank))


@aten("broadcast_tensors")
def broadcast_tensors(xs: Any) -> Any:
    from glasshouse.ops.shapes import broadcast_shapes

    shape = broadcast_shapes([x.shape for x in xs])
    return tuple(expanded(x, shape) for x in xs)


@aten("meshgrid", "meshgrid.indexing")
def meshgrid(xs: Any, indexing: str = "ij") -> Any:
    flat = [composite.flatten(x) for x in xs]
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[:2] = [1, 0]
    shape = [flat[i].shape[0] for i in order]
    return tuple(
        expanded(reshaped(x, [n if order[j] == i else 1 for j, n in enumerate(shape)]), shape)
        for i, x in enumerate(flat)
    )
