"""How large JSON is read: the text once, then one element at a time.

A `JsonCursor` walks the outer levels of a document and hands single values (a node, an attribute)
to the standard decoder, so a file of a hundred thousand nodes never stands in memory as objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from glasshouse.errors import FormatError
from glasshouse.formats.source import SourceFile
from glasshouse.record.json_text import charge_json

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODE = json.JSONDecoder().raw_decode


class JsonCursor:
    """A place in a JSON text. Every value announced by `fields` or `elements` must be consumed."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.text = source.text()
        self.position = 0
        charge_json(source.budget, self.text)
        source.budget.place = lambda: f"character {self.position}"

    def peek(self) -> str:
        """The next character that is no white space; "" at the end."""
        found = _SPACE.match(self.text, self.position)
        assert found is not None
        self.position = found.end()
        return self.text[self.position : self.position + 1]

    def value(self) -> Any:
        """The next value, whole."""
        self.peek()
        self.source.budget.spend("items")
        try:
            value, self.position = _DECODE(self.text, self.position)
        except RecursionError:
            raise self.error("nested too deeply") from None
        except ValueError as error:
            what = getattr(error, "msg", "not JSON")
            ends = getattr(error, "pos", 0) >= len(self.text.rstrip())
            raise self.error(what, cut=ends or what.startswith("Unterminated")) from None
        return value

    def fields(self) -> Iterator[str]:
        """The keys of the object that comes next; the consumer takes each value."""
        self._expect("{", "an object")
        if self.peek() == "}":
            self.position += 1
            return
        while True:
            if self.peek() != '"':
                raise self.error("a key was expected")
            key: str = self.value()
            self._expect(":", "a colon")
            yield key
            mark = self.peek()
            self.position += 1
            if mark == "}":
                return
            if mark != ",":
                raise self.error("a comma or } was expected", 1)

    def elements(self) -> Iterator[int]:
        """The indices of the list that comes next; the consumer takes each value."""
        self._expect("[", "a list")
        if self.peek() == "]":
            self.position += 1
            return
        index = 0
        while True:
            yield index
            index += 1
            mark = self.peek()
            self.position += 1
            if mark == "]":
                return
            if mark != ",":
                raise self.error("a comma or ] was expected", 1)

    def end(self) -> None:
        """Nothing but white space may follow."""
        if self.peek():
            raise self.error("something follows the end of the document")

    def error(self, what: str, back: int = 0, cut: bool = False) -> FormatError:
        at = self.position - back
        if cut or not self.text[at:].strip():
            return self.source.error(
                f"the JSON is cut off: it ends after {len(self.text):,} characters, inside of what "
                f"begins at character {at:,}"
            )
        return self.source.error(f"unexpected JSON at character {at}: {what}")

    def _expect(self, mark: str, what: str) -> None:
        if self.peek() != mark:
            raise self.error(f"{what} was expected")
        self.position += 1


def read_json(source: SourceFile) -> Any:
    """A whole document, for formats whose files are small."""
    cursor = JsonCursor(source)
    value = cursor.value()
    cursor.end()
    return value
