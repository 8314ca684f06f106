"""How two results differ: in NaN, in infinities, in signs of zero, or by more than rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from hostile.values import least_normal

Array = np.ndarray[Any, Any]


def difference(
    ours: Array, theirs: Array, dtype: str, rtol: float, scale: float = 0.0, zeros: bool = False
) -> str:
    """What differs, in a few words; "" where nothing does.

    Numbers below the least normal one may be 0. `scale` is what sums went through on their way:
    their rounding is measured against it. `zeros` asks for the same sign of zero.
    """
    if ours.shape != theirs.shape:
        return f"shape {ours.shape}, not {theirs.shape}"
    if not np.issubdtype(theirs.dtype, np.floating):
        wrong = ours != theirs
        return _first(ours, theirs, wrong, "value") if wrong.any() else ""
    mine, yours = (np.asarray(a, np.float64) for a in (ours, theirs))
    for what, wrong in (
        ("NaN", np.isnan(mine) != np.isnan(yours)),
        ("infinity", (np.isinf(mine) | np.isinf(yours)) & (mine != yours) & ~np.isnan(mine)),
        ("sign of zero", zeros & (mine == 0) & (yours == 0)
         & (np.signbit(mine) != np.signbit(yours))),
    ):  # fmt: skip
        if wrong.any():
            return _first(mine, yours, wrong, what)
    both = np.isfinite(mine) & np.isfinite(yours)
    with np.errstate(all="ignore"):
        slack = 2 * least_normal(dtype) + rtol * (np.abs(yours) + scale)
        wrong = both & (np.abs(mine - yours) > slack)
    return _first(mine, yours, wrong, "value") if wrong.any() else ""


def _first(ours: Array, theirs: Array, wrong: Array, what: str) -> str:
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{what} at {list(place)}: {ours[place]}, not {theirs[place]} ({int(wrong.sum())} places)"
    )
