"""What a tensor held, in few figures: range, moments, NaNs, a histogram and its first elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.record.schema import SummaryRow, Text

BINS = 32
MOST = 1 << 16
"""Elements that the histogram looks at; of longer tensors every n-th. Range and NaNs see all."""
SAMPLE = 16


def summary_of(node: int, port: int, array: np.ndarray[Any, Any]) -> SummaryRow | None:
    """The row of one tensor; None for what has no numbers or no elements."""
    if array.size == 0 or array.dtype.kind not in "biuf":
        return None
    flat = array.reshape(-1)
    given = flat.astype(np.float64) if array.dtype.kind == "b" or flat.itemsize < 4 else flat
    nans = int(np.count_nonzero(np.isnan(given)))
    infs = int(np.count_nonzero(np.isinf(given)))
    finite = given if nans + infs == 0 else given[np.isfinite(given)]
    if finite.size == 0:
        low = high = mean = std = float("nan")
        counts: list[int] = []
    else:
        low, high = float(np.min(finite)), float(np.max(finite))
        mean, std = (
            float(np.mean(finite, dtype=np.float64)),
            float(np.std(finite, dtype=np.float64)),
        )
        seen = finite[:: -(-finite.size // MOST)]
        counts = np.histogram(seen, BINS, (low, high))[0].tolist() if high > low else []
    sample = ", ".join(f"{v:.6g}" for v in given[:SAMPLE].tolist())
    zeros = int(np.count_nonzero(given == 0))
    return SummaryRow(
        node, port, low, high, mean, std, nans, infs, zeros, Text(sample), histogram=counts
    )
