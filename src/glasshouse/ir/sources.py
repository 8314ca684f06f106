"""The three ops that compute nothing: what enters a graph, what it holds, what it keeps.

`input` is given at each run; `constant` is fixed when the graph is made (weights for inference);
`variable` lives between runs and may take a new value after each (weights in training, running
statistics, caches). A graph's `updates` say which value a variable takes.
"""

from __future__ import annotations

from typing import Any

from glasshouse.errors import ExecutionError
from glasshouse.ir.attrs import ANY, DIMS, DTYPE, STR
from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType
from glasshouse.ir.op import Kind, NoGradient, Op, register
from glasshouse.ir.types import TensorType, tensor_type


def _declared(*, dtype: DType, shape: tuple[Dim, ...], **_: Any) -> TensorType:
    return tensor_type(dtype, shape)


def _no_meaning(*_: Any, **attrs: Any) -> Any:
    raise ExecutionError(f"{attrs.get('name') or 'a source'} has no data")


_ATTRS = {"dtype": DTYPE, "shape": DIMS, "name": STR("")}
_NONE = NoGradient("it has no operands")

INPUT = register(
    Op("input", Kind.SOURCE, "source", _declared, _no_meaning, _NONE, _ATTRS, inputs=())
)
CONSTANT = register(
    Op(
        "constant", Kind.SOURCE, "source", _declared, _no_meaning, _NONE,
        {**_ATTRS, "data": ANY(None)}, inputs=(),
    )
)  # fmt: skip
VARIABLE = register(
    Op(
        "variable", Kind.SOURCE, "source", _declared, _no_meaning, _NONE,
        {**_ATTRS, "data": ANY(None)}, inputs=(),
    )
)  # fmt: skip
