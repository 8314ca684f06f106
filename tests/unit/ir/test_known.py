"""What is known of an op's call holds for calls that are the same, not for some that look so."""

from __future__ import annotations

import pytest

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir import GraphBuilder
from glasshouse.ir.types import TensorType


def test_attributes_that_compare_equal_are_told_apart() -> None:
    b = GraphBuilder()
    x = b.input("float32", (2, 3))
    for _ in range(2):
        assert x.apply("sum", axes=(0,), keepdims=False).shape == (3,)
        assert x.apply("sum", axes=[1], keepdims=True).shape == (2, 1)
        with pytest.raises(TypeMismatch):
            x.apply("sum", axes=(0.0,))
        with pytest.raises(TypeMismatch):
            x.apply("sum", axes=(0,), keepdims=0.0)
        assert str(x.apply("clip", low=-0.0).value.node.attrs["low"]) == "-0.0"
        assert str(x.apply("clip", low=0.0).value.node.attrs["low"]) == "0.0"


def test_operands_of_other_types_are_inferred_anew() -> None:
    b = GraphBuilder()
    x, y, z = b.input("float32", (2, 3)), b.input("float32", (3,)), b.input("int32", (3,))
    for _ in range(2):
        assert (x + y).shape == (y + x).shape == (2, 3)
        assert (y + z).dtype.name == "float32"
        assert (z + z).dtype.name == "int32"
        assert z.apply("exp").dtype.name == "float32"
        with pytest.raises(ShapeError):
            x.apply("matmul", x)


def test_types_that_are_not_shared_keep_their_identity() -> None:
    """An entry holds the types of its key: a new type at the address of a dead one is another."""
    b = GraphBuilder()
    for size in range(200):
        x = b.input("float32", (size + 1,))
        x.value.type = TensorType(x.dtype, (size + 1,))
        assert x.apply("relu").shape == (size + 1,)
