"""How common changes of shape are spelled with the core ops of that family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ShapeError
from glasshouse.ir.dim import Dim, SymDim, floor_div, product
from glasshouse.ops.pieces import concat, cut, split
from glasshouse.ops.shape import expanded, permuted, reshaped
from glasshouse.ops.shapes import axes_of, axis_of

Axes = int | Sequence[int]


def _listed(axes: Axes) -> list[int]:
    return list(axes) if isinstance(axes, Sequence) else [int(axes)]


def _sizes(given: Dim | Sequence[Dim]) -> list[Dim]:
    return list(given) if isinstance(given, Sequence) else [given]


def _fail(x: Any, what: str, hint: str = "") -> ShapeError:
    return ShapeError(what, x.builder.where(), hint)


# ------------------------------------------------------------------------------------- one tensor
def reshape(x: Any, shape: Dim | Sequence[Dim]) -> Any:
    """Another shape; one size may be -1 and is found from the others."""
    wanted = _sizes(shape)
    if wanted.count(-1) > 1:
        raise _fail(x, f"reshape: more than one size of {wanted} is -1")
    if -1 in wanted:
        rest = product(tuple(s for s in wanted if s != -1))
        if rest == 0:
            raise _fail(x, f"reshape({x.type}): -1 in {wanted} can be anything")
        found = floor_div(x.type.numel, rest)
        if isinstance(found, int) and found * rest != x.type.numel:
            raise _fail(x, f"reshape({x.type}): {x.type.numel} elements do not fit {wanted}")
        wanted[wanted.index(-1)] = found
    return reshaped(x, wanted)


def flatten(x: Any, start: int = 0, end: int = -1) -> Any:
    """The axes from `start` to `end` (included) merged into one; a scalar becomes one element."""
    if x.ndim == 0:
        return reshaped(x, (1,))
    first, last = axis_of(start, x.ndim), axis_of(end, x.ndim)
    if first > last:
        raise _fail(x, f"flatten({x.type}): axis {start} lies behind axis {end}")
    middle = product(x.shape[first : last + 1])
    return reshaped(x, (*x.shape[:first], middle, *x.shape[last + 1 :]))


def unflatten(x: Any, axis: int, sizes: Sequence[Dim]) -> Any:
    """One axis taken apart into several; one of the sizes may be -1."""
    at = axis_of(axis, x.ndim)
    return reshape(x, (*x.shape[:at], *sizes, *x.shape[at + 1 :]))


def squeeze(x: Any, axes: Axes | None = None) -> Any:
    """Without axes of size 1: all of them, or those of `axes` that have it."""
    given = range(x.ndim) if axes is None else axes_of(_listed(axes), x.ndim)
    gone = {a for a in given if x.shape[a] == 1}
    return reshaped(x, [d for i, d in enumerate(x.shape) if i not in gone])


def unsqueeze(x: Any, axes: Axes) -> Any:
    """With new axes of size 1 at these places of the output."""
    rank = x.ndim + len(_listed(axes))
    new = set(axes_of(_listed(axes), rank))
    sizes = iter(x.shape)
    return reshaped(x, [1 if i in new else next(sizes) for i in range(rank)])


def transpose(x: Any, a: int = -2, b: int = -1) -> Any:
    """Two axes exchanged."""
    order = list(range(x.ndim))
    i, j = axis_of(a, x.ndim), axis_of(b, x.ndim)
    order[i], order[j] = order[j], order[i]
    return permuted(x, order)


swapaxes = transpose


def moveaxis(x: Any, source: Axes, destination: Axes) -> Any:
    """Axes moved to other places; the rest keep their order."""
    sources = [axis_of(a, x.ndim) for a in _listed(source)]
    targets = [axis_of(a, x.ndim) for a in _listed(destination)]
    if len(sources) != len(targets) or len(set(sources)) < len(sources):
        raise _fail(x, f"moveaxis({x.type}): cannot move axes {source} to {destination}")
    rest = iter([a for a in range(x.ndim) if a not in sources])
    placed = dict(zip(targets, sources, strict=True))
    return permuted(x, [placed[i] if i in placed else next(rest) for i in range(x.ndim)])


def broadcast_to(x: Any, shape: Sequence[Dim]) -> Any:
    """Repeated to a shape; -1 keeps the size that is there."""
    extra = len(shape) - x.ndim
    if extra < 0:
        raise _fail(x, f"broadcast_to({x.type}): {list(shape)} has fewer dimensions")
    return expanded(x, [x.shape[i - extra] if s == -1 else s for i, s in enumerate(shape)])


def tile(x: Any, repeats: Dim | Sequence[Dim]) -> Any:
    """The whole tensor repeated along its axes, `repeats` aligned with the last ones."""
    given = _sizes(repeats)
    times: list[Dim] = [*[1] * (x.ndim - len(given)), *given]
    x = reshaped(x, (*[1] * (len(times) - x.ndim), *x.shape))
    if all(t == 1 for t in times):
        return x
    apart = [d for s in x.shape for d in (1, s)]
    wide = [d for t, s in zip(times, x.shape, strict=True) for d in (t, s)]
    merged = [t * s for t, s in zip(times, x.shape, strict=True)]
    return reshaped(expanded(reshaped(x, apart), wide), merged)


def repeat_interleave(x: Any, times: Dim, axis: int | None = None) -> Any:
    """Each element repeated on the spot along an axis (None: along the flattened tensor)."""
    if axis is None:
        x, axis = flatten(x), 0
    at = axis_of(axis, x.ndim)
    before, size, after = x.shape[:at], x.shape[at], x.shape[at + 1 :]
    wide = expanded(reshaped(x, (*before, size, 1, *after)), (*before, size, times, *after))
    return reshaped(wide, (*before, size * times, *after))


# ------------------------------------------------------------------------------- several tensors
def stack(xs: Sequence[Any], axis: int = 0) -> Any:
    """Tensors of one shape along a new axis."""
    at = axis_of(axis, xs[0].ndim + 1)
    return concat(*[unsqueeze(x, at) for x in xs], axis=at)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, without it."""
    at = axis_of(axis, x.ndim)
    count = x.shape[at]
    if not isinstance(count, int):
        raise _fail(x, f"unstack({x.type}): axis {at} has no fixed size")
    rest = (*x.shape[:at], *x.shape[at + 1 :])
    parts = [x] if count == 1 else split(x, axis=at, sizes=[1] * count) if count else []
    return tuple(reshaped(p, rest) for p in parts)


