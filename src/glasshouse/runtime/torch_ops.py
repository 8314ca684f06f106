"""Ops in PyTorch's words: what a target without a kernel for them runs on its own memory.

Tensors in, tensors out, on whatever device they are; results may be of a wider type, and the caller
brings them to that of the op. Sums over places that indices name are sorted first (`index_put`), so
that two runs give the same bits. float32 stays float32 (`exact`).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch
from torch.nn import functional as F

from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import SymDim, evaluate, symbols_of
from glasshouse.ir.graph import Node, Value
from glasshouse.numpy_ref.executor import bind_sizes, resolve
from glasshouse.ops.pool_ref import pool_window
from glasshouse.ops.recurrent import GATES
from glasshouse.ops.resize import taps
from glasshouse.ops.window import Window, window_of
from glasshouse.runtime.checks import check_given_sizes

Tensor: TypeAlias = torch.Tensor
_aten = torch.ops.aten


@contextmanager
def exact() -> Iterator[None]:
    """Without TF32, which PyTorch allows convolutions by default."""
    c: Any = torch._C  # what `torch.backends` sets; there, some programs lock the settings
    try:
        before = c._get_cudnn_allow_tf32(), c._get_cublas_allow_tf32()
    except RuntimeError:  # set by PyTorch's newer names, which these do not go with
        with torch.no_grad():
            yield
        return
    c._set_cudnn_allow_tf32(False)
    c._set_cublas_allow_tf32(False)
    try:
        with torch.no_grad():
            yield
    finally:
        c._set_cudnn_allow_tf32(before[0])
        c._set_cublas_allow_tf32(before[1])


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


# ------------------------------------------------------------------------------- order, running
def _sort(x: Tensor, *, axis: int, descending: bool) -> Any:
    return torch.sort(x, dim=axis, descending=descending, stable=True)


def _topk(x: Tensor, *, k: int, axis: int, largest: bool) -> Any:
    """Not `torch.topk`: among equal elements the first ones win."""
    if not x.ndim:
        return x, torch.zeros((), dtype=torch.int64, device=x.device)
    values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
    return values.narrow(axis, 0, k), places.narrow(axis, 0, k)


def _cummax(x: Tensor, *, axis: int, largest: bool) -> Any:
    return torch.cummax(x, axis) if largest else torch.cummin(x, axis)


def _cumprod(x: Tensor, *, axis: int) -> Tensor:
    return torch.cumprod(x.double() if x.is_floating_point() else x, axis)


def _logcumsumexp(x: Tensor, *, axis: int) -> Tensor:
    return torch.logcumsumexp(x.double(), axis)


def _linear_recurrence(a: Tensor, b: Tensor, *, axis: int, reverse: bool) -> Tensor:
    """One after the other: joining runs of runs would multiply factors that never meet."""
    if not b.ndim:
        return b
    if b.is_floating_point():
        a, b = a.double(), b.double()
    factors, terms, out = a.unbind(axis), b.unbind(axis), list(b.unbind(axis))
    turn = range(len(out))[:: -1 if reverse else 1]
    for before, at in itertools.pairwise(turn):
        out[at] = factors[at] * out[before] + terms[at]
    return torch.stack(out, axis)


# ---------------------------------------------------------------------------------- convolutions
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


def _conv(x: Tensor, w: Tensor, *, groups: int, **attrs: Any) -> Tensor:
    window = window_of(tuple(w.shape[2:]), **attrs)
    if _even(window):
        return _convolved(x, w, window, window.begins, groups)
    whole = _padded(x, window.begins, window.ends)
    return _convolved(whole, w, window, [0] * len(window.kernel), groups)


def _conv_transpose(
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


def _conv_weight_grad(
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


# ----------------------------------------------------------------------------------------- pools
def _flat_first(tensors: Sequence[Tensor], rank: int) -> list[Tensor]:
    """One spatial axis as the second of two: PyTorch has gradients of those."""
    return [t.unsqueeze(2) if rank == 1 else t for t in tensors]


def _two(given: Sequence[int], rank: int, one: int) -> list[int]:
    return [one, *given] if rank == 1 else list(given)


def _max_pool_grad(
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


def _avg_pool_grad(
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


def _evenly_padded(attrs: Mapping[str, Any]) -> bool:
    window = pool_window(attrs["kernel"], attrs["stride"], attrs["padding"], attrs["dilation"])
    return _even(window)


def _undilated(attrs: Mapping[str, Any]) -> bool:
    return _evenly_padded(attrs) and all(d == 1 for d in attrs["dilation"])


# ----------------------------------------------------------------------------------------- index
def _put(x: Tensor, places: Sequence[Tensor], updates: Tensor, mode: str) -> Tensor:
    if mode == "set":
        return x.clone().index_put_(tuple(places), updates)
    wide = _wide(x)
    out = wide.clone() if wide is x else wide
    return out.index_put_(tuple(places), updates.to(out.dtype), accumulate=True)


def _scatter(x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, mode: str) -> Tensor:
    places = []
    for i, size in enumerate(indices.shape):
        shape = [1] * indices.ndim
        shape[i] = size
        places.append(torch.arange(size, device=x.device).reshape(shape))
    places[axis] = indices.long()
    return _put(x, places, updates, mode)


def _scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, mode: str) -> Tensor:
    if indices.shape[-1]:
        return _put(x, indices.long().unbind(-1), updates, mode)
    flat = updates.reshape(-1, *x.shape)
    if mode == "add":
        return _wide(x) + _wide(flat).sum(0)
    return flat[-1] if len(flat) else x


def _take_grad(g: Tensor, indices: Tensor, *, axis: int, size: int) -> Tensor:
    rows = g.flatten(axis, axis + indices.ndim - 1) if indices.ndim else g.unsqueeze(axis)
    front = _wide(rows.movedim(axis, 0))
    out = torch.zeros((size, *front.shape[1:]), dtype=front.dtype, device=g.device)
    out.index_put_((indices.reshape(-1).long(),), front, accumulate=True)
    return out.movedim(0, axis)


def _embedding_bag(
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


# ---------------------------------------------------------------------------------------- images
@functools.lru_cache(maxsize=64)
def _taps(*key: Any, device: Any) -> list[tuple[Tensor, Tensor | None]]:
    return [
        (torch.as_tensor(at, device=device), None if f is None else torch.as_tensor(f).to(device))
        for at, f in taps(*key)
    ]


def _resized_with(
    x: Tensor, axis: int, count: int, mode: str, coordinates: str, scales: Sequence[float]
) -> list[tuple[Tensor, Tensor | None]]:
    scale = scales[axis - 2] if scales else None
    return _taps(x.shape[axis], count, mode, coordinates, scale, device=x.device)


def _resize(
    x: Tensor, *, size: Sequence[int], mode: str, coordinates: str, scales: Sequence[float]
) -> Tensor:
    out = x if mode == "nearest" else _wide(x)
    for i, count in enumerate(size):
        axis, whole = 2 + i, out
        parts = _resized_with(whole, axis, count, mode, coordinates, scales)
        found = [_share(whole.index_select(axis, at), factor, axis) for at, factor in parts]
        out = functools.reduce(torch.add, found)
    return out


def _resize_grad(
    g: Tensor, *, size: Sequence[int], mode: str, coordinates: str, scales: Sequence[float]
) -> Tensor:
    out = _wide(g)
    for i, length in enumerate(size):
        axis, count = 2 + i, out.shape[2 + i]
        scale = scales[i] if scales else None
        parts = _taps(length, count, mode, coordinates, scale, device=g.device)
        total = torch.zeros((length, *out.movedim(axis, 0).shape[1:]), dtype=out.dtype).to(g.device)
        for at, factor in parts:
            rows = _share(out, factor, axis).movedim(axis, 0)
            total.index_put_((at,), rows, accumulate=True)
        out = total.movedim(0, axis)
    return out


def _share(x: Tensor, factor: Tensor | None, axis: int) -> Tensor:
    if factor is None:
        return x
    shape = [1] * x.ndim
    shape[axis] = -1
    return x * factor.to(x.dtype).reshape(shape)


def _fft(x: Tensor, *, axis: int, form: str, inverse: bool, size: int) -> Tensor:
    if form == "real":
        return torch.view_as_real(torch.fft.rfft(x, dim=axis))
    given = torch.view_as_complex(x.contiguous())
    if form == "half":
        return torch.fft.irfft(given, size, axis, norm="forward")
    if inverse:
        return torch.view_as_real(torch.fft.ifft(given, dim=axis, norm="forward"))
    return torch.view_as_real(torch.fft.fft(given, dim=axis))


# ------------------------------------------------------------------------------------- recurrent
def _recurrent(
    given: Tensor, state: Tensor, weights: Tensor, *rest: Tensor, cell: str, reverse: bool
) -> tuple[Tensor, ...]:
    steps = range(given.shape[0])
    if not steps:
        nothing = state.new_empty((0, *state.shape))
        return (nothing, nothing) if cell == "lstm" else (nothing,)
    states: dict[int, Tensor] = {}
    memories: dict[int, Tensor] = {}
    memory = rest[0] if cell == "lstm" else state
    for t in reversed(steps) if reverse else steps:
        x = given[t].chunk(GATES[cell], -1)
        r = (state @ weights.T).chunk(GATES[cell], -1)
        if cell == "lstm":
            i, f, o = (torch.sigmoid(x[k] + r[k]) for k in (0, 1, 3))
            memory = memories[t] = f * memory + i * torch.tanh(x[2] + r[2])
            state = o * torch.tanh(memory)
        elif cell == "gru":
            reset, keep = (torch.sigmoid(x[k] + r[k]) for k in (0, 1))
            now = torch.tanh(x[2] + reset * (r[2] + rest[0]))
            state = now + keep * (state - now)
        else:
            state = torch.tanh(x[0] + r[0]) if cell == "tanh" else torch.relu(x[0] + r[0])
        states[t] = state
    out = torch.stack([states[t] for t in steps])
    return (out, torch.stack([memories[t] for t in steps])) if cell == "lstm" else (out,)


OPS: dict[str, Callable[..., Any]] = {
    "avg_pool_grad": _avg_pool_grad,
    "conv": _conv,
    "conv_transpose": _conv_transpose,
    "conv_weight_grad": _conv_weight_grad,
    "cummax": _cummax,
    "cumprod": _cumprod,
    "embedding_bag": _embedding_bag,
    "fft": _fft,
    "linear_recurrence": _linear_recurrence,
    "logcumsumexp": _logcumsumexp,
    "max_pool_grad": _max_pool_grad,
    "recurrent": _recurrent,
    "resize": _resize,
    "resize_grad": _resize_grad,
    "scatter": _scatter,
    "scatter_nd": _scatter_nd,
    "sort": _sort,
    "take_grad": _take_grad,
    "topk": _topk,
}
ONLY_WHERE: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "avg_pool_grad": _undilated, "max_pool_grad": _evenly_padded,
}  # fmt: skip
"""Attributes for which PyTorch has the op."""


def is_spelled(node: Node) -> bool:
    """Whether `run_in_torch` runs a node."""
    name = node.op.name
    if name == "opaque":
        return hasattr(node.attrs["call"], "on_tensors")
    return name in OPS and (name not in ONLY_WHERE or ONLY_WHERE[name](node.attrs))


def run_in_torch(node: Node, tensors: Sequence[Tensor], sizes: dict[str, int]) -> list[Tensor]:
    """A node's outputs for these operands, contiguous and of the types that the node gives them.

    Symbols that only the result of an opaque node determines are added to `sizes`.
    """
    name = node.op.name
    if name != "opaque" and all(0 in _shape(v, sizes) for v in node.outputs):
        made: Any = [tensors[0].new_empty(_shape(v, sizes)) for v in node.outputs]
    else:
        attrs = {key: resolve(value, sizes) for key, value in node.attrs.items()}
        call = (
            attrs["call"].on_tensors if name == "opaque" else functools.partial(OPS[name], **attrs)
        )
        try:
            with exact():
                made = call(*tensors)
        except RuntimeError as error:
            shapes = ", ".join(str(list(t.shape)) for t in tensors)
            raise ExecutionError(
                f"{node.op.label} through PyTorch failed on operands of shape {shapes}: "
                f"{str(error).splitlines()[0]}",
                str(node.origin.source),
            ) from error
    many = made if isinstance(made, (tuple, list)) else (made,)
    if name == "opaque":
        known = len(sizes)
        for symbol, size in bind_sizes([v.type for v in node.outputs], many).items():
            sizes.setdefault(symbol, size)
        if len(sizes) > known:
            check_given_sizes(node, sizes)
    for result, value in zip(many, node.outputs, strict=True):
        if tuple(result.shape) != _shape(value, sizes):
            raise ExecutionError(
                f"{node.op.label} through PyTorch gave shape {list(result.shape)}, its type says "
                f"{list(_shape(value, sizes))}",
                str(node.origin.source),
            )
    return [
        t.to(getattr(torch, v.type.dtype.name)).contiguous()
        for t, v in zip(many, node.outputs, strict=True)
    ]


def _shape(value: Value, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(-1 if isinstance(d, SymDim) and not symbols_of(d).keys() <= sizes.keys()
                 else evaluate(d, sizes) for d in value.type.shape)  # fmt: skip
