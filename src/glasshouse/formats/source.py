"""How a reader gets at the bytes of a foreign file: named, limited, and nothing else.

A `SourceFile` is a path or bytes that somebody handed over. Readers ask it for the start of the
data, for all of it, or for a file that lies beside it; no reader opens a path by itself.
"""

from __future__ import annotations

import functools
import io
import os
import re
from pathlib import Path
from typing import IO

from glasshouse.errors import FormatError
from glasshouse.record import GraphView, Recording
from glasshouse.record.budget import Budget
from glasshouse.record.open_file import open_regular, printable

HEAD = 4096
SAVED = "recording.glass"
"""What stands for a folder that `module.save` wrote."""

_LINK = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


def graph_of(recording: Recording, index: int = 0) -> GraphView:
    """A graph that a writer needs; style rules and the like are recordings without any."""
    if not 0 <= index < len(recording.graphs):
        raise FormatError(f"{recording.where}: there is no graph in it to be written")
    return recording.graphs[index]


def refuse_link(text: str) -> None:
    """Links are not followed: nothing here asks the network."""
    if _LINK.match(text):
        kind, _, rest = text.partition("://")
        how = f"curl -LO {text}"
        if kind == "hf":
            owner, _, name = rest.partition("/")
            how = f"hf download {owner}/{name.partition('/')[0]}"
        elif kind == "s3":
            how = f"aws s3 cp {text} ."
        raise FormatError(
            f"{printable(text)}: a link, not a file", hint=f"download it first: {how}"
        )


class SourceFile:
    """A file to be read, as a path or as bytes with a name."""

    def __init__(
        self,
        given: str | os.PathLike[str] | bytes,
        name: str = "",
        budget: Budget | None = None,
    ) -> None:
        self._data: bytes | None = None
        self.path: Path | None = None
        self.is_folder = False
        if isinstance(given, bytes):
            self._data = given
            self.name = printable(name or "data")
            self.size = len(given)
        else:
            self.name = printable(name or str(given))
            refuse_link(str(given))
            self.path = Path(given)
            self.is_folder = os.path.isdir(given)
            if self.is_folder and (self.path / SAVED).is_file():
                self.path, self.is_folder = self.path / SAVED, False
            self.size = 0 if self.is_folder else self._size()
        # A file inside another one lives on the other's budget.
        self.budget = budget or Budget(self.name, self.size)

    def _size(self) -> int:
        assert self.path is not None
        with open_regular(self.path, self.name) as file:
            return os.fstat(file.fileno()).st_size

    @property
    def suffix(self) -> str:
        """The last part of the name, in lower case: ".onnx"."""
        return Path(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        return Path(self.name).stem

    def error(self, what: str) -> FormatError:
        """A FormatError about this file, in one line."""
        return FormatError(f"{self.name}: {' '.join(str(what).split())}")

    @functools.cached_property
    def head(self) -> bytes:
        """The first bytes, enough to tell what it is."""
        return self.at(0, HEAD)

    def at(self, offset: int, size: int) -> bytes:
        """Bytes at an offset; fewer at the end of the file."""
        if self._data is not None:
            return self._data[offset : offset + size]
        if self.is_folder:
            return b""
        with self.open() as file:
            file.seek(offset)
            return file.read(size)

    def data(self) -> bytes:
        """All bytes."""
        self.budget.within("file_bytes", self.size)
        if self._data is None:
            with self.open() as file:
                # What it had when it was opened: a file that grows meanwhile has no end.
                self._data = file.read(self.size)
        return self._data

    def text(self) -> str:
        """All of it as UTF-8 text."""
        try:
            return self.data().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error(f"not UTF-8 text (byte {error.start})") from None

    def open(self) -> IO[bytes]:
        """The file, to be read piece by piece; the caller closes it."""
        if self._data is not None:
            return io.BytesIO(self._data)
        assert self.path is not None
        return open_regular(self.path, self.name)

    def beside(self, name: str) -> Path | None:
        """A file in the same folder or below; None if absent, or if the name leads elsewhere."""
        if self.path is None or not name:
            return None
        try:
            folder = self.path.parent.resolve()
            found = (folder / name).resolve()
            return found if found.is_relative_to(folder) and found.is_file() else None
        except (OSError, ValueError, RuntimeError):
            return None  # no name of a file: too long, with a NUL, links that go in a circle
