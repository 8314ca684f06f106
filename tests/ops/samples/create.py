"""Samples of the ops without operands."""

from __future__ import annotations

from typing import Any

import torch

from ops.samples.sample import Sample

_DTYPES = {"float64": torch.float64, "float16": torch.float16, "int32": torch.int32}


def _full(shape: Any, value: Any, dtype: str | None = None) -> torch.Tensor:
    return torch.full(shape, value, dtype=_DTYPES.get(dtype or ""))


def _arange(stop: Any, start: Any = 0, step: Any = 1, dtype: str | None = None) -> torch.Tensor:
    return torch.arange(start, stop, step, dtype=_DTYPES.get(dtype or ""))


def _of(f: Any, **attrs: Any) -> Sample:
    return Sample((), f, attrs, dtypes=("float32",))


_NONE = "it has no operands; samples give empty, scalar and half outputs by attributes"
HOLES = {
    (name, crossing): _NONE
    for name in ("full", "arange")
    for crossing in ("half", "empty", "scalar", "symbolic")
}
SAMPLES = {
    "full": [
        _of(_full, shape=(2, 3), value=1.5),
        _of(_full, shape=(), value=7),
        _of(_full, shape=(0, 2), value=True),
        _of(_full, shape=(2,), value=float("-inf"), dtype="float16"),
        _of(_full, shape=(3,), value=2.0, dtype="int32"),
    ],
    "arange": [
        _of(_arange, stop=5),
        _of(_arange, start=3, stop=-4, step=-2),
        _of(_arange, start=0, stop=1.0, step=0.1),
        _of(_arange, start=0, stop=1.0, step=0.1, dtype="float64"),
        _of(_arange, start=2, stop=2),
        _of(_arange, stop=6, step=2, dtype="int32"),
        _of(_arange, stop=9, step=4, dtype="float16"),
    ],
}
