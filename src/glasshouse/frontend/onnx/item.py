"""What an ONNX value is during import: a handle, or what is known of it before a handle.

Shapes travel through ONNX graphs as int64 tensors. Such a tensor is kept as an array of sizes and
becomes nodes only when something reads it as a tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import DType, from_storage, to_storage
from glasshouse.ir.origin import Origin
from glasshouse.ir.types import TensorType, tensor_type

Array = np.ndarray[Any, Any]


class Item:
    """One value: `data` (stored elements), `sizes` (an object array of numbers and sizes) or a
    handle."""

    __slots__ = ("_handle", "builder", "data", "dtype", "name", "origin", "sizes")

    def __init__(
        self,
        builder: GraphBuilder,
        dtype: DType,
        *,
        handle: Any = None,
        data: Array | None = None,
        sizes: Array | None = None,
        name: str = "",
    ) -> None:
        self.builder = builder
        self.dtype = dtype
        self.data = data
        self.sizes = sizes
        self.name = name
        self.origin: Origin = builder.origin
        self._handle = handle

    @property
    def handle(self) -> Any:
        if self._handle is None:
            with self.builder.at(self.origin):
                if self.data is not None:
                    self._handle = self.builder.weight(self.data, self.dtype, self.name)
                else:
                    assert self.sizes is not None
                    self._handle = _made(self.builder, self.sizes, self.dtype)
        return self._handle

    @property
    def type(self) -> TensorType:
        if self._handle is not None:
            found: TensorType = self._handle.type
            return found
        held = self.data if self.data is not None else self.sizes
        assert held is not None
        return tensor_type(self.dtype, held.shape)

    @property
    def value(self) -> Array | None:
        """The elements, when they were known from the start."""
        if self.data is not None:
            return from_storage(self.data, self.dtype)
        return self.sizes

    def into(self, builder: GraphBuilder) -> Item:
        """The same known elements in another graph."""
        out = Item(builder, self.dtype, data=self.data, sizes=self.sizes, name=self.name)
        out.origin = self.origin
        return out


def of_handle(handle: Any) -> Item:
    return Item(handle.builder, handle.dtype, handle=handle)


def of_sizes(builder: GraphBuilder, sizes: Any, dtype: DType) -> Item:
    """Numbers and sizes as an item: plain data where no size is symbolic."""
    array = np.asarray(sizes, object)
    if any(isinstance(s, SymDim) for s in array.reshape(-1)):
        return Item(builder, dtype, sizes=array)
    return Item(builder, dtype, data=to_storage(array.astype(dtype.carrier), dtype))


def _made(builder: GraphBuilder, sizes: Array, dtype: DType) -> Any:
    if sizes.ndim == 0:
        return builder.apply("full", shape=(), value=_plain(sizes[()]), dtype=dtype)
    parts: list[Any] = []
    run: list[Any] = []
    for size in [*sizes.reshape(-1), None]:
        if isinstance(size, SymDim) or size is None:
            if run:
                parts.append(builder.weight(np.asarray(run, dtype.carrier), dtype))
                run = []
            if size is not None:
                parts.append(builder.apply("full", shape=(1,), value=size, dtype=dtype))
        else:
            run.append(size)
    out = parts[0] if len(parts) == 1 else builder.apply("concat", *parts, axis=0)
    return out if sizes.ndim == 1 else out.apply("reshape", shape=sizes.shape)


def _plain(size: Any) -> Dim | float:
    found: Dim | float = size.item() if isinstance(size, np.generic) else size
    return found
