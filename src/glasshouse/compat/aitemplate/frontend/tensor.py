"""AITemplate's `Tensor`: a type with a dictionary of attributes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import count
from typing import Any

import glasshouse as gh
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import as_dtype
from glasshouse.ir.sources import INPUT
from glasshouse.ir.types import tensor_type
from glasshouse.tensor.pending import LazyNode
from glasshouse.tensor.place import current_origin

_number = count().__next__


def IntVar(values: Sequence[int], name: str = "") -> Dim:  # AITemplate's name
    """A size between the least and the greatest of `values`."""
    low, high = min(values), max(values)
    return low if low == high else gh.symbol(name or f"dim_{_number()}", low, high)


class Tensor(gh.Tensor):
    """A tensor with `_attrs`; `Tensor(shape=, name=, dtype=, is_input=True)` is an input."""

    def __init__(
        self,
        shape: Sequence[int | SymDim],
        name: str = "",
        dtype: str = "float16",
        is_input: bool = False,
        is_output: bool = False,
    ) -> None:
        kind = tensor_type(as_dtype(dtype), shape)
        called = name or f"input_{_number()}"
        attrs = {"dtype": kind.dtype, "shape": kind.shape, "name": called}
        node = LazyNode(INPUT, (), attrs, (kind,), current_origin(sys._getframe(1)))
        super().__init__(node.outputs[0], called)
        self._attrs: dict[str, Any] = {
            "name": called, "shape": list(kind.shape), "dtype": dtype, "is_input": is_input,
            "is_output": is_output, "is_param": False,
        }  # fmt: skip


def with_attrs(result: Any) -> Any:
    """What a module gives, as tensors with `_attrs`."""
    if isinstance(result, (tuple, list)):
        return type(result)(with_attrs(r) for r in result)
    if not isinstance(result, gh.Tensor) or isinstance(result, Tensor):
        return result
    made = Tensor.__new__(Tensor)
    gh.Tensor.__init__(made, result.value)
    made._attrs = {
        "name": None, "shape": list(result.shape), "dtype": result.dtype.name, "is_input": False,
        "is_output": False, "is_param": False,
    }  # fmt: skip
    return made
