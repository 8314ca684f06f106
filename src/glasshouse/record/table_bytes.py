"""How tables become bytes and how bytes are trusted: sizes are checked before use.

The layout stands in docs/design/0002-recording.md. Nothing read from a file is believed: every
offset, length and string index is checked, and no array is made that the bytes do not back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from glasshouse.errors import FormatError
from glasshouse.record.budget import OBJECT, Budget
from glasshouse.record.columns import RAGGED, SHARED, Array, Column
from glasshouse.record.json_text import parse_json

_PARTS = {"i8": "<i1", "i16": "<i2", "i32": "<i4", "f64": "<f8", "f32": "<f4", "u8": "<u1"}
_ALLOWED = {
    "int": ("i8", "i16", "i32", "f64"),
    "float": ("f32", "f64"),
    "bool": ("u8",),
    "str": ("i8", "i16", "i32", "f64"),
    "list<int>": ("i8", "i16", "i32", "f64"),
    "list<str>": ("i8", "i16", "i32", "f64"),
    "text": ("u8",),
}
MAX_INT = 2**53
"""Integers are exact in a page (and in f64) up to here."""

MAX_TABLE_HEADER = 1 << 20


# ------------------------------------------------------------------------------ tables to bytes
def encode_table(rows: int, columns: Mapping[str, Column]) -> bytes:
    """The bytes of a table; the inverse of `decode_table`."""
    described = []
    buffers: list[bytes] = []
    offset = 0
    for name, column in columns.items():
        enc, parts = _encode_column(name, column)
        places = []
        for kind, raw in parts:
            places.append([offset, len(raw), kind])
            padding = -len(raw) % 8
            buffers += (raw, bytes(padding))
            offset += len(raw) + padding
        entry: dict[str, Any] = {"name": name, "type": column.type, "parts": places}
        if enc:
            entry["enc"] = enc
        described.append(entry)
    head = json.dumps({"rows": rows, "columns": described}, separators=(",", ":")).encode()
    start = len(head).to_bytes(4, "little") + head
    return b"".join([start, bytes(-len(start) % 8), *buffers])


def _encode_column(name: str, column: Column) -> tuple[str, list[tuple[str, bytes]]]:
    values = column.values
    if column.type == "text":
        assert column.lengths is not None
        return "", [_narrow(name, column.lengths), ("u8", values.astype(np.uint8).tobytes())]
    if column.type == "bool":
        return "", [("u8", values.astype(np.uint8).tobytes())]
    if column.type == "float":
        wide = values.astype("<f8")
        with np.errstate(over="ignore"):
            short = wide.astype("<f4")
        # Compared as bits: a NaN's payload and the sign of a zero survive too.
        if np.array_equal(short.astype("<f8").view(np.int64), wide.view(np.int64)):
            return "", [("f32", short.tobytes())]
        return "", [("f64", wide.tobytes())]
    if column.lengths is not None:
        return "", [_narrow(name, column.lengths), _narrow(name, values)]
    if column.type == "int" and len(values) > 1:
        ints = values.astype(np.int64)
        steps = np.diff(ints, prepend=np.int64(0))
        # Small steps compress better than the values, even at the same width.
        if np.abs(steps).sum(dtype=np.float64) * 2 < np.abs(ints).sum(dtype=np.float64):
            return "delta", [_narrow(name, steps)]
    return "", [_narrow(name, values)]


def _narrow(name: str, values: Array) -> tuple[str, bytes]:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for kind, bits in (("i8", 8), ("i16", 16), ("i32", 32)):
        if -(1 << (bits - 1)) <= low and high < 1 << (bits - 1):
            return kind, values.astype(_PARTS[kind]).tobytes()
    if low < -MAX_INT or high > MAX_INT:
        raise FormatError(f"column {name!r} holds {low}..{high}; integers are kept up to 2^53")
    return "f64", values.astype("<f8").tobytes()


# ------------------------------------------------------------------------------ bytes to tables
def decode_table(
    where: str,
    data: bytes,
    strings: int,
    wanted: Iterable[str] | None = None,
    budget: Budget | None = None,
) -> tuple[int, dict[str, Column]]:
    """Rows and columns of a table; `strings` is how many shared strings there are.

    Columns of an unknown type, part or encoding are left out: a newer writer may have them.
    """
    budget = budget or Budget(where, len(data))
    head, base = _table_head(where, data, budget)
    rows: Any = head.get("rows")
    described = head.get("columns")
    if not _is_count(rows) or not isinstance(described, list):
        raise FormatError(f"{where}: the table's header lacks rows or columns; the file is damaged")
    budget.spend("rows", rows)
    keep = None if wanted is None else set(wanted)
    columns: dict[str, Column] = {}
    for entry in described:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise FormatError(f"{where}: a column has no name; the file is damaged")
        name = entry["name"]
        if keep is not None and name not in keep:
            continue
        column = _decode_column(f"{where}.{name}", entry, data, base, rows, strings, budget)
        if column is not None:
            columns[name] = column
    return rows, columns


def held_bytes(column: Column) -> int:
    """What a column takes in memory: 64-bit numbers whatever the file has, texts as objects."""
    lengths = 0 if column.lengths is None else column.lengths.nbytes
    return column.values.nbytes + lengths + (OBJECT * column.rows if column.type == "text" else 0)


def _table_head(where: str, data: bytes, budget: Budget) -> tuple[dict[str, Any], int]:
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or size > min(len(data) - 4, MAX_TABLE_HEADER):
        raise FormatError(f"{where}: the table's header is cut off or absurdly long")
    head = parse_json(where, data[4 : 4 + size], budget)
    if not isinstance(head, dict):
        raise FormatError(f"{where}: the table's header is not an object; the file is damaged")
    return head, 4 + size + -(4 + size) % 8


def _decode_column(
    where: str,
    entry: dict[str, Any],
    data: bytes,
    base: int,
    rows: int,
    strings: int,
    budget: Budget,
) -> Column | None:
    kind, enc, parts = entry.get("type"), entry.get("enc", ""), entry.get("parts")
    if not isinstance(kind, str) or kind not in _ALLOWED or enc not in ("", None, "delta"):
        return None
    ragged = kind in RAGGED
    if not isinstance(parts, list) or len(parts) != (2 if ragged else 1):
        raise FormatError(f"{where}: a column of type {kind} has the wrong number of parts")
    lengths = None
    count = rows
    if ragged:
        budget.spend("decoded_bytes", 8 * rows + (OBJECT * rows if kind == "text" else 0))
        lengths = _part(where, parts[0], ("i8", "i16", "i32", "f64"), data, base, rows)
        if lengths is None:
            return None
        lengths = _integers(where, lengths)
        if len(lengths) and int(lengths.min()) < 0:
            raise FormatError(f"{where}: a negative length; the file is damaged")
        count = int(lengths.sum(dtype=np.float64))
    raw = _part(where, parts[-1], _ALLOWED[kind], data, base, count)
    if raw is None:
        return None
    budget.spend("decoded_bytes", count if kind in ("text", "bool") else 8 * count)
    if kind == "text":
        _check_text(where, raw, lengths)
        return Column(kind, raw, lengths)
    if kind == "bool":
        return Column(kind, raw != 0)
    if kind == "float":
        return Column(kind, raw.astype(np.float64))
    values = _integers(where, raw)
    if enc == "delta":
        if len(values) and np.abs(values).sum(dtype=np.float64) > MAX_INT * 4.0:
            raise FormatError(f"{where}: differences run out of range; the file is damaged")
        values = np.cumsum(values, dtype=np.int64)
    if kind in SHARED and len(values) and not (values.min() >= 0 and values.max() < strings):
        raise FormatError(f"{where}: names a string that the file does not have")
    return Column(kind, values, lengths)


def _part(
    where: str, part: Any, allowed: tuple[str, ...], data: bytes, base: int, count: int
) -> Array | None:
    if not isinstance(part, list) or len(part) != 3 or not all(map(_is_count, part[:2])):
        raise FormatError(f"{where}: a part is not [offset, bytes, type]; the file is damaged")
    offset, size, kind = part
    if not isinstance(kind, str) or kind not in _PARTS:
        return None
    if kind not in allowed:
        raise FormatError(f"{where}: stored as {kind}, which its type does not allow")
    dtype = np.dtype(_PARTS[kind])
    if size != count * dtype.itemsize or base + offset + size > len(data):
        raise FormatError(f"{where}: {size} bytes for {count} values; the file is damaged")
    return np.frombuffer(data, dtype, count, base + offset)


def _integers(where: str, raw: Array) -> Array:
    # NaN fails the comparison, so it is refused here as well.
    if raw.dtype.kind == "f" and not bool(
        np.all((np.abs(raw) <= MAX_INT) & (raw == np.trunc(raw)))
    ):
        raise FormatError(f"{where}: a value that is no integer; the file is damaged")
    return raw.astype(np.int64)


def _check_text(where: str, raw: Array, lengths: Array | None) -> None:
    assert lengths is not None
    try:
        raw.tobytes().decode()
    except UnicodeDecodeError:
        raise FormatError(f"{where}: not UTF-8; the file is damaged") from None
    # Whole text is UTF-8 and no row starts on a continuation byte: then every row is UTF-8.
    starts = (np.cumsum(lengths) - lengths)[lengths > 0]
    if bool(np.any((raw[starts] & 0xC0) == 0x80)):
        raise FormatError(f"{where}: a row splits a character; the file is damaged")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_INT
