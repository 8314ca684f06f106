"""Element types meet in sight: through cast nodes, as PyTorch promotes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import TypeMismatch
from glasshouse.ir import GraphBuilder
from glasshouse.ir.dtype import ALL, FLOAT8, uint32, uint64
from glasshouse.numpy_ref import run

# In PyTorch the others have no arithmetic.
NAMES = [d.name for d in ALL if d not in (*FLOAT8, uint32, uint64)]


@pytest.mark.parametrize("left", NAMES)
def test_add_of_any_two_types_is_torchs(left: str) -> None:
    for right in NAMES:
        builder = GraphBuilder()
        total = builder.input(left, [2]) + builder.input(right, [2])
        wanted = torch.add(
            torch.ones(2, dtype=getattr(torch, left)), torch.ones(2, dtype=getattr(torch, right))
        )
        assert f"torch.{total.dtype}" == str(wanted.dtype), (left, right)
        casts = [n for n in builder.graph.nodes if n.op.name == "cast"]
        assert len(casts) == (left != total.dtype.name) + (right != total.dtype.name)


@pytest.mark.parametrize("left", ["uint32", "uint64"])
@pytest.mark.parametrize("right", ["int64", "uint8", "bool"])
def test_wide_unsigned_integers_meet_no_others(left: str, right: str) -> None:
    builder = GraphBuilder()
    with pytest.raises(TypeMismatch, match="have no common type"):
        builder.input(left, [2]) + builder.input(right, [2])


@pytest.mark.parametrize("name", NAMES)
def test_plain_numbers_are_weak(name: str) -> None:
    builder = GraphBuilder()
    x = builder.input(name, [2])
    t = torch.ones(2, dtype=getattr(torch, name))
    for number in (True, 2, 2.5):
        assert f"torch.{(x + number).dtype}" == str((t + number).dtype), number
        assert f"torch.{(number * x).dtype}" == str((number * t).dtype), number


@pytest.mark.parametrize("name", NAMES)
def test_division_and_functions_are_floating(name: str) -> None:
    builder = GraphBuilder()
    x = builder.input(name, [2])
    t = torch.ones(2, dtype=getattr(torch, name))
    assert f"torch.{(x / x).dtype}" == str((t / t).dtype)
    assert f"torch.{x.apply('exp').dtype}" == str(t.exp().dtype)
    assert f"torch.{x.apply('sum').dtype}" == str(t.sum().dtype)


def test_an_int32_mask_added_to_float32_scores() -> None:
    builder = GraphBuilder()
    scores, mask = builder.input("float32", [2, 3]), builder.input("int32", [3])
    graph = builder.finish(scores + mask)
    out = run(graph, [np.full((2, 3), 0.5, np.float32), np.array([0, 1, -9], np.int32)])[0]
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, [[0.5, 1.5, -8.5]] * 2)
