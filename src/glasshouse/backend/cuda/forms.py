"""Brings constants into the forms that kernels want: once, on the host, before the upload."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.backend.cuda.conv import TAP_PANELS, TAPS
from glasshouse.backend.cuda.matmul import PANELS, TURNED
from glasshouse.lower.kernel.statement import Form

Array = np.ndarray[Any, Any]


DEPTH = 64
"""Of a panel: 128 bytes."""
BEHIND = 256 * DEPTH
"""Elements behind the last panel: a tile reads all its columns, also those that are not there."""


def prepared(form: Form, data: Array) -> Array:
    """The constant in a form, flat."""
    if form.kind == TURNED:
        return np.ascontiguousarray(data.reshape(form.attrs).T).reshape(-1)
    if form.kind == PANELS:
        depth, columns, turned = form.attrs
        rows = data.reshape(columns, depth) if turned else data.reshape(depth, columns).T
        return _panels(rows)
    assert form.kind in (TAPS, TAP_PANELS), form.kind
    wide, filters, channels, *taps = form.attrs
    out = np.zeros((filters, int(np.prod(taps, dtype=np.int64)), wide), data.dtype)
    out[:, :, :channels] = data.reshape(filters, channels, -1).transpose(0, 2, 1)
    return _panels(out.reshape(filters, -1)) if form.kind == TAP_PANELS else out.reshape(-1)


def _panels(rows: Array) -> Array:
    """Rows of a column's depth as panels: chunk c of row r lies at place c ^ (r % 8) of its row."""
    columns, depth = rows.shape
    wide, steps = _up(columns, 8), _up(depth, DEPTH) // DEPTH
    flat = np.zeros(wide * steps * DEPTH + BEHIND, rows.dtype)
    out = flat[: wide * steps * DEPTH].reshape(steps, wide // 8, 8, 8, 8)
    padded = np.zeros((wide // 8, 8, 8, 8), rows.dtype)
    for step in range(steps):
        part = rows[:, step * DEPTH : (step + 1) * DEPTH]
        padded.reshape(wide, DEPTH)[:columns, : part.shape[1]] = part
        padded.reshape(wide, DEPTH)[:columns, part.shape[1] :] = 0
        for r in range(8):
            out[step, :, r, np.arange(8) ^ r] = padded[:, r].transpose(1, 0, 2)
    return flat


def _up(count: int, step: int) -> int:
    return -(-count // step) * step


def source_count(form: Form) -> int:
    """Elements of the constant itself."""
    sizes = form.attrs[1:] if form.kind in (TAPS, TAP_PANELS) else form.attrs[:2]
    return int(np.prod(sizes, dtype=np.int64))


def form_bytes(form: Form) -> int:
    sizes = list(form.attrs)
    if form.kind in (PANELS, TAP_PANELS):
        depth, columns = sizes[:2]
        if form.kind == TAP_PANELS:
            depth, columns = int(np.prod(sizes[3:], dtype=np.int64)) * sizes[0], sizes[1]
        wide = _up(columns, 8)
        return (_up(depth, DEPTH) * wide + BEHIND) * int(form.dtype.itemsize)
    if form.kind == TAPS:
        del sizes[2]  # its channels, which `wide` stands for
    return int(np.prod(sizes, dtype=np.int64)) * form.dtype.itemsize
