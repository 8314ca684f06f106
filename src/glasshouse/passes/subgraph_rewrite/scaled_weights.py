"""Weights of a product with the scale of the norm before it in them, made where the weights lie.

Half of a model's weights may be behind norms, and NumPy takes 6 ns for an element of float16 (47 M
of BERT-base: 0.3 s in every compile), so data on a device says itself how large it is and what it
becomes. Both ways give the same bits: products of two half floats are exact in float32, so each
weight is rounded once, and sums are of float64.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from glasshouse.ir.dtype import DType, from_storage, to_storage
from glasshouse.ir.graph import Value
from glasshouse.passes.patterns import Array, array_of


@runtime_checkable
class Elsewhere(Protocol):
    """Data of a constant that is not on the host, and computes where it is."""

    def largest(self) -> float: ...

    def scaled(self, scale: Array, shift: Array) -> tuple[Any, Array]: ...


def largest(value: Value) -> float:
    """The largest magnitude in a constant of half floats; NaN if there is one."""
    data, dtype = value.node.attrs["data"], value.type.dtype
    if isinstance(data, Elsewhere):
        return data.largest()
    # Without their sign, bits of floats are in order: NaN behind infinity behind all numbers.
    bits = np.asarray(data).view(np.uint16) & np.uint16(0x7FFF)
    most = bits.max(initial=0, keepdims=True).view(dtype.storage)
    return float(from_storage(most, dtype).reshape(()))


def scaled(weight: Value, scale: Value, shift: Value) -> tuple[Any, Array]:
    """Weights [columns, depth] times a scale along the depth, as a constant holds them; of each
    column the sum of these, and of the weights times the shift, [2, columns]."""
    data = weight.node.attrs["data"]
    along = plain(scale), plain(shift)
    if isinstance(data, Elsewhere):
        return data.scaled(*along)
    return _on_host(plain(weight), *along, weight.type.dtype)


def _on_host(weight: Array, scale: Array, shift: Array, dtype: DType) -> tuple[Array, Array]:
    made = to_storage(weight * scale, dtype)
    sums = from_storage(made, dtype).astype(np.float32).sum(1, dtype=np.float64)
    shifts = np.multiply(weight, shift, out=weight).sum(1, dtype=np.float64)
    return made, np.stack([sums, shifts]).astype(np.float32)


def plain(value: Value) -> Array:
    """The data of a constant that is at hand, as float32 of its own."""
    found = array_of(value)
    assert found is not None, "asked before"
    return found.astype(np.float32)