def split_every(x: Any, size: int, axis: int = 0) -> tuple[Any, ...]:
    """Parts of `size` along an axis; the last one may be smaller."""
    at = axis_of(axis, x.ndim)
    total = x.shape[at]
    if not isinstance(total, int):
        raise _fail(x, f"split_every({x.type}): axis {at} has no fixed size")
    if size < 1:
        raise _fail(x, f"split_every({x.type}): parts of size {size}")
    sizes = [min(size, total - begin) for begin in range(0, total, size)]
    return tuple(split(x, axis=at, sizes=sizes)) if len(sizes) > 1 else (x,)


def chunk(x: Any, count: int, axis: int = 0) -> tuple[Any, ...]:
    """At most `count` parts along an axis, all but the last of one size."""
    at = axis_of(axis, x.ndim)
    total = x.shape[at]
    if isinstance(total, SymDim):
        size = floor_div(total, count)
        if size * count != total:
            raise _fail(x, f"chunk({x.type}): axis {at} may not divide into {count} parts")
        return tuple(split(x, axis=at, sizes=[size] * count))
    return split_every(x, max(1, -(-total // count)), at)


def narrow(x: Any, axis: int, start: Dim, length: Dim) -> Any:
    """`length` elements along an axis from `start`."""
    return cut(x, axis_of(axis, x.ndim), start, start + length)


def pixel_shuffle(x: Any, factor: int) -> Any:
    """Channels turned into pixels: [.., c * f * f, h, w] becomes [.., c, h * f, w * f]."""
    *lead, channels, height, width = x.shape
    inner = floor_div(channels, factor * factor)
    k = len(lead)
    apart = reshape(x, (*lead, inner, factor, factor, height, width))
    order = [*range(k), k, k + 3, k + 1, k + 4, k + 2]
    return reshape(permuted(apart, order), (*lead, inner, height * factor, width * factor))


def pixel_unshuffle(x: Any, factor: int) -> Any:
    """Pixels turned into channels; undoes `pixel_shuffle`."""
    *lead, channels, height, width = x.shape
    h, w = floor_div(height, factor), floor_div(width, factor)
    k = len(lead)
    apart = reshape(x, (*lead, channels, h, factor, w, factor))
    order = [*range(k), k, k + 2, k + 4, k + 1, k + 3]
    return reshape(permuted(apart, order), (*lead, channels * factor * factor, h, w))
