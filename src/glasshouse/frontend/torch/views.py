"""How a write into a view reaches the tensor that it is a view of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glasshouse.frontend.torch.complex import Complex, joined
from glasshouse.ir.dim import SymDim, product
from glasshouse.ops.composite import setitem
from glasshouse.ops.create import arange_near
from glasshouse.ops.shape import inverse, permuted, reshaped
from glasshouse.ops.shapes import axis_of

# Views that keep every element in its place in memory order.
_SAME_ORDER = {
    "aten::view", "aten::reshape", "aten::_unsafe_view", "aten::flatten", "aten::unflatten",
    "aten::squeeze", "aten::unsqueeze", "aten::alias", "aten::detach", "aten::contiguous",
    "aten::view_as", "aten::to", "aten::clone", "aten::dropout", "aten::identity", "aten::ravel",
    "aten::lift_fresh", "aten::_reshape_alias", "aten::type_as",
}  # fmt: skip


def put_back(
    target: Any,
    args: Sequence[Any],
    parent: Any,
    new: Any,
    replay: Callable[[Any], Any],
) -> Any:
    """`parent` with the part that the view op `target` takes of it replaced by `new`."""
    name = target._schema.name
    if isinstance(parent, Complex):
        return _complex_put_back(target, args, parent, new, replay)
    if isinstance(new, Complex):  # view_as_complex
        return reshaped(new.pairs, parent.shape)
    rank = parent.ndim
    if name in _SAME_ORDER and new.type.numel == parent.type.numel:
        return reshaped(new, parent.shape)
    if name == "aten::permute":
        return permuted(new, inverse([axis_of(a, rank) for a in args[1]]))
    if name in ("aten::transpose", "aten::swapaxes", "aten::t"):
        a, b = (args[1], args[2]) if len(args) > 2 else (0, rank - 1)
        order = list(range(rank))
        i, j = axis_of(a, rank), axis_of(b, rank)
        order[i], order[j] = order[j], order[i]
        return permuted(new, order)
    if name == "aten::select" and isinstance(args[2], (int, SymDim)):  # else it is data
        return setitem(parent, _along(args[1], rank, args[2]), new)
    if name == "aten::slice":
        defaults: tuple[Any, ...] = (0, None, None, 1)
        axis, start, end, step = [*args[1:], *defaults[len(args) - 1 :]]
        if step == 1:
            return setitem(parent, _along(axis, rank, slice(start, end)), new)
    return put_by_index(parent, new, replay)


def _complex_put_back(
    target: Any, args: Sequence[Any], parent: Complex, new: Any, replay: Callable[[Any], Any]
) -> Complex:
    """A view of a complex tensor: of all of it as pairs, of one part, or the same one of both."""
    name = target._schema.name
    if name == "aten::view_as_real":
        return Complex(new)
    parts = parent.parts()
    if name == "aten::real":
        return joined(new, parts[1])
    if name == "aten::imag":
        return joined(parts[0], new)
    written = new.parts()
    if name == "aten::_conj":
        return joined(written[0], written[1].apply("negative"))
    real, imaginary = (
        put_back(target, args, p, n, replay) for p, n in zip(parts, written, strict=True)
    )
    return joined(real, imaginary)


def _along(axis: int, rank: int, entry: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * axis_of(axis, rank), entry)


def put_by_index(parent: Any, new: Any, replay: Callable[[Any], Any]) -> Any:
    """Any view at all: the same view of the elements' numbers says where each one goes."""
    count = product(parent.shape)
    numbers = replay(reshaped(arange_near(parent, count), parent.shape))
    flat = reshaped(parent, (count,))
    places = reshaped(numbers, (product(numbers.shape),))
    out = flat.apply("scatter", places, reshaped(new, places.shape), axis=0)
    return reshaped(out, parent.shape)
