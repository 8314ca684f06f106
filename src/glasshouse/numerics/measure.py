"""The error measure: how far two arrays are apart, and where values differ in kind (NaN, inf)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Error:
    """`scaled` is the largest absolute error over 1 + the largest wanted size: what is compared.

    A place where one is NaN or infinite and the other is not, or with another sign, makes every
    measure infinite. Integers and bools must be equal: otherwise it is infinite as well.
    """

    max_abs: float = 0.0
    max_rel: float = 0.0
    rms: float = 0.0
    scaled: float = 0.0
    of_largest: float = 0.0  # the largest absolute error over the largest wanted size
    wrong: int = 0  # places that differ in kind: NaN, infinity, integer, shape
    at: tuple[int, ...] = ()  # the first wrong element, or that of the largest absolute error
    largest: float = 0.0  # the largest wanted size

    def __str__(self) -> str:
        if self.wrong:
            return f"{self.wrong} elements differ, first at {list(self.at)}"
        return f"{self.scaled:.3g} (absolute {self.max_abs:.3g}, relative {self.max_rel:.3g})"


def compare(got: Array, wanted: Array) -> Error:
    """How far `got` is from `wanted`."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape:
        return _infinite(max(got.size, wanted.size, 1))
    if not wanted.size:
        return Error()
    if wanted.dtype.kind != "f":
        different = got != wanted
        return _differing(different) if np.any(different) else Error()
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(invalid="ignore"):
        strange = ~finite & ~((np.isnan(a) & np.isnan(b)) | (a == b))
    if np.any(strange):
        return _differing(strange)
    apart = np.where(finite, np.abs(np.where(finite, a, 0) - np.where(finite, b, 0)), 0.0)
    size = np.where(finite, np.abs(b), 0.0)
    # Relative to the element, but no smaller than a millionth of the largest: near 0, digits are
    # lost by every sum, and a ratio says nothing.
    largest = float(np.max(size))
    relative = apart / np.maximum(size, max(largest * 1e-6, 1e-300))
    top = float(np.max(apart))
    at = np.unravel_index(int(np.argmax(apart)), apart.shape)
    of_top = apart / (top or 1.0)  # whose squares stay finite
    rms = top * float(np.sqrt(np.mean(of_top * of_top)))
    where = tuple(int(i) for i in at)
    return Error(
        top, float(np.max(relative)), rms, top / (1.0 + largest), top / (largest or 1.0), 0, where,
        largest,
    )  # fmt: skip


def compare_all(got: Sequence[Array], wanted: Sequence[Array]) -> Error:
    """The worst of several."""
    if len(got) != len(wanted):
        return _infinite(abs(len(got) - len(wanted)))
    errors = [compare(a, b) for a, b in zip(got, wanted, strict=True)]
    return max(errors, key=lambda e: e.scaled, default=Error())


def _differing(different: Array) -> Error:
    at = np.unravel_index(int(np.argmax(different)), different.shape)
    where = tuple(int(i) for i in at)
    return _infinite(int(np.count_nonzero(different)), where)


def _infinite(wrong: int, at: tuple[int, ...] = ()) -> Error:
    return Error(np.inf, np.inf, np.inf, np.inf, np.inf, wrong, at)
