"""Writes small flatbuffers for tests, from plain descriptions.

A table is a dict by slot. A field is a pair (kind, number), a string, a table, a list of tables or
strings, or (kind, [numbers]) for a vector. Children are laid out after their parents, because
offsets in a flatbuffer point forward.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import Any

LAYOUT = {"i8": "b", "u8": "B", "bool": "?", "i16": "h", "u16": "H", "i32": "i", "u32": "I",
          "i64": "q", "u64": "Q", "f32": "f", "f64": "d"}  # fmt: skip


def write(root: dict[int, Any], identifier: bytes) -> bytes:
    data = bytearray(struct.pack("<I4s", 0, identifier))
    waiting: deque[tuple[int, Any]] = deque([(0, root)])  # an offset to patch, and what with
    known: dict[int, int] = {}
    while waiting:
        place, value = waiting.popleft()
        if known.get(id(value), 0) > place:  # one object mentioned twice is written once
            struct.pack_into("<I", data, place, known[id(value)] - place)
            continue
        data += bytes(-len(data) % 8)
        if isinstance(value, dict):
            start = _table(data, value, waiting)
        else:
            start = _vector(data, value, waiting)
        known[id(value)] = start
        struct.pack_into("<I", data, place, start - place)
    return bytes(data)


def _table(data: bytearray, fields: dict[int, Any], waiting: deque[tuple[int, Any]]) -> int:
    slots = max(fields, default=-1) + 1
    vtable = len(data)
    data += bytes(4 + 2 * slots)
    data += bytes(-len(data) % 8)
    start = len(data)
    data += struct.pack("<i", start - vtable)
    for slot, value in fields.items():
        scalar = isinstance(value, tuple) and not isinstance(value[1], list)
        size = struct.calcsize(LAYOUT[value[0]]) if scalar else 4
        data += bytes(-len(data) % size)
        struct.pack_into("<H", data, vtable + 4 + 2 * slot, len(data) - start)
        if scalar:
            data += struct.pack("<" + LAYOUT[value[0]], value[1])
        else:
            waiting.append((len(data), value))
            data += bytes(4)
    struct.pack_into("<HH", data, vtable, 4 + 2 * slots, len(data) - start)
    return start


def _vector(data: bytearray, value: Any, waiting: deque[tuple[int, Any]]) -> int:
    start = len(data)
    if isinstance(value, str):
        raw = value.encode()
        data += struct.pack("<I", len(raw)) + raw + b"\0"
    elif isinstance(value, list):
        data += struct.pack("<I", len(value))
        for item in value:
            waiting.append((len(data), item))
            data += bytes(4)
    else:
        kind, numbers = value
        if struct.calcsize(LAYOUT[kind]) == 8:  # the numbers are aligned, not their count
            data += bytes(4)
            start = len(data)
        data += struct.pack("<I", len(numbers))
        data += struct.pack(f"<{len(numbers)}{LAYOUT[kind]}", *numbers)
    return start
