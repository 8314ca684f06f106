"""What PyTorch runs for us reads operands where they are, and neither writes nor hands them out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glasshouse.frontend.torch.opaque import Hole, TorchCall

_A = Hole(0, torch.float32)


def test_an_op_that_only_reads_gets_the_memory_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.eye(5, dtype="f") * 4
    seen: list[int] = []
    plain = torch.from_numpy
    monkeypatch.setattr(torch, "from_numpy", lambda a: seen.append(a.ctypes.data) or plain(a))
    (lower,) = TorchCall("aten.linalg_cholesky.default", (_A,), {}, results=(0,))(x)
    assert seen == [x.ctypes.data]
    np.testing.assert_array_equal(lower, np.eye(5) * 2)


def test_an_op_that_does_nothing_gives_memory_of_its_own() -> None:
    x = np.arange(6, dtype="f")
    (found,) = TorchCall("aten.dropout.default", (_A, 0.5, False), {}, results=(0,))(x)
    np.testing.assert_array_equal(found, x)
    assert not np.shares_memory(found, x)


def test_an_op_that_writes_gets_a_copy() -> None:
    x = np.arange(6, dtype="f")
    (found,) = TorchCall("aten.add_.Tensor", (_A, 1.0), {}, written=(0,))(x)
    np.testing.assert_array_equal(found, x + 1)
    assert x[0] == 0


@pytest.mark.parametrize("kind", ["read-only", "backwards", "columns", "one number", "nothing"])
def test_any_array_is_an_operand(kind: str) -> None:
    x = np.arange(12, dtype="f").reshape(3, 4)
    x = {
        "read-only": x, "backwards": x[::-1], "columns": x.T, "one number": np.float32(3),
        "nothing": x[:0],
    }[kind]  # fmt: skip
    if kind == "read-only":
        x.flags.writeable = False
    (found,) = TorchCall("aten.neg.default", (_A,), {}, results=(0,))(x)
    np.testing.assert_array_equal(found, -x)
