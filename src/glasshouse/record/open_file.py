"""Opening a file that was named: a regular one, found without waiting for anybody.

A pipe would wait for its other end, a device gives bytes without end; both are refused.
"""

from __future__ import annotations

import os
import stat
from typing import IO

from glasshouse.errors import FormatError


def open_regular(path: str | os.PathLike[str], where: str = "") -> IO[bytes]:
    """The file, open for reading; the caller closes it."""
    where = where or os.fspath(path)
    try:
        # Not blocking: opening a pipe that nobody writes to would wait here.
        handle = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise FormatError(f"{printable(where)}: cannot be read ({reason})") from None
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise FormatError(f"{where}: a folder, not a file")
        if not stat.S_ISREG(mode):
            raise FormatError(
                f"{where}: a pipe or a device, not a file", hint="save it as a file first"
            )
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def printable(text: str) -> str:
    """Text for a message or a terminal: control and direction marks spelled out, lines kept."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )
