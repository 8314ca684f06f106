"""Brings constants into the forms that kernels want: once, on the host, before the upload."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.backend.cuda.conv import TAPS
from glasshouse.backend.cuda.matmul import TURNED
from glasshouse.lower.kernel.statement import Form

Array = np.ndarray[Any, Any]


def prepared(form: Form, data: Array) -> Array:
    """The constant in a form, flat."""
    if form.kind == TURNED:
        return np.ascontiguousarray(data.reshape(form.attrs).T).reshape(-1)
    assert form.kind == TAPS, form.kind
    wide, filters, channels, *taps = form.attrs
    out = np.zeros((filters, int(np.prod(taps, dtype=np.int64)), wide), data.dtype)
    out[:, :, :channels] = data.reshape(filters, channels, -1).transpose(0, 2, 1)
    return out.reshape(-1)


def source_count(form: Form) -> int:
    """Elements of the constant itself."""
    sizes = form.attrs[1:] if form.kind == TAPS else form.attrs
    return int(np.prod(sizes, dtype=np.int64))


def form_bytes(form: Form) -> int:
    sizes = list(form.attrs)
    if form.kind == TAPS:
        del sizes[2]  # its channels, which `wide` stands for
    return int(np.prod(sizes, dtype=np.int64)) * form.dtype.itemsize
