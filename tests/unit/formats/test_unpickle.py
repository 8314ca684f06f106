"""Plain pickles give their data; anything that would run code, expand or lie is refused."""

from __future__ import annotations

import contextlib
import io
import pickle
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.errors import FormatError, LimitExceeded
from glasshouse.formats.unpickle import load
from glasshouse.record.budget import Budget, ReadLimits

keys = st.text(max_size=5) | st.integers(-(2**59), 2**59)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
    | st.tuples(inner) | st.tuples(inner, inner),
    max_leaves=12,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(plain, st.integers(3, 5))
def test_plain_data_is_read_as_pickle_reads_it(value: Any, protocol: int) -> None:
    assert load(pickle.dumps(value, protocol), "x") == value


def test_old_protocols_too() -> None:
    value = {"a": [1, 2.5, None, True, (1, 2), "é"], 3: {}}
    for protocol in (0, 1, 2):
        assert load(pickle.dumps(value, protocol), "x") == value


class _Runs:
    def __reduce__(self) -> Any:
        return (print, ("this must never be printed",))


def test_a_pickle_that_calls_something_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for protocol in range(6):
        data = pickle.dumps({"node_data": _Runs()}, protocol)
        with pytest.raises(FormatError, match=r"x\.pkl: the pickle asks to run code") as caught:
            load(data, "x.pkl")
        assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80",
        b"\x80\x04",
        b"\x80\x06N.",
        b"N",
        b".",
        b"NN.",
        b"(.",
        b"a.",
        b"]N.",
        b"e.",
        b"}Ns.",
        b"}]Ns.",  # an unhashable key
        b"}(Nu.",
        b"h\x05.",
        b"q\x00.",
        b"(q\x00.",
        b"cos\nsystem\n.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"Pfoo\n.",
        b"\x8fN.",
        b"S'unclosed\n.",
        b"Iabc\n.",
        b"L" + b"9" * 5000 + b"L\n.",
        b"F1e\n.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"X\xff\xff\xff\x7f.",
        b"T\xff\xff\xff\xff.",
        b"}\x8a\x09" + bytes(8) + b"\x20Ns.",  # a key beyond 2^60
        b"\x00.",
        b"\xff.",
        b"2.",
    ],
)
def test_damaged_pickles_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        load(data, "x.pkl")
    assert str(caught.value).startswith("x.pkl: the pickle")
    assert "\n" not in str(caught.value)


def test_every_prefix_of_a_pickle_is_refused() -> None:
    data = pickle.dumps({"node_data": {1: {"id": 1, "inputs": [2, 3]}}, "x": "y" * 300})
    for length in range(len(data)):
        with pytest.raises(FormatError):
            load(data[:length], "x")


def test_memory_is_bounded_by_the_size_of_the_file() -> None:
    # The standard unpickler would make a table of 2^31 entries for this.
    data = b"\x80\x04Nr\xff\xff\xff\x7f."
    tracemalloc.start()
    try:
        assert load(data, "x") is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_million_empty_lists_are_refused() -> None:
    budget = Budget("x", 100, ReadLimits(objects=100_000))
    with pytest.raises(LimitExceeded, match="100,001 lists and objects"):
        load(b"(" + b"]" * 1_000_000 + b"l.", "x", budget)


def test_depth_does_not_matter() -> None:
    deep = load(b"]" * 100_000 + b"a" * 99_999 + b".", "x")
    assert isinstance(deep, list)
    while deep:  # taken apart by hand: dropping it whole would recurse in C
        deep = deep.pop()


@settings(max_examples=500, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    for start in (b"", b"\x80\x04", b"\x80\x04}(\x8c\x01a"):
        with contextlib.suppress(FormatError):
            load(start + data, "x")


def test_agrees_with_the_standard_unpickler_on_flipped_bytes() -> None:
    good = pickle.dumps({"a": [1, 2, {"b": "c"}], "d": (1.5, None)}, 4)
    for place in range(2, len(good)):
        for flip in (1, 8, 64):
            data = bytearray(good)
            data[place] ^= flip
            try:
                ours = load(bytes(data), "x")
                theirs = pickle.Unpickler(io.BytesIO(bytes(data))).load()
            except (FormatError, pickle.UnpicklingError, ValueError, EOFError):
                continue
            assert repr(ours) == repr(theirs)
