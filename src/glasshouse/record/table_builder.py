"""How rows pile up before they are a recording: one growing array for each column."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from glasshouse.record.columns import RAGGED, Array, Column, Field, Table, fields_of
from glasshouse.record.schema import NEVER
from glasshouse.record.strings import Strings

Values = Sequence[Any] | Array | tuple[Array, Array]
"""A column given whole: a list of Python values, an array (strings as indices from
`RecordingBuilder.indices`), or for a ragged column the pair (lengths, flat values)."""


class ColumnBuilder:
    def __init__(self, field: Field, strings: Strings) -> None:
        self.field = field
        self.strings = strings
        self.lengths = array("q") if field.type in RAGGED else None
        code = {"float": "d", "bool": "b", "text": "B"}.get(field.type, "q")
        self.values = array(code)
        self.append: Callable[[Any], None] = self._appender()

    def _appender(self) -> Callable[[Any], None]:
        values, lengths, index = self.values, self.lengths, self.strings.index
        kind = self.field.type
        if kind == "str":
            return lambda v: values.append(index(v))
        if lengths is None:
            return values.append

        def ints(v: Sequence[int]) -> None:
            lengths.append(len(v))
            values.extend(v)

        def strs(v: Sequence[str]) -> None:
            lengths.append(len(v))
            values.extend(map(index, v))

        def text(v: str) -> None:
            raw = v.encode("utf-8", "replace")
            lengths.append(len(raw))
            values.frombytes(raw)

        chosen: dict[str, Callable[[Any], None]] = {
            "list<int>": ints,
            "list<str>": strs,
            "text": text,
        }
        return chosen[kind]

    def extend(self, given: Values, rows: int) -> None:
        if isinstance(given, tuple):
            assert self.lengths is not None, f"{self.field.name} is not ragged"
            lengths, flat = given
            if len(lengths) != rows or int(np.sum(lengths)) != len(flat):
                raise ValueError(f"column {self.field.name}: lengths do not fit the values")
            self.lengths.frombytes(np.ascontiguousarray(lengths, np.int64).tobytes())
            self._extend_flat(flat)
            return
        if len(given) != rows:
            raise ValueError(f"column {self.field.name} has {len(given)} rows, not {rows}")
        plain = self.lengths is None and self.field.type != "str"
        if plain or (isinstance(given, np.ndarray) and given.dtype.kind in "iu"):
            self._extend_flat(given)
        else:
            for value in given:
                self.append(value)

    def _extend_flat(self, given: Sequence[Any] | Array) -> None:
        if len(given) and isinstance(given[0], str):
            self.values.extend(map(self.strings.index, given))
            return
        self.values.frombytes(np.ascontiguousarray(given, self.values.typecode).tobytes())

    def fill(self, value: Any, rows: int) -> None:
        if self.lengths is not None:
            assert not value, "ragged columns default to empty"
            self.lengths.frombytes(bytes(8 * rows))
            return
        if self.field.type == "str":
            value = self.strings.index(value)
        self.values.frombytes(np.full(rows, value, self.values.typecode).tobytes())

    def column(self) -> Column:
        values = np.array(self.values)
        if self.field.type == "bool":
            values = values.astype(np.bool_)
        return Column(
            self.field.type, values, None if self.lengths is None else np.array(self.lengths)
        )


_ZERO: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "str": "", "text": ""}
_IMPLIED = {"died": NEVER, "parent": NEVER}


class TableBuilder:
    def __init__(self, row_class: type, strings: Strings) -> None:
        self.fields = fields_of(row_class)
        self.columns = [ColumnBuilder(f, strings) for f in self.fields]
        self.by_name = {c.field.name: c for c in self.columns}
        self.rows = 0

    def append(self, values: Iterable[Any]) -> int:
        for column, value in zip(self.columns, values, strict=True):
            column.append(value)
        self.rows += 1
        return self.rows - 1

    def extend(self, rows: int, given: Mapping[str, Values]) -> None:
        unknown = set(given) - set(self.by_name)
        if unknown:
            raise ValueError(f"no such column: {', '.join(sorted(unknown))}")
        for column in self.columns:
            f = column.field
            if f.name in given:
                column.extend(given[f.name], rows)
            else:
                implied = _IMPLIED.get(f.name, _ZERO.get(f.type, ()))
                column.fill(implied if f.required else f.default, rows)
        self.rows += rows

    def copy(self, table: Table[Any]) -> None:
        """Take over all rows of a table whose strings are this builder's."""
        given: dict[str, Values] = {}
        for name in self.by_name:
            column = table[name]
            plain = column.lengths is None
            given[name] = column.values if plain else (column.lengths, column.values)
        self.extend(table.rows, given)

    def finish(self) -> tuple[int, dict[str, Column]]:
        return self.rows, {c.field.name: c.column() for c in self.columns}
