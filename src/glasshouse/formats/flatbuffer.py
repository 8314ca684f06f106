"""How a flatbuffer is read without generated code: tables by slot, every offset checked.

A table points to a vtable of field offsets; slot i is the i-th field of its schema. Offsets of a
hostile file may point anywhere and be shared, so each read is bounds-checked and all vectors
together may hold no more than a budget that grows with the file.
"""

from __future__ import annotations

import struct

import numpy as np

from glasshouse.formats.source import SourceFile

_LAYOUT = {
    "i8": "<b", "u8": "<B", "bool": "<?", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I",
    "i64": "<q", "u64": "<Q", "f32": "<f", "f64": "<d",
}  # fmt: skip
_SIZE = {name: struct.calcsize(layout) for name, layout in _LAYOUT.items()}
_NUMPY = {
    "i8": "<i1", "u8": "<u1", "bool": "<u1", "i16": "<i2", "u16": "<u2", "i32": "<i4",
    "u32": "<u4", "i64": "<i8", "u64": "<u8", "f32": "<f4", "f64": "<f8",
}  # fmt: skip
Number = int | float | bool


class FlatBuffer:
    """The bytes of one flatbuffer."""

    def __init__(self, source: SourceFile, data: bytes) -> None:
        self.source = source
        self.data = data
        self.at = 0
        self.spend = source.budget.spend
        source.budget.place = lambda: f"byte {self.at}"

    def number(self, kind: str, at: int) -> Number:
        self.at = at
        if not 0 <= at <= len(self.data) - _SIZE[kind]:
            raise self.source.error(f"an offset points outside the file (byte {at})")
        value: Number = struct.unpack_from(_LAYOUT[kind], self.data, at)[0]
        return value

    def root(self) -> FlatTable:
        return FlatTable(self, int(self.number("u32", 0)))


class FlatTable:
    """A table at a position; fields by slot, absent ones give the default."""

    def __init__(self, buffer: FlatBuffer, at: int) -> None:
        self.buffer = buffer
        self.at = at
        self.vtable = at - int(buffer.number("i32", at))
        self.size = int(buffer.number("u16", self.vtable))

    def place(self, slot: int) -> int:
        """Where a field lies; 0 if it is absent."""
        if 4 + 2 * slot + 2 > self.size:
            return 0
        offset = int(self.buffer.number("u16", self.vtable + 4 + 2 * slot))
        return self.at + offset if offset else 0

    def number(self, slot: int, kind: str, default: Number = 0) -> Number:
        place = self.place(slot)
        return self.buffer.number(kind, place) if place else default

    def integer(self, slot: int, kind: str = "i32", default: int = 0) -> int:
        return int(self.number(slot, kind, default))

    def _target(self, slot: int) -> int:
        place = self.place(slot)
        return place + int(self.buffer.number("u32", place)) if place else 0

    def table(self, slot: int) -> FlatTable | None:
        target = self._target(slot)
        return FlatTable(self.buffer, target) if target else None

    def string(self, slot: int) -> str:
        target = self._target(slot)
        return _string(self.buffer, target) if target else ""

    def length(self, slot: int) -> int:
        """How many elements a vector has, without reading them."""
        target = self._target(slot)
        return int(self.buffer.number("u32", target)) if target else 0

    def numbers(self, slot: int, kind: str) -> list[Number]:
        """A vector of numbers."""
        target = self._target(slot)
        if not target:
            return []
        count = self._count(target, _SIZE[kind])
        values = np.frombuffer(self.buffer.data, _NUMPY[kind], count, target + 4)
        out: list[Number] = (values != 0).tolist() if kind == "bool" else values.tolist()
        return out

    def ints(self, slot: int, kind: str = "i32") -> list[int]:
        return [int(n) for n in self.numbers(slot, kind)]

    def tables(self, slot: int) -> list[FlatTable]:
        """A vector of tables."""
        return [FlatTable(self.buffer, at) for at in self._targets(slot)]

    def strings(self, slot: int) -> list[str]:
        return [_string(self.buffer, at) for at in self._targets(slot)]

    def _targets(self, slot: int) -> list[int]:
        """Where the elements of a vector lie that are given by their distances."""
        target = self._target(slot)
        if not target:
            return []
        count = self._count(target, 4)
        offsets = np.frombuffer(self.buffer.data, "<u4", count, target + 4).tolist()
        return [target + 4 + 4 * i + offset for i, offset in enumerate(offsets)]

    def _count(self, target: int, size: int) -> int:
        count = int(self.buffer.number("u32", target))
        if target + 4 + count * size > len(self.buffer.data):
            raise self.buffer.source.error(f"a list of {count} elements is longer than the file")
        self.buffer.spend("items", count)
        return count


def _string(buffer: FlatBuffer, at: int) -> str:
    size = int(buffer.number("u32", at))
    if at + 4 + size > len(buffer.data):
        raise buffer.source.error(f"a string of {size} bytes is longer than the file")
    buffer.spend("items", size // 8 + 1)
    return buffer.data[at + 4 : at + 4 + size].decode("utf-8", "replace")
