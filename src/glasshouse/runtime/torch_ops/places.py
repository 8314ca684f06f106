"""Ops that read or add at places in PyTorch's words: scatter, bags, gradients of takes, resize.

Sums over places that indices name are sorted first (`index_put`), so that two runs give the same
bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from glasshouse.ops.groups import groups
from glasshouse.ops.resize_taps import taps

Tensor: TypeAlias = torch.Tensor


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _put(x: Tensor, places: Sequence[Tensor], updates: Tensor, mode: str) -> Tensor:
    if mode == "set":
        return x.clone().index_put_(tuple(places), updates)
    if mode != "add":
        return _reduced(x, places, updates, mode)
    wide = _wide(x)
    out = wide.clone() if wide is x else wide
    return out.index_put_(tuple(places), updates.to(out.dtype), accumulate=True)


_REDUCES = {"mul": "prod", "max": "amax", "min": "amin"}


def _reduced(x: Tensor, places: Sequence[Tensor], updates: Tensor, mode: str) -> Tensor:
    """The product, the larger or the smaller of what is there and what comes, by rows behind the
    places' axes."""
    row = math.prod(x.shape[len(places) :])
    number = torch.zeros((), dtype=torch.long, device=x.device)
    for place, size in zip(places, x.shape, strict=False):
        number = number * size + place % size
    index = number.reshape(-1, 1).expand(-1, row)
    new = updates.reshape(-1, row)
    return x.reshape(-1, row).scatter_reduce(0, index, new, _REDUCES[mode]).reshape(x.shape)


def scatter(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, mode: str) -> Tensor:
    places = []
    for i, size in enumerate(indices.shape):
        shape = [1] * indices.ndim
        shape[i] = size
        places.append(torch.arange(size, device=x.device).reshape(shape))
    places[axis] = indices.long()
    return _put(x, places, updates, mode)


def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, mode: str, axis: int) -> Tensor:
    if axis:
        lead = tuple(range(axis))
        last = tuple(range(-axis, 0))
        front = x.movedim(lead, last), indices, updates.movedim(lead, last)
        return scatter_nd(*front, mode=mode, axis=0).movedim(last, lead)
    if indices.shape[-1]:
        return _put(x, indices.long().unbind(-1), updates, mode)
    flat = updates.reshape(-1, *x.shape)
    if mode == "add":
        return _wide(x) + _wide(flat).sum(0)
    if mode == "mul":
        return _wide(x) * _wide(flat).prod(0)
    if mode in ("max", "min"):
        both = torch.cat([x[None], flat])
        return both.amax(0) if mode == "max" else both.amin(0)
    return flat[-1] if len(flat) else x


def take_grad(g: Tensor, indices: Tensor, *, axis: int, size: int) -> Tensor:
    rows = g.flatten(axis, axis + indices.ndim - 1) if indices.ndim else g.unsqueeze(axis)
    front = _wide(rows.movedim(axis, 0))
    out = torch.zeros((size, *front.shape[1:]), dtype=front.dtype, device=g.device)
    out.index_put_((indices.reshape(-1).long(),), front, accumulate=True)
    return out.movedim(0, axis)


def embedding_bag(
    table: Tensor, indices: Tensor, offsets: Tensor, *scale: Tensor, mean: bool, skipped: int,
    closed: bool,
) -> Tensor:  # fmt: skip
    wide = torch.float64 if table.dtype is torch.float64 else torch.float32
    counts = torch.ones_like(indices, dtype=wide)
    if skipped >= 0:
        counts = (indices != skipped).to(wide)
    rows = table[indices.long()].to(wide) * counts[:, None]
    if scale:
        rows = rows * scale[0].to(wide)[:, None]
    ends = offsets.long()
    if not closed:
        ends = torch.cat([ends, torch.full_like(ends[:1], len(indices))])
    out = torch.segment_reduce(rows, "sum", offsets=ends, unsafe=True, initial=0)
    if mean:
        used = torch.segment_reduce(counts, "sum", offsets=ends, unsafe=True, initial=0)
        out = out / used.clamp(min=1)[:, None]
    return out


def grouped_matmul(x: Tensor, w: Tensor, ends: Tensor, *, turned: bool) -> Tensor:
    each = w.transpose(1, 2) if turned else w
    out = x.new_empty(x.shape[0], each.shape[2])
    for group, begin, end in groups(x.shape[0], ends.cpu().numpy()):
        torch.mm(x[begin:end], each[group], out=out[begin:end])
    return out


@functools.lru_cache(maxsize=64)
def _taps(*key: Any, device: Any) -> list[tuple[Tensor, Tensor | None]]:
    return [
        (torch.as_tensor(at, device=device), None if f is None else torch.as_tensor(f).to(device))
        for at, f in taps(*key)
    ]


def resize(x: Tensor, *, size: Sequence[int], scales: Sequence[float], **how: Any) -> Tensor:
    out = x if how["mode"] == "nearest" else _wide(x)
    for i, count in enumerate(size):
        axis, whole = 2 + i, out
        parts = _resized_with(whole.shape[axis], count, i, scales, x.device, **how)
        found = [_share(whole.index_select(axis, at.clamp(min=0)), at, f, axis) for at, f in parts]
        out = functools.reduce(torch.add, found)
    return out


def resize_grad(g: Tensor, *, size: Sequence[int], scales: Sequence[float], **how: Any) -> Tensor:
    out = _wide(g)
    for i, length in enumerate(size):
        axis, count = 2 + i, out.shape[2 + i]
        parts = _resized_with(length, count, i, scales, g.device, **how)
        total = out.new_zeros(length, *out.movedim(axis, 0).shape[1:])
        for at, factor in parts:
            rows = _share(out, at, factor, axis).movedim(axis, 0)
            total.index_put_((at.clamp(min=0),), rows, accumulate=True)
        out = total.movedim(0, axis)
    return out


def _resized_with(
    length: int, count: int, axis: int, scales: Sequence[float], device: Any, *,
    mode: str, coordinates: str, antialias: bool,
) -> list[tuple[Tensor, Tensor | None]]:  # fmt: skip
    scale = scales[axis] if scales else None
    return _taps(length, count, mode, coordinates, scale, antialias, device=device)


def _share(x: Tensor, at: Tensor, factor: Tensor | None, axis: int) -> Tensor:
    """The part of x that counts; nothing where a tap takes no element (-1)."""
    if factor is None:
        return x
    shape = [1] * x.ndim
    shape[axis] = -1
    return (x * factor.to(x.dtype).reshape(shape)).masked_fill((at < 0).reshape(shape), 0)
