"""Convolutions and pools in PyTorch's words, and their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import torch
from torch.nn import functional as F

from glasshouse.ops.pool_ref import pool_window
from glasshouse.ops.window import Window, window_of

Tensor: TypeAlias = torch.Tensor
_aten = torch.ops.aten


def _even(window: Window) -> bool:
    return window.begins == window.ends


def _padded(x: Tensor, begins: Sequence[int], ends: Sequence[int]) -> Tensor:
    """Zeros around the spatial axes; negative ones cut."""
    sides = [n for pair in zip(reversed(begins), reversed(ends), strict=True) for n in pair]
    return F.pad(x, [int(n) for n in sides])


def _convolved(x: Tensor, w: Tensor, window: Window, padding: Sequence[int], groups: int) -> Tensor:
    zeros = [0] * len(window.kernel)
    return _aten.convolution(
        x, w, None, list(window.stride), list(padding), list(window.dilation), False, zeros, groups
    )


def conv(x: Tensor, w: Tensor, *, groups: int, **attrs: Any) -> Tensor:
    window = window_of(tuple(w.shape[2:]), **attrs)
    if _even(window):
        return _convolved(x, w, window, window.begins, groups)
    whole = _padded(x, window.begins, window.ends)
    return _convolved(whole, w, window, [0] * len(window.kernel), groups)


def conv_transpose(
    x: Tensor, w: Tensor, *, groups: int, output_padding: Sequence[int], **attrs: Any
) -> Tensor:
    window = window_of(tuple(w.shape[2:]), **attrs)
    rank = len(window.kernel)
    more = list(output_padding) * (rank if len(output_padding) == 1 else 1) or [0] * rank
    room = zip(more, window.stride, window.dilation, strict=True)
    direct = _even(window) and all(m < max(s, d) for m, s, d in room)
    padding, extra = (window.begins, more) if direct else ([0] * rank, [0] * rank)
    made = _aten.convolution(
        x, w, None, list(window.stride), list(padding), list(window.dilation), True, list(extra),
        groups,
    )  # fmt: skip
    if direct:
        return made
    ends = [m - e for m, e in zip(more, window.ends, strict=True)]
    return _padded(made, [-b for b in window.begins], ends)


def conv_weight_grad(
    x: Tensor, g: Tensor, *, kernel: Sequence[int], groups: int, **attrs: Any
) -> Tensor:
    window = window_of(tuple(kernel), **attrs)
    rank, padding = len(kernel), list(window.begins)
    if not _even(window) or window.outputs(tuple(x.shape[2:])) != tuple(g.shape[2:]):
        # Exactly what the windows of g cover.
        covered = [(g.shape[2 + i] - 1) * window.stride[i] + window.extent(i) for i in range(rank)]
        ends = [n - x.shape[2 + i] - window.begins[i] for i, n in enumerate(covered)]
        x, padding = _padded(x, window.begins, ends), [0] * rank
    shape = (g.shape[1], x.shape[1] // groups, *kernel)
    like = torch.empty(shape, dtype=x.dtype, device=x.device)
    found: Tensor = _aten.convolution_backward(
        g, x, like, None, list(window.stride), padding, list(window.dilation), False, [0] * rank,
        groups, [False, True, False],
    )[1]  # fmt: skip
    return found


def _flat_first(tensors: Sequence[Tensor], rank: int) -> list[Tensor]:
    """One spatial axis as the second of two: PyTorch has gradients of those."""
    return [t.unsqueeze(2) if rank == 1 else t for t in tensors]


def _two(given: Sequence[int], rank: int, one: int) -> list[int]:
    return [one, *given] if rank == 1 else list(given)


def max_pool_grad(
    g: Tensor, x: Tensor, *, kernel: Sequence[int], ceil_mode: bool, **attrs: Any
) -> Tensor:
    window, rank = pool_window(kernel, **attrs), len(kernel)
    planes = _flat_first((g, x), rank)
    given = (
        _two(kernel, rank, 1), _two(window.stride, rank, 1), _two(window.begins, rank, 0),
        _two(window.dilation, rank, 1), ceil_mode,
    )  # fmt: skip
    if rank == 3:
        places = _aten.max_pool3d_with_indices(planes[1], *given)[1]
        return _aten.max_pool3d_with_indices_backward(planes[0], planes[1], *given, places)
    places = _aten.max_pool2d_with_indices(planes[1], *given)[1]
    found: Tensor = _aten.max_pool2d_with_indices_backward(planes[0], planes[1], *given, places)
    return found.squeeze(2) if rank == 1 else found


def avg_pool_grad(
    g: Tensor, *, size: Sequence[int], kernel: Sequence[int], ceil_mode: bool,
    count_include_pad: bool, **attrs: Any,
) -> Tensor:  # fmt: skip
    window, rank = pool_window(kernel, **attrs), len(kernel)
    x = torch.empty((*g.shape[:2], *size), dtype=g.dtype, device=g.device)
    planes = _flat_first((g, x), rank)
    given = (
        _two(kernel, rank, 1), _two(window.stride, rank, 1), _two(window.begins, rank, 0),
        ceil_mode, count_include_pad, None,
    )  # fmt: skip
    back = _aten.avg_pool3d_backward if rank == 3 else _aten.avg_pool2d_backward
    found: Tensor = back(*planes, *given)
    return found.squeeze(2) if rank == 1 else found


def evenly_padded(attrs: Mapping[str, Any]) -> bool:
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    return _even(window)


def undilated(attrs: Mapping[str, Any]) -> bool:
    return evenly_padded(attrs) and all(d == 1 for d in attrs["dilation"])
