"""Signatures: arguments are taken apart as they were at the capture, and mistakes are named."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from glasshouse.errors import TypeMismatch
from glasshouse.ir.signature import Container, Fixed, Leaf, Results, Signature

X = np.ones(2)


def forward(x: Any, mask: Any = None, *, cache: Any = None, scale: float = 1.0) -> Any: ...


CACHE = Container("dict", ("k", "v"), (Leaf(1), Leaf(2)))
SIGNATURE = Signature(
    {"x": Leaf(0), "cache": CACHE, "scale": Fixed(2.0)},
    Container("Output", ("logits", "loss"), (Leaf(0), Fixed(None))),
    inspect.signature(forward),
)


def test_arguments_are_found_by_position_and_by_keyword() -> None:
    y, z = np.zeros(1), np.zeros(3)
    bound = SIGNATURE.bind((X,), {"cache": {"v": z, "k": y}, "scale": 2.0})
    assert [a is b for a, b in zip(bound, (X, y, z), strict=True)] == [True] * 3
    assert SIGNATURE.bind((), {"x": X, "cache": {"k": y, "v": z}})[0] is X


def test_arguments_that_held_no_tensor_need_not_be_given_again() -> None:
    assert len(SIGNATURE.bind((X,), {"cache": {"k": X, "v": X}})) == 3


MISTAKES = [
    ((), {}, "the argument 'x' is missing"),
    ((X,), {}, "the argument 'cache' is missing"),
    ((X,), {"cache": {"k": X}}, "cache has the keys ['k'], wanted ['k', 'v']"),
    ((X,), {"cache": [X, X]}, "cache must be a dict"),
    ((None,), {"cache": {"k": X, "v": X}}, "x must be a tensor, got None"),
    ((X,), {"cache": {"k": X, "v": "no"}}, "cache['v'] must be a tensor, got 'no'"),
    ((X, X), {"cache": {"k": X, "v": X}}, "'mask' was not given when the model was compiled"),
    ((X,), {"cache": {"k": X, "v": X}, "scale": 3.0}, "scale was 2.0 when the model was compiled"),
    ((X,), {"caches": 1}, "unexpected keyword argument 'caches'"),
]


@pytest.mark.parametrize(("args", "keywords", "said"), MISTAKES, ids=[m[2] for m in MISTAKES])
def test_mistakes_are_named(args: Any, keywords: Any, said: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        SIGNATURE.bind(args, keywords)
    assert said in str(caught.value)


def test_an_argument_at_its_default_may_be_given() -> None:
    assert len(SIGNATURE.bind((X, None), {"cache": {"k": X, "v": X}})) == 3


def test_results_of_a_class_that_is_not_at_hand_have_its_names() -> None:
    made = SIGNATURE.rebuilder({})([X])
    assert isinstance(made, Results)
    assert made.logits is X
    assert made["loss"] is None
    with pytest.raises(AttributeError, match="there are: logits, loss"):
        _ = made.hidden


def test_nothing_that_a_structure_says_is_run() -> None:
    """Kinds, keys and fields come out of files: they are looked up, or are data."""
    says = "print(1) or x'\\"
    with pytest.raises(KeyError):
        Signature({}, Leaf(0, says)).rebuilder({"int": int})
    fields = Container("Class", (says,), (Leaf(0),))
    whole = Container("dict", (says, 1), (fields, Leaf(1, "int")))
    assert Signature({}, whole).rebuilder({"int": int})([X, 2.0]) == {says: {says: X}, 1: 2}


def test_flat_models_are_told_apart() -> None:
    flat = Signature({"a": Leaf(0), "b": Leaf(1)}, Leaf(0))
    assert flat.takes_flat
    assert flat.returns_flat
    assert not Signature({"a": Leaf(1), "b": Leaf(0)}, Leaf(0)).takes_flat
    assert not Signature({"a": Leaf(0)}, Leaf(0, "complex")).returns_flat
    assert not Signature({"a": Leaf(0)}, Leaf(0), written=((0, 1),)).returns_flat
    one = Container("tuple", (0,), (Leaf(0),))
    assert not Signature({"a": Leaf(0)}, one).returns_flat  # (x,) is not x
