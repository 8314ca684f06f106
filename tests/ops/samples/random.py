"""Samples of random tensors; tests/unit/ops checks the numbers themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from ops.samples.sample import Sample, values

_WHY = "torch has other random numbers; tests/unit/ops holds known answers and distributions"
_SEED = np.int64(17)


def _made(**attrs: Any) -> Sample:
    return Sample((_SEED,), None, attrs, dtypes=("int64", "int32"), why=_WHY)


def _drop(*shape: int, p: float = 0.4) -> Sample:
    return Sample((values(*shape), _SEED), None, {"p": p}, why=_WHY)


SAMPLES = {
    "uniform": [
        _made(shape=[3, 4]),
        _made(shape=[2, 5], low=-1.0, high=3.0, dtype="float64"),
        _made(shape=[], dtype="bfloat16"),
        _made(shape=[0, 3], dtype="float16"),
    ],
    "normal": [
        _made(shape=[3, 4]),
        _made(shape=[2, 5], mean=2.0, std=0.5, dtype="float64"),
        _made(shape=[], dtype="bfloat16"),
        _made(shape=[0, 3], dtype="float16"),
    ],
    "dropout": [_drop(3, 4), _drop(2, 3, 5, p=0.0), _drop(7, p=1.0), _drop(), _drop(0, 3)],
}
HOLES = {
    **{(name, "torch"): _WHY for name in ("uniform", "normal", "dropout")},
    **{
        (name, "half"): "its operand is a seed; both half types are attributes of samples"
        for name in ("uniform", "normal")
    },
    **{
        (name, "empty"): "its operand is a seed; a sample makes an empty tensor"
        for name in ("uniform", "normal")
    },
    **{
        (name, "symbolic"): "its operand is a seed; tests/unit/ops makes a symbolic shape"
        for name in ("uniform", "normal")
    },
}
