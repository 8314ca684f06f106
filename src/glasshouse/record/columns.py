"""How the rows of a table are held in memory: one typed column for each field.

A `Column` holds what a table's bytes hold, as NumPy arrays; strings stay indices into the shared
string table until somebody asks for them, so that a million rows cost no million Python objects.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

from glasshouse.record.schema import Text

Array = npt.NDArray[Any]
Row = TypeVar("Row")

_LOGICAL: dict[Any, str] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    Text: "text",
    list[int]: "list<int>",
    list[str]: "list<str>",
}
RAGGED = ("list<int>", "list<str>", "text")
SHARED = ("str", "list<str>")


@dataclass(frozen=True)
class Field:
    """A column as the schema declares it."""

    name: str
    type: str
    required: bool
    default: Any  # None when required
    since: int


_FIELDS: dict[type[Any], tuple[Field, ...]] = {}


def fields_of(row_class: type[Any]) -> tuple[Field, ...]:
    """The columns that a row class stands for, in declared order."""
    if row_class not in _FIELDS:
        _FIELDS[row_class] = _read_fields(row_class)
    return _FIELDS[row_class]


def _read_fields(row_class: Any) -> tuple[Field, ...]:
    hints = get_type_hints(row_class)
    out = []
    for f in dataclasses.fields(row_class):
        default: Any = None
        required = False
        if f.default is not dataclasses.MISSING:
            default = f.default
        elif f.default_factory is not dataclasses.MISSING:
            default = f.default_factory()
        else:
            required = True
        since = int(f.metadata.get("since", 0))
        out.append(Field(f.name, _LOGICAL[hints[f.name]], required, default, since))
    return tuple(out)


@dataclass(frozen=True)
class Column:
    """One column: `lengths` only when ragged; `values` are string indices for shared strings."""

    type: str
    values: Array
    lengths: Array | None = None

    @property
    def rows(self) -> int:
        return len(self.values) if self.lengths is None else len(self.lengths)

    @functools.cached_property
    def ends(self) -> Array:
        """Where each row of a ragged column ends in `values`."""
        assert self.lengths is not None
        return np.cumsum(self.lengths, dtype=np.int64)

    def take(self, index: Array) -> Column:
        """The rows at `index` (integers), in that order."""
        if self.lengths is None:
            return Column(self.type, self.values[index])
        lengths = self.lengths[index]
        starts = self.ends[index] - lengths
        total = int(lengths.sum())
        # Position k of the result lies in the row whose run covers k: start + (k - run's begin).
        shift = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return Column(self.type, self.values[shift + np.arange(total)], lengths)

    def tolist(self, strings: Sequence[str]) -> list[Any]:
        """All rows as Python values."""
        if self.type == "text":
            raw = self.values.astype(np.uint8).tobytes()
            ends = self.ends.tolist()
            return [raw[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]
        flat: list[Any] = self.values.tolist()
        if self.type in SHARED:
            flat = [strings[i] for i in flat]
        if self.lengths is None:
            return flat
        ends = self.ends.tolist()
        return [flat[a:b] for a, b in zip([0, *ends], ends, strict=False)]


class EqualColumns:
    """Small columns that are equal, held once: a recording has a graph for every kernel's body and
    parts of each for every stage, and most of their columns say nothing or the same. Of the 7,600
    of a Llama of 22 layers 1,400 differ: 2.8 MB less.
    """

    MOST = 4096
    """Bytes of columns that are compared."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes, bytes | None], Column] = {}

    def one(self, column: Column) -> Column:
        """The first column that was equal to this one."""
        lengths = column.lengths
        if column.values.nbytes + (0 if lengths is None else lengths.nbytes) > self.MOST:
            return column
        key = column.type, column.values.tobytes(), None if lengths is None else lengths.tobytes()
        known = self._known.get(key)
        if known is None:
            column.values.flags.writeable = False
            known = self._known[key] = column
        return known


def concat(columns: Sequence[Column]) -> Column:
    """Columns of one type, one after the other."""
    if len(columns) == 1:
        return columns[0]
    first = columns[0]
    values = np.concatenate([c.values for c in columns])
    if first.lengths is None:
        return Column(first.type, values)
    lengths = np.concatenate([c.lengths for c in columns if c.lengths is not None])
    return Column(first.type, values, lengths)


def full(field: Field, rows: int, strings: list[str]) -> Column:
    """A column in which every row has the field's default; may add to `strings`.

    One value stands for all rows, so a column that a file leaves out takes no memory.
    """

    def repeated(value: Any, dtype: Any) -> Array:
        return np.broadcast_to(np.array(value, dtype), (rows,))

    if field.type in RAGGED:
        assert not field.default, "ragged columns default to empty"
        dtype = np.uint8 if field.type == "text" else np.int64
        return Column(field.type, np.zeros(0, dtype), repeated(0, np.int64))
    if field.type == "str":
        text = str(field.default or "")
        if rows and text not in strings:
            strings.append(text)
        return Column("str", repeated(strings.index(text) if rows else 0, np.int64))
    value = 0 if field.default is None else field.default
    dtype_of = {"int": np.int64, "float": np.float64, "bool": np.bool_}
    return Column(field.type, repeated(value, dtype_of[field.type]))


class LazyColumns(Mapping[str, Column]):
    """Columns that are made when somebody asks: a view of a table often needs three of twenty."""

    def __init__(self, names: Iterable[str], make: Callable[[str], Column]) -> None:
        self._made: dict[str, Column | None] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> Column:
        made = self._made[name]
        if made is None:
            made = self._made[name] = self._make(name)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


class Table(Generic[Row]):
    """Rows of one class, held as columns. `table["op"]` is a column, `table.row(3)` a dataclass."""

    def __init__(
        self, row_class: type[Row], rows: int, columns: Mapping[str, Column], strings: Sequence[str]
    ) -> None:
        self.row_class = row_class
        self.rows = rows
        self.columns = columns
        self.strings = strings

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def array(self, name: str) -> Array:
        """The values of a plain (not ragged) column; strings as indices."""
        return self.columns[name].values

    def pylist(self, name: str) -> list[Any]:
        """A column as Python values."""
        return self.columns[name].tolist(self.strings)

    def take(self, index: Array) -> Table[Row]:
        columns = LazyColumns(self.columns, lambda name: self.columns[name].take(index))
        return Table(self.row_class, len(index), columns, self.strings)

    def row(self, i: int) -> Row:
        i = range(self.rows)[i]
        one = np.array([i])
        values = {n: c.take(one).tolist(self.strings)[0] for n, c in self.columns.items()}
        return self.row_class(**values)

    def __iter__(self) -> Iterator[Row]:
        # In blocks: a whole table of a million rows would hold twenty million objects at once.
        names = list(self.columns)
        for start in range(0, self.rows, 4096):
            part = self.take(np.arange(start, min(start + 4096, self.rows)))
            lists = [part.pylist(name) for name in names]
            for values in zip(*lists, strict=True):
                yield self.row_class(**dict(zip(names, values, strict=True)))
