"""Samples of Fourier transforms: every kind of length, several axes."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples.sample import WIDE, Sample, values

_LENGTHS = (1, 2, 12, 35, 37, 74)  # 37 is larger than any radix
_TOL: dict[str, Any] = {"tol": 30, "why": "sums of that many terms, in another order"}


def _torch(
    x: torch.Tensor, axis: int = -1, form: str = "complex", inverse: bool = False, size: int = 0
) -> torch.Tensor:
    if form == "real":
        return torch.view_as_real(torch.fft.rfft(x, dim=axis))
    given = torch.view_as_complex(x)
    if form == "half":
        return torch.fft.irfft(given, size, axis, norm="forward")
    found = torch.fft.ifft(given, dim=axis, norm="forward") if inverse else torch.fft.fft(
        given, dim=axis
    )  # fmt: skip
    return torch.view_as_real(found)


def _sample(shape: tuple[int, ...], axis: int, form: str, inverse: bool = False) -> Sample:
    n = shape[axis]
    size = {"half": n}.get(form, 0)
    if form == "half":
        shape = tuple(n // 2 + 1 if a == axis % len(shape) else d for a, d in enumerate(shape))
    x = values(*shape) if form == "real" else values(*shape, 2)
    attrs = {"axis": axis, "form": form, "inverse": inverse, "size": size}
    fixed = (2, n, n // 2 + 1)
    judge = _torch if 0 not in shape else None  # MKL refuses to transform no lines
    return Sample((x,), judge, attrs, dtypes=WIDE, static=fixed, second=n < 9, **_TOL)


def _lengths(form: str, inverse: bool = False) -> list[Sample]:
    return [_sample((3, n), -1, form, inverse) for n in _LENGTHS]


HOLES = {
    ("fft", "half"): "PyTorch has none for half floats on CPUs",
    ("fft", "scalar"): "a transform needs an axis",
}
SAMPLES = {
    "fft": [
        *_lengths("complex"),
        *_lengths("complex", True),
        *_lengths("real"),
        *_lengths("half", True),
        _sample((4, 6, 5), 1, "complex"),
        _sample((6, 11), 0, "real"),
        _sample((5, 3, 7), 0, "half", True),
        _sample((0, 4), 1, "real"),
    ]
}
