"""The protobuf reader: what the real library reads, it reads alike; damage is one line."""

from __future__ import annotations

import struct
from typing import Any

import onnx
import pytest

from glasshouse.errors import FormatError
from glasshouse.formats.onnx.schema import MESSAGES
from glasshouse.formats.protobuf import Message, read, schemas
from glasshouse.formats.source import SourceFile

KINDS = {
    1: "double", 2: "float", 3: "int", 5: "int", 9: "text", 11: "message", 12: "bytes", 14: "int",
}  # fmt: skip
OURS = {
    "TensorType": onnx.TypeProto.Tensor, "Inner": onnx.TypeProto.Sequence,
    "Map": onnx.TypeProto.Map, "Dimension": onnx.TensorShapeProto.Dimension,
}  # fmt: skip
PERSON = schemas(
    {
        "Person": "1 name text, 2 age int, 3 friend Person, 4 marks int*, 5 sizes float*, "
        "6 data bytes, 7 children Person*, 8 good bool, 20 far double",
    }
)["Person"]


def person(data: bytes) -> Message:
    return read(SourceFile(data, "person.bin"), PERSON, "a person")


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def part(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


@pytest.mark.parametrize("name", list(MESSAGES))
def test_the_numbers_and_kinds_of_fields_are_those_of_onnx(name: str) -> None:
    theirs: Any = (OURS.get(name) or getattr(onnx, name)).DESCRIPTOR.fields_by_name
    for field in MESSAGES[name].fields.values():
        real = theirs[field.name]
        kind = "message" if field.message else field.kind
        assert kind == KINDS[real.type], field.name
        assert field.repeated == real.is_repeated, field.name
        tags = MESSAGES[name].tags.items()
        assert {tag >> 3 for tag, (n, *_) in tags if n == field.name} == {real.number}


def test_fields_of_every_kind() -> None:
    data = (
        part(1, "Zoë".encode()) + number(2, -5) + part(4, varint(1) + varint(-2)) + number(4, 300)
    )
    data += part(5, struct.pack("<2f", 0.5, -1)) + varint(5 << 3 | 5) + struct.pack("<f", 2)
    data += part(6, b"\xff\x00") + part(7, part(1, b"a")) + part(7, b"") + number(8, 1)
    data += varint(20 << 3 | 1) + struct.pack("<d", 1e300)
    found = person(data)
    assert (found.name, found.age, found.good, found.far) == ("Zoë", -5, True, 1e300)
    assert found.marks == (1, -2, 300)
    assert found.sizes == (0.5, -1.0, 2.0)
    assert bytes(found.data) == b"\xff\x00"
    assert [c.name for c in found.children] == ["a", ""]
    assert found.has("age")
    assert not found.has("friend")


def test_what_is_absent_has_a_value_and_what_is_unknown_is_passed_over() -> None:
    found = person(number(99, 7) + varint(98 << 3 | 1) + b"12345678" + part(2, b"not a number"))
    assert (found.name, found.age, found.marks, found.children) == ("", 0, (), ())
    assert not bytes(found.data)
    assert found.friend.friend.name == ""
    with pytest.raises(AttributeError, match="Person has no hat"):
        _ = found.hat


def test_of_several_the_last_counts() -> None:
    data = number(2, 1) + part(1, b"first") + number(2, 3) + part(1, b"last")
    found = person(data)
    assert (found.name, found.age, found.chosen("name", "age")) == ("last", 3, "name")
    assert found.chosen("friend") == ""


def everything(found: Message) -> object:
    return found.sizes, [child.name for child in found.children]


@pytest.mark.parametrize(
    "data, message",
    [
        (part(1, b"cut off")[:-1], "a field that does not fit at byte 0"),
        (part(7, part(1, b"inner") + b"\x0a\x7f"), "a field that does not fit at byte 9"),
        (b"\x10" + b"\xff" * 11, "a number without an end at byte 1"),
        (b"\x0a", "a number without an end at byte 1"),
        (b"\x0b\x0c", "a field of no known kind at byte 0"),
        (b"\x02\x01x", "a field that does not fit at byte 0"),
        (part(5, b"123"), "numbers of 4 bytes that do not come out even at byte 2"),
    ],
)  # fmt: skip
def test_damage_is_one_line_with_its_place(data: bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        everything(person(data))
    assert str(caught.value) == (f"person.bin: not a person, or cut off: {message} of {len(data)}")
