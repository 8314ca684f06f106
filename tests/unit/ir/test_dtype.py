"""Element types: promotion as PyTorch's, bfloat16 as PyTorch rounds it."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from glasshouse.errors import TypeMismatch
from glasshouse.ir import as_dtype
from glasshouse.ir.dtype import (
    ALL,
    FLOAT8,
    DType,
    bfloat16,
    finish,
    from_storage,
    promote,
    to_storage,
)


def test_promotion_is_torchs() -> None:
    for a in ALL:
        for b in ALL:
            try:
                wanted = torch.promote_types(getattr(torch, a.name), getattr(torch, b.name))
            except RuntimeError:  # float8 is for memory: nothing is computed with it by accident
                with pytest.raises(TypeMismatch, match="no common type"):
                    promote(a, b)
                continue
            assert f"torch.{promote(a, b)}" == str(wanted), (a, b)


@pytest.mark.parametrize("dtype", FLOAT8)
def test_float8_is_torchs(dtype: DType) -> None:
    """Every byte, every half float, and floats of all sizes, NaN and infinities among them."""
    theirs = getattr(torch, dtype.name)
    stored = np.arange(256, dtype=np.uint8)
    values = from_storage(stored, dtype)
    np.testing.assert_array_equal(values, torch.from_numpy(stored).view(theirs).float().numpy())
    np.testing.assert_array_equal(from_storage(to_storage(values, dtype), dtype), values)
    bits = np.arange(65536, dtype=np.uint16).view(np.int16)
    kinds = (torch.float16, torch.bfloat16)
    given = [torch.from_numpy(bits).view(kind).float() for kind in kinds]
    drawn = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32).view(np.float32)
    for x in (*given, torch.from_numpy(drawn)):
        wanted = x.to(theirs).view(torch.uint8).numpy()
        np.testing.assert_array_equal(to_storage(x.numpy(), dtype), wanted)


def test_copies_are_the_type_itself() -> None:
    """Types are compared by identity."""
    for dtype in ALL:
        assert pickle.loads(pickle.dumps(dtype)) is dtype
        assert copy.deepcopy([dtype])[0] is dtype


def test_every_way_to_name_a_type() -> None:
    for dtype in ALL:
        assert as_dtype(dtype) is dtype
        assert as_dtype(dtype.name) is dtype
        if not dtype.is_carried:
            assert as_dtype(np.dtype(dtype.name)) is dtype
            assert as_dtype(getattr(np, dtype.name.replace("bool", "bool_"))) is dtype
        assert dtype.itemsize == torch.empty(0, dtype=getattr(torch, dtype.name)).element_size()
    assert as_dtype(float).name == "float64"
    with pytest.raises(TypeMismatch, match="no element type 'complex64'; there are float64"):
        as_dtype("complex64")
    with pytest.raises(TypeMismatch, match="no element type"):
        as_dtype(object())


@given(hnp.arrays(np.uint32, st.integers(0, 20)))
def test_rounding_to_bfloat16_is_torchs(bits: np.ndarray) -> None:
    x = bits.view(np.float32)
    stored = to_storage(x, bfloat16)
    wanted = torch.from_numpy(x).to(torch.bfloat16)
    number = ~np.isnan(x)
    assert stored.dtype == np.uint16
    np.testing.assert_array_equal(stored[number], wanted.view(torch.uint16).numpy()[number])
    np.testing.assert_array_equal(from_storage(stored, bfloat16), wanted.float().numpy())


def test_edges_of_bfloat16() -> None:
    x = np.array(
        [3.4e38, -3.4e38, 1.0039062, 1.0039063, 1.0117188, 1e-40, np.inf, np.nan], np.float32
    )
    np.testing.assert_array_equal(
        finish(x, bfloat16), torch.from_numpy(x).bfloat16().float().numpy()
    )


@given(hnp.arrays(np.uint16, st.integers(0, 20)))
def test_stored_bfloat16_comes_back(bits: np.ndarray) -> None:
    number = ~np.isnan(from_storage(bits, bfloat16))
    np.testing.assert_array_equal(
        to_storage(from_storage(bits, bfloat16), bfloat16)[number], bits[number]
    )


def test_finish_brings_values_to_the_type() -> None:
    assert finish(np.array([1.5, -2.5]), as_dtype("int32")).tolist() == [1, -2]
    assert finish(np.float64(1e300), as_dtype("float32")) == np.inf
    assert finish(np.array([256, 257]), as_dtype("uint8")).tolist() == [0, 1]
    scalar = finish(np.float32(1.0), bfloat16)
    assert scalar.shape == ()
    assert scalar.dtype == np.float32
