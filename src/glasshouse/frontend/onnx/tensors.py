"""How stored tensors become arrays: without a copy where the file has them in one piece.

External data is memory-mapped, and its path must stay inside the model's folder: a model file may
come from anywhere, and must not read other files of the machine.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from glasshouse.errors import FormatError
from glasshouse.frontend.onnx.dtypes import dtype_of
from glasshouse.frontend.onnx.package import onnx_package
from glasshouse.ir.dtype import DType

Array = np.ndarray[Any, Any]


def array_of(tensor: Any, folder: str | None) -> tuple[Array, DType]:
    """A TensorProto's elements as they are stored (bfloat16 as uint16, float8 as uint8), and their
    type."""
    what = f"tensor {tensor.name!r}"
    dtype = dtype_of(tensor.data_type, what)
    shape = tuple(tensor.dims)
    if any(size < 0 for size in shape):
        raise FormatError(f"{what} has a negative size: {list(shape)}")
    if tensor.data_location == 1:
        return _external(tensor, dtype, shape, folder), dtype
    if tensor.HasField("raw_data"):
        found = len(tensor.raw_data)
        if found != math.prod(shape) * dtype.itemsize:
            raise FormatError(f"{what} of shape {list(shape)} has {found} bytes of {dtype}")
        return np.frombuffer(tensor.raw_data, _little(dtype)).reshape(shape), dtype
    try:
        array = onnx_package().numpy_helper.to_array(tensor)
    except Exception as error:  # a wrong number of elements ends in several classes
        raise FormatError(f"{what} is damaged ({error})") from None
    if dtype.is_carried:
        array = array.view(dtype.storage)
    return array.reshape(shape), dtype


def _little(dtype: DType) -> np.dtype[Any]:
    return dtype.storage.newbyteorder("<")


def _external(tensor: Any, dtype: DType, shape: tuple[int, ...], folder: str | None) -> Array:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    what = f"tensor {tensor.name!r}"
    if folder is None:
        raise FormatError(
            f"the data of {what} lies in {location!r}, and the model has no folder",
            hint="give the path of the model, or load its data with onnx.load",
        )
    path = inside(folder, location, what)
    size = math.prod(shape) * dtype.itemsize
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or size)
    except ValueError:
        raise FormatError(f"{what} has a damaged place in {location!r}") from None
    held = os.path.getsize(path)
    if offset < 0 or length != size or offset + size > held:
        raise FormatError(
            f"{what} needs {size} bytes from {offset} of {location!r}, which has {held} "
            f"(length says {length})"
        )
    if not size:
        return np.zeros(shape, dtype.storage)
    return np.memmap(path, _little(dtype), "r", offset, shape)


def inside(folder: str, location: str, what: str) -> str:
    """The path of an external file, which must lie in the model's folder, links resolved."""
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, location))
    if not location or os.path.isabs(location) or os.path.commonpath([root, path]) != root:
        raise FormatError(f"the data of {what} lies outside the model's folder: {location!r}")
    if not os.path.isfile(path):
        raise FormatError(f"the data of {what} is missing: {location!r} is not beside the model")
    return path
