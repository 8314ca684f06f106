"""Decides how a reader gets at the bytes of a foreign file: named, limited, and nothing else.

A `Source` is a path or bytes that somebody handed over. Readers ask it for the start of the data,
for all of it, or for a file that lies beside it; no reader opens a path by itself.
"""

from __future__ import annotations

import functools
import io
import os
from pathlib import Path
from typing import IO

from glasshouse.errors import FormatError

HEAD = 4096
MAX_BYTES = 4 << 30
"""Larger files are refused unless their reader seeks (safetensors, archives, flatbuffers)."""


class Source:
    """A file to be read, as a path or as bytes with a name."""

    def __init__(self, given: str | os.PathLike[str] | bytes, name: str = "") -> None:
        self._data: bytes | None = None
        self.path: Path | None = None
        if isinstance(given, bytes):
            self._data = given
            self.name = name or "data"
            self.size = len(given)
            return
        self.path = Path(given)
        self.name = name or str(given)
        try:
            self.size = 0 if self.path.is_dir() else self.path.stat().st_size
        except OSError as error:
            raise FormatError(f"{self.name}: cannot be read ({error.strerror})") from None

    @property
    def is_folder(self) -> bool:
        return self.path is not None and self.path.is_dir()

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

    def data(self, limit: int = MAX_BYTES) -> bytes:
        """All bytes."""
        if self.size > limit:
            raise self.error(f"{self.size} bytes; this format is read up to {limit}")
        if self._data is None:
            with self.open() as file:
                self._data = file.read()
        return self._data

    def text(self, limit: int = MAX_BYTES) -> str:
        """All of it as UTF-8 text."""
        try:
            return self.data(limit).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise self.error(f"not UTF-8 text (byte {error.start})") from None

    def open(self) -> IO[bytes]:
        """The file, to be read piece by piece; the caller closes it."""
        if self._data is not None:
            return io.BytesIO(self._data)
        assert self.path is not None
        try:
            return self.path.open("rb")
        except OSError as error:
            raise self.error(f"cannot be read ({error.strerror})") from None

    def beside(self, name: str) -> Path | None:
        """A file in the same folder or below; None if absent, or if the name leads elsewhere."""
        if self.path is None or not name or "\0" in name:
            return None
        folder = self.path.parent.resolve()
        found = (folder / name).resolve()
        return found if found.is_relative_to(folder) and found.is_file() else None
