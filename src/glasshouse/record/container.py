"""A recording as a ZIP file: its members, read within a budget, and how a file is written whole."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import weakref
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from glasshouse.errors import FormatError, GlasshouseError
from glasshouse.record.budget import Budget

_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    OverflowError, OSError, KeyError, MemoryError,
)  # fmt: skip


class Archive:
    """Members of a ZIP file, read one at a time within one budget for all of them."""

    def __init__(self, where: str, file: IO[bytes]) -> None:
        self.where = where
        # Closes the file when the archive is closed or forgotten.
        self._finalizer = weakref.finalize(self, file.close)
        try:
            self.size = file.seek(0, os.SEEK_END)
            self.budget = Budget(where, self.size)
            self._zip = zipfile.ZipFile(file)
        except _BROKEN as error:
            raise FormatError(
                f"{where}: not a recording, or one whose end is cut off ({error})"
            ) from None
        self.names = set(self._zip.namelist())

    def read(self, name: str) -> bytes:
        try:
            info = self._zip.getinfo(name)
            self.budget.place = lambda: f"member {name}"
            # Also against bombs whose members overlap: each inflation is paid for.
            self.budget.spend("decoded_bytes", info.file_size)
            with self._zip.open(info) as member:
                data = member.read(info.file_size + 1)
        except GlasshouseError:
            raise
        except _BROKEN as error:
            raise FormatError(f"{self.where}: member {name} is damaged ({error})") from None
        if len(data) != info.file_size:
            raise FormatError(f"{self.where}: member {name} is damaged (wrong length)")
        return data

    def close(self) -> None:
        self._finalizer()


def pack(members: Iterable[tuple[str, bytes]], level: int = 6) -> bytes:
    """A ZIP file with these members; the same members give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED
            archive.writestr(info, data, compresslevel=level or None)
    return out.getvalue()


def _is_device(path: Path) -> bool:
    """Whether a name is a device, a pipe or a socket, or a link in /dev (/dev/stdout)."""
    if not path.exists() or path.is_dir():
        return False
    return not path.is_file() or (path.is_symlink() and path.absolute().parts[1:2] == ("dev",))


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file so that its name never stands for half of it, even if the machine stops.

    A device or a pipe is written into: renamed over, /dev/null would be a file from then on.
    """
    target = Path(path)
    if _is_device(target):
        try:
            target.write_bytes(data)
        except OSError as error:  # of writing, which names no file
            raise OSError(error.errno, error.strerror or str(error), str(target)) from None
        return
    # A short name of its own: the target's may be as long as names can be.
    temporary = target.with_name(f".glass.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        # The name that was asked for, not the one that was on the way to it.
        reason = error.strerror or str(error)
        if error.errno == errno.ENOENT:
            lacks = "nothing can be written in" if target.parent.is_dir() else "there is no"
            reason = f"{lacks} folder {target.parent}"
        raise OSError(error.errno, reason, str(target)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
