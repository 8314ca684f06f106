"""Brings constants into the forms that kernels want: once, on the host, before the upload."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.backend.cuda.conv import TAPS
from glasshouse.lower.kernel.statement import Form

Array = np.ndarray[Any, Any]


def prepared(form: Form, data: Array) -> Array:
    """The constant in a form, flat."""
    assert form.kind == TAPS, form.kind
    filters, channels, *taps = form.attrs
    lying = data.reshape(filters, channels, int(np.prod(taps, dtype=np.int64)))
    return np.ascontiguousarray(lying.transpose(0, 2, 1)).reshape(-1)


def form_bytes(form: Form) -> int:
    return int(np.prod(form.attrs, dtype=np.int64)) * form.dtype.itemsize
