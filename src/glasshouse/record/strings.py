"""The strings of a recording: shared, numbered, and always such that they can be written.

JSON and names of files can hold halves of surrogate pairs, which no UTF-8 file, page or terminal
takes; they become U+FFFD on the way in, so that nobody behind has to think of them.
"""

from __future__ import annotations

from collections.abc import Sequence


def whole(text: str) -> str:
    """The text with lone surrogates replaced."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


class Strings:
    """The shared strings; index 0 is the empty one."""

    def __init__(self, known: Sequence[str] = ("",)) -> None:
        self.list: list[str] = list(known)
        self._index: dict[str, int] = {}
        for i, text in enumerate(self.list):
            self._index.setdefault(text, i)

    def index(self, text: str) -> int:
        found = self._index.get(text)
        if found is None:
            kept = whole(text)
            found = self._index.get(kept) if kept is not text else None
            if found is None:
                found = len(self.list)
                self.list.append(kept)
                self._index[kept] = found
            self._index[text] = found
        return found
