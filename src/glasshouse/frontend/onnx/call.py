"""What a spelling sees of an ONNX node: operands, what is known of them, attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.errors import CaptureError
from glasshouse.frontend.onnx.dtypes import dtype_of
from glasshouse.frontend.onnx.item import Array, Item, of_sizes
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import DType, int64
from glasshouse.ir.types import TensorType

if TYPE_CHECKING:
    from glasshouse.frontend.onnx.importer import OnnxImporter


class NotKnown(CaptureError):
    """An operand that a spelling needs as numbers, and that is known when the model runs only."""


class OnnxCall:
    """One ONNX node with its operands."""

    def __init__(
        self, importer: OnnxImporter, node: Any, items: list[Item | None], attrs: dict[str, Any]
    ) -> None:
        self.importer = importer
        self.node = node
        self.items = items
        self.attrs = attrs
        self.opset: int = importer.opset(node.domain)

    @property
    def builder(self) -> GraphBuilder:
        return self.importer.builder

    @property
    def outputs(self) -> int:
        """How many outputs are asked for, up to the last one with a name."""
        names = list(self.node.output)
        while names and not names[-1]:
            names.pop()
        return len(names)

    # ------------------------------------------------------------------------------------ operands
    def __len__(self) -> int:
        return len(self.items)

    def has(self, place: int) -> bool:
        return place < len(self.items) and self.items[place] is not None

    def item(self, place: int) -> Item:
        found = self.items[place] if place < len(self.items) else None
        if found is None:
            raise CaptureError(f"{self.node.op_type} needs its operand {place}")
        return found

    def __getitem__(self, place: int) -> Any:
        """An operand as a handle; None where it is left out."""
        return self.item(place).handle if self.has(place) else None

    def handles(self) -> list[Any]:
        return [self[i] for i in range(len(self))]

    def type(self, place: int) -> TensorType:
        return self.item(place).type

    # ------------------------------------------------------------------------------- known elements
    def value(self, place: int) -> Array | None:
        """The elements of an operand, numbers or sizes; None where they are not known."""
        return self.importer.value(self.item(place)) if self.has(place) else None

    def known(self, place: int) -> Array:
        found = self.value(place)
        if found is None:
            self.importer.want(self.item(place))
            raise NotKnown(f"{self.node.op_type}: operand {place} is not known before it runs")
        return found

    def sizes(self, place: int) -> list[Dim]:
        """A list of whole numbers, some of which may be symbolic."""
        return [d if isinstance(d, SymDim) else int(d) for d in self.known(place).reshape(-1)]

    def ints(self, place: int) -> list[int]:
        found = []
        for size in self.sizes(place):
            if isinstance(size, SymDim):
                raise NotKnown(f"{self.node.op_type}: operand {place} depends on the size {size}")
            found.append(size)
        return found

    def number(self, place: int) -> Any:
        """The one element of an operand as a Python number."""
        found = self.known(place).reshape(-1)[0]
        if isinstance(found, SymDim):
            raise NotKnown(f"{self.node.op_type}: operand {place} depends on the size {found}")
        return found.item() if isinstance(found, np.generic) else found

    def given(self, place: int, attribute: str, default: Any = None) -> Any:
        """A list that newer versions take as an operand and older ones as an attribute."""
        if self.has(place):
            return self.ints(place)
        return self.attr(attribute, default)

    # ----------------------------------------------------------------------------------- attributes
    def attr(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)

    def dtype(self, name: str, default: DType | None = None) -> DType:
        number = self.attrs.get(name)
        if number is None or (number == 0 and default is not None):
            if default is None:
                raise CaptureError(f"{self.node.op_type} needs the attribute {name}")
            return default
        return dtype_of(number, f"the result of {self.node.op_type}")

    # --------------------------------------------------------------------------------- what is made
    def constant(self, data: Any, dtype: DType | None = None) -> Any:
        return self.builder.wrap(self.builder.constant(data, dtype))

    def full(self, shape: Any, value: Any, dtype: DType) -> Any:
        return self.builder.apply("full", shape=tuple(shape), value=value, dtype=dtype)

    def of_sizes(self, sizes: Any, dtype: DType = int64) -> Item:
        return of_sizes(self.builder, sizes, dtype)

    def declared(self, output: int = 0) -> TensorType | None:
        """What the file says about an output, if it says all of it."""
        return self.importer.declared(self.node.output[output])

    def declared_for_want_of(self, place: int, outputs: int = 1) -> list[TensorType] | None:
        """What the file says about the first outputs, where operand `place`, from which it would
        follow, is not known before it runs."""
        if not self.has(place) or self.value(place) is not None:
            return None
        found = [t for t in map(self.declared, range(outputs)) if t is not None]
        if len(found) < outputs:
            return None
        self.importer.want(self.item(place))
        return found
