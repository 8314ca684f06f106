"""Brings constants into the forms that kernels want: once, on the host, before the upload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.backend.cuda.conv_runs import FEW, RUNS
from glasshouse.backend.cuda.conv_weights import TAPS
from glasshouse.backend.cuda.int8 import BYTE_COLUMNS, BYTE_TAPS, columns_and_depth
from glasshouse.backend.cuda.matmul import TURNED
from glasshouse.backend.cuda.transposed import PHASES
from glasshouse.lower.kernel.statement import Form

Array = np.ndarray[Any, Any]


def prepared(form: Form, data: Array) -> Array:
    """The constant in a form, flat."""
    if form.kind == TURNED:
        return np.ascontiguousarray(data.reshape(form.attrs).T).reshape(-1)
    if form.kind == RUNS:
        run, filters, channels, height, width = _numbers(form)
        rows = np.zeros((filters, height, run, FEW), data.dtype)
        kernel = data.reshape(filters, channels, height, width)
        rows[:, :, :width, :channels] = kernel.transpose(0, 2, 3, 1)
        return rows.reshape(-1)
    if form.kind in (BYTE_COLUMNS, BYTE_TAPS):
        columns, depth, deep = columns_and_depth(form)
        held = np.zeros((columns, deep), data.dtype)
        plain: Array = data.reshape(*form.attrs[:2], -1)
        if form.kind == BYTE_TAPS:
            plain = plain.transpose(0, 2, 1)
        elif not form.attrs[2]:
            plain = plain.transpose(1, 0, 2)
        held[:, :depth] = plain.reshape(columns, depth)
        sums = held.sum(1, dtype=np.int32)
        return np.concatenate([held.reshape(-1), sums.view(data.dtype)])
    if form.kind == PHASES:
        return phases(form.attrs, data)
    assert form.kind == TAPS, form.kind
    wide, filters, channels, *taps = form.attrs
    out = np.zeros((filters, int(np.prod(taps, dtype=np.int64)), wide), data.dtype)
    out[:, :, :channels] = data.reshape(filters, channels, -1).transpose(0, 2, 1)
    return out.reshape(-1)


def phases(attrs: Sequence[int], data: Array) -> Array:
    """Weights [channels, filters of a group, taps] for each phase of a transposed convolution."""
    groups, *rest = attrs
    strides, begins, (channels, filters), kernel = (tuple(rest[i : i + 2]) for i in (0, 2, 4, 6))
    each = channels // groups
    plain = data.reshape(groups, each, filters, *kernel).transpose(0, 2, 3, 4, 1)
    taps = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
    out = np.zeros((groups, *strides, filters, *taps, each), data.dtype)
    for phase in np.ndindex(*strides):
        first = [(p + b) % s for p, b, s in zip(phase, begins, strides, strict=True)]
        own = plain[:, :, first[0] :: strides[0], first[1] :: strides[1]]
        high, wide = own.shape[2:4]
        place = out[:, phase[0], phase[1]]
        place[:, :, taps[0] - high :, taps[1] - wide :] = own[:, :, ::-1, ::-1]
    return out.reshape(-1)


def source_count(form: Form) -> int:
    """Elements of the constant itself."""
    sizes = form.attrs[1:] if form.kind in (TAPS, RUNS) else form.attrs
    sizes = form.attrs[5:] if form.kind == PHASES else sizes
    sizes = form.attrs[:2] if form.kind == BYTE_COLUMNS else sizes
    return int(np.prod(sizes, dtype=np.int64))


def form_bytes(form: Form) -> int:
    sizes = list(form.attrs)
    if form.kind in (BYTE_COLUMNS, BYTE_TAPS):
        columns, _, deep = columns_and_depth(form)
        return columns * (deep + 4)
    if form.kind == RUNS:
        run, filters, _, height, _ = _numbers(form)
        sizes = [filters, height, run, FEW]
    if form.kind == PHASES:
        _, *strides, _, _, channels, filters, high, wide = sizes
        taps = [-(-k // s) * s for k, s in zip((high, wide), strides, strict=True)]
        sizes = [channels, filters, *taps]
    if form.kind == TAPS:
        del sizes[2]  # its channels, which `wide` stands for
    return int(np.prod(sizes, dtype=np.int64)) * form.dtype.itemsize


def _numbers(form: Form) -> tuple[int, int, int, int, int]:
    """Of `RUNS`: columns of a run, then filters, channels, height and width; lines are one high."""
    run, filters, channels, *window = form.attrs
    height, width = (1, *window)[-2:]
    return run, filters, channels, height, width
