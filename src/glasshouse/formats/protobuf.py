"""How a protobuf message is read without generated code: fields by name, decoded when asked for.

A message is a run of fields, each with a number, a wire type and, for most, a length. `schemas`
describes the messages of a format in a few lines; `read` gives the outermost one. Only the fields
of messages that somebody asks for are looked at, numbers of a large tensor are never decoded unless
asked for, and bytes are views of the file. Every length is checked against the message around it.

    MODEL = schemas({"Model": "1 name text, 2 layers Layer*", "Layer": "1 size int"})["Model"]
    read(source, MODEL, "a model").layers[0].size
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from glasshouse.formats.source import SourceFile

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_NUMBERS = {"int": VARINT, "bool": VARINT, "double": FIXED64, "float": FIXED32}
_LAYOUT = {"double": "<d", "float": "<f"}
_EMPTY: dict[str, Any] = {
    "int": 0, "bool": False, "double": 0.0, "float": 0.0, "text": "", "bytes": b"",
}  # fmt: skip
Span = tuple[int, int]  # where a number, or a packed run of them, begins and ends


@dataclass(frozen=True)
class MessageField:
    name: str
    kind: str  # int, bool, float, double, text, bytes, or the name of a message
    repeated: bool
    message: Schema | None = None


@dataclass
class Schema:
    """The fields of one kind of message, and what stands for absent ones."""

    name: str
    fields: dict[str, MessageField] = dataclasses.field(default_factory=dict)
    absent: dict[str, Any] = dataclasses.field(default_factory=dict)
    tags: dict[int, Tag] = dataclasses.field(default_factory=dict)

    def add(self, number: int, field: MessageField) -> None:
        self.fields[field.name] = field
        if field.repeated or field.message is None:
            self.absent[field.name] = () if field.repeated else _EMPTY[field.kind]
        wire = _NUMBERS.get(field.kind, BYTES)
        is_run = field.repeated and wire != BYTES
        tag = (field.name, "run" if is_run else field.kind, field.repeated, field.message)
        self.tags[number << 3 | wire] = tag
        if is_run:  # the same numbers, packed into bytes
            self.tags[number << 3 | BYTES] = tag


Tag = tuple[str, str, bool, "Schema | None"]  # name, kind, repeated, message
_UNKNOWN: Tag = ("", "", False, None)
_NONE: dict[str, list[Span]] = {}


def schemas(described: Mapping[str, str]) -> dict[str, Schema]:
    """Schemas from text: "NUMBER NAME KIND, ..."; a star after the kind: any number of them."""
    found = {name: Schema(name) for name in described}
    for name, text in described.items():
        for part in text.split(","):
            number, title, kind = part.split()
            plain = kind.rstrip("*")
            if plain not in found and plain not in _EMPTY:
                raise ValueError(f"{name}.{title}: there is no {plain}")
            found[name].add(
                int(number), MessageField(title, plain, plain != kind, found.get(plain))
            )
    return found


def read(source: SourceFile, schema: Schema, title: str) -> Message:
    """The message that a whole file is; `title` says of what: "an ONNX model"."""
    data = source.data()
    return Message(_File(source, data, title), schema, 0, len(data))


class _File:
    """The bytes that all messages of a file lie in."""

    def __init__(self, source: SourceFile, data: bytes, title: str) -> None:
        self.data = data
        self.title = title
        self.view = memoryview(data)
        self.source = source
        self.spend = source.budget.spend

    def error(self, at: int, what: str) -> Exception:
        whole = len(self.data)
        return self.source.error(f"not {self.title}, or cut off: {what} at byte {at} of {whole:,}")

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """A number of up to 64 bits, and where it ends."""
        if at < end and self.data[at] < 0x80:
            return self.data[at], at + 1
        value = shift = 0
        for place in range(at, min(at + 10, end)):
            byte = self.data[place]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
            shift += 7
        raise self.error(at, "a number without an end")


class Message:
    """A part of the file; `message.name` is a field, or what stands for one that is absent.

    The first question parses it: from then on its fields are plain attributes. Runs of numbers and
    absent messages become attributes when they are asked for.
    """

    def __init__(self, file: _File, schema: Schema, begin: int, end: int) -> None:
        self._file = file
        self._schema = schema
        self._begin = begin
        self._end = end

    def __getattr__(self, name: str) -> Any:
        if name in ("_there", "_runs"):
            self._parse()
            return self.__dict__[name]
        field = self._schema.fields.get(name)
        if field is None:
            raise AttributeError(f"{self._schema.name} has no {name}")
        if name in self._runs:
            found: Any = tuple(self._numbers(field.kind, self._runs[name]))
        elif name in self.__dict__:  # parsed just now
            return self.__dict__[name]
        else:
            assert field.message is not None
            found = Message(self._file, field.message, 0, 0)
        self.__dict__[name] = found
        return found

    def has(self, name: str) -> bool:
        return name in self._there

    def chosen(self, *names: str) -> str:
        """The one of several fields that is there: the last, if the file has more; "" if none."""
        there = [name for name in self._there if name in names]
        return there[-1] if there else ""

    def fields(self) -> tuple[str, ...]:
        """The names of the fields that a message of this kind can have."""
        return tuple(self._schema.fields)

    def byte_count(self) -> int:
        """How much of the file it takes."""
        return self._end - self._begin

    def _numbers(self, kind: str, spans: list[Span]) -> list[Any]:
        file = self._file
        out: list[Any] = []
        for at, end in spans:
            if kind in _LAYOUT:
                size = struct.calcsize(_LAYOUT[kind])
                if (end - at) % size:
                    raise file.error(at, f"numbers of {size} bytes that do not come out even")
                out.extend(v for (v,) in struct.iter_unpack(_LAYOUT[kind], file.view[at:end]))
                continue
            while at < end:
                value, at = file.varint(at, end)
                out.append(_signed(kind, value))
                if not len(out) % 4096:
                    file.source.budget.check_time()
        return out

    def _parse(self) -> None:
        """One pass over the fields; in line, for a file of 100,000 nodes has two million."""
        file, at, end = self._file, self._begin, self._end
        data, known = file.data, self._schema.tags
        there: dict[str, Any] = {}  # in the order of the file: of several, the last one counts
        runs: dict[str, list[Span]] = {}
        count = number = 0
        while at < end:
            count += 1
            begin = at
            tag = data[at]
            at += 1
            if tag >= 0x80:
                tag, at = file.varint(begin, end)
            wire = tag & 7
            if wire == BYTES:
                size, at = (
                    file.varint(at, end) if at >= end or data[at] > 0x7F else (data[at], at + 1)
                )
                stop = at + size
            elif wire == VARINT:
                number, stop = file.varint(at, end)
            elif wire in (FIXED32, FIXED64):
                stop = at + (4 if wire == FIXED32 else 8)
            else:
                raise file.error(begin, "a field of no known kind")
            if stop > end or tag < 8:
                raise file.error(begin, "a field that does not fit")
            # Of a tag that is not known, the number or the wire type is another one: passed over.
            name, kind, repeated, schema = known.get(tag, _UNKNOWN)
            value: Any
            if not kind:
                at = stop
                continue
            if schema is not None:
                value = Message(file, schema, at, stop)
            elif kind == "text":
                value = data[at:stop].decode("utf-8", "replace")
            elif kind == "run":
                value = (at, stop)
            elif kind == "bytes":
                value = file.view[at:stop]
            elif wire == VARINT:
                value = _signed(kind, number)
            else:
                (value,) = struct.unpack_from(_LAYOUT[kind], data, at)
            at = stop
            if repeated:
                into = runs if kind == "run" else there
                if name in into:
                    into[name].append(value)
                else:
                    into[name] = [value]
            else:
                there.pop(name, None)
                there[name] = value
        file.spend("objects", count)
        attributes = self.__dict__
        attributes.update(self._schema.absent)
        attributes.update(there)
        for name in runs:
            del attributes[name]
        attributes["_there"], attributes["_runs"] = (*there, *runs), runs or _NONE


def _signed(kind: str, value: int) -> int | bool:
    return bool(value) if kind == "bool" else value - (1 << 64) if value >> 63 else value
