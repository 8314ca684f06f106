"""Arrays in row-major order: by PyTorch or NumPy, the same elements, bit by bit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from glasshouse.runtime.arrays import LARGE, Array, contiguous

_X = np.random.default_rng(0).integers(0, 2**62, (64, 6, 40))
assert _X.size > LARGE
_LYING = {
    "turned": lambda x: x.transpose(2, 0, 1),
    "every other": lambda x: np.repeat(x, 2, 1)[:, ::2],
    "backwards": lambda x: x[:, ::-1],
    "repeated": lambda x: np.broadcast_to(x[:, None], (64, 3, 6, 40)),
    "small": lambda x: x[:3, :, 0].T,
    "one": lambda x: x[0, 0, 0].reshape(()),
    "none": lambda x: x[:0].T,
    "already": lambda x: x,
}


@pytest.mark.parametrize("loaded", [True, False])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "u2", "i1", "?"])
@pytest.mark.parametrize("name", list(_LYING))
def test_elements_are_copied_into_order(
    name: str, dtype: str, loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch if loaded else None)  # type: ignore[arg-type]  # None: not imported
    whole: Array = (_X % 2 == 0) if dtype == "?" else _X.astype("i8").view(dtype)
    given = _LYING[name](whole[..., :40])
    made = contiguous(given)
    assert made.flags.c_contiguous
    assert (made.shape, made.dtype) == (given.shape, given.dtype)
    assert made.tobytes() == given.tobytes()


def test_memory_that_may_not_be_written_is_read() -> None:
    fixed = _X.transpose(2, 1, 0)
    fixed.flags.writeable = False
    assert contiguous(fixed).tobytes() == fixed.tobytes()
