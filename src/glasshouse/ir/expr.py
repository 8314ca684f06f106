"""How one computes with a value in Python: operators and a few methods, all of them ops.

An `Expr` is a value together with the builder that adds what is computed from it. Passes and
gradients compute with it; the lazy `Tensor` extends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from glasshouse.ir.dim import Dim
from glasshouse.ir.dtype import DType, as_dtype
from glasshouse.ir.op import op_named
from glasshouse.ir.types import TensorType

if TYPE_CHECKING:
    from glasshouse.ir.builder import Builder
    from glasshouse.ir.graph import Value


class Expr:
    """A value that one can compute with."""

    __slots__ = ("builder", "value")

    def __init__(self, value: Value, builder: Builder) -> None:
        self.value = value
        self.builder = builder

    @property
    def type(self) -> TensorType:
        return self.value.type

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.value.type.shape

    @property
    def dtype(self) -> DType:
        return self.value.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.value.type.shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value.type})"

    def apply(self, op: str, *args: Any, **attrs: Any) -> Any:
        """The op of this name with this value as its first operand."""
        return op_named(op)(self, *args, **attrs)

    def _reflected(self, op: str, left: Any) -> Any:
        node = op_named(op).emit(self.builder, [left, self], {})
        return self.builder.wrap(node.outputs[0])

    def __add__(self, other: Any) -> Any:
        return self.apply("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._reflected("add", other)

    def __sub__(self, other: Any) -> Any:
        return self.apply("subtract", other)

    def __rsub__(self, other: Any) -> Any:
        return self._reflected("subtract", other)

    def __mul__(self, other: Any) -> Any:
        return self.apply("multiply", other)

    def __rmul__(self, other: Any) -> Any:
        return self._reflected("multiply", other)

    def __truediv__(self, other: Any) -> Any:
        return self.apply("divide", other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._reflected("divide", other)

    def __floordiv__(self, other: Any) -> Any:
        return self.apply("floor_divide", other)

    def __mod__(self, other: Any) -> Any:
        return self.apply("remainder", other)

    def __pow__(self, other: Any) -> Any:
        return self.apply("power", other)

    def __rpow__(self, other: Any) -> Any:
        return self._reflected("power", other)

    def __matmul__(self, other: Any) -> Any:
        return self.apply("matmul", other)

    def __neg__(self) -> Any:
        return self.apply("negative")

    def __abs__(self) -> Any:
        return self.apply("absolute")

    def __lt__(self, other: Any) -> Any:
        return self.apply("less", other)

    def __le__(self, other: Any) -> Any:
        return self.apply("less_equal", other)

    def __gt__(self, other: Any) -> Any:
        return self.apply("greater", other)

    def __ge__(self, other: Any) -> Any:
        return self.apply("greater_equal", other)

    def __and__(self, other: Any) -> Any:
        return self.apply("bitwise_and", other)

    def __or__(self, other: Any) -> Any:
        return self.apply("bitwise_or", other)

    def __xor__(self, other: Any) -> Any:
        return self.apply("bitwise_xor", other)

    def __invert__(self) -> Any:
        return self.apply("bitwise_not")

    def cast(self, dtype: object) -> Any:
        """With another element type; the same handle where it has it already."""
        wanted = as_dtype(dtype)
        return self if self.dtype is wanted else self.apply("cast", dtype=wanted)
