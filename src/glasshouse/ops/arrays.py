"""How NumPy meanings handle precision and indices: what several families need alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.errors import ExecutionError

Array = np.ndarray[Any, Any]


def widened(x: Array) -> Array:
    """float16 as float32, the type in which sums of it are taken; everything else as it is."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def checked_indices(indices: Array, size: int, axis: int) -> Array:
    """Indices counted from the front; one that lies outside `-size .. size - 1` is an error."""
    wrong = (indices < -size) | (indices >= size)
    if wrong.any():
        first = int(indices[wrong].reshape(-1)[0])
        raise ExecutionError(f"index {first} is out of range for axis {axis} of size {size}")
    return np.where(indices < 0, indices + size, indices).astype(np.int64, copy=False)


def add_rows(out: Array, rows: Array, values: Array) -> None:
    """`out[rows[i]] += values[i]` for 2-D `out`, repeated rows included: summed by sorted runs."""
    if not rows.size or not values.size:
        return
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    out[ordered[begins]] += np.add.reduceat(values[order], begins, axis=0)
