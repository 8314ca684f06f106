"""Assignments at a place that a tensor of one number names: `queue[pointer] = x`.

PyTorch reads the number to make a view, and a tracer cannot: the model was compiled in parts, and a
ring buffer of four numbers took five times eager's time. As an index of one element the tensor is
data like any other.
"""

from __future__ import annotations

from typing import Any

import torch

_PLAIN = (int, slice, type(None), type(Ellipsis))


def is_named(args: Any) -> bool:
    """Whether a call of `__setitem__` is such an assignment, with nothing else but numbers and
    slices in its brackets."""
    if len(args) != 3 or not isinstance(args[0], torch.Tensor):
        return False
    items = _items(args[1])
    return any(map(_is_place, items)) and all(
        _is_place(i) or (isinstance(i, _PLAIN) and not isinstance(i, bool)) for i in items
    )


def assign(target: Any, index: Any, value: Any) -> None:
    """`target[index] = value`."""
    items = _items(index)
    places = [i for i in items if _is_place(i)]
    view = target[tuple(slice(None) if _is_place(i) else i for i in items)]
    axes = _axes(items, view.dim())
    if isinstance(value, torch.Tensor):
        value = value.to(target.dtype)  # as `copy_` does, and `index_put_` does not
    # The axes of places come first, so that what is assigned has those that remain.
    first = view.movedim(axes, list(range(len(axes))))
    first[tuple(p.reshape(1) for p in places)] = value


def _items(index: Any) -> tuple[Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def _is_place(item: Any) -> bool:
    if not isinstance(item, torch.Tensor) or item.dim() != 0:
        return False
    return item.dtype in (torch.int64, torch.int32, torch.int16, torch.int8)


def _axes(items: tuple[Any, ...], rank: int) -> list[int]:
    """Which axes of the view places stand for; an ellipsis is as long as the rank leaves it."""
    kept = [i for i in items if not isinstance(i, int)]
    before = next((k for k, i in enumerate(kept) if i is Ellipsis), len(kept))
    return [k if k < before else rank - len(kept) + k for k, i in enumerate(kept) if _is_place(i)]
