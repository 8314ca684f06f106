"""How foreign ZIP archives are read: single members, in memory, under a limit.

Nothing is ever unpacked to disk, so a member's name can say what it likes; sizes are not believed.
"""

from __future__ import annotations

import zipfile
import zlib
from types import TracebackType

from glasshouse.errors import GlasshouseError
from glasshouse.formats.source import SourceFile

_BROKEN = (
    zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError,
    OverflowError, OSError, KeyError,
)  # fmt: skip


class ForeignArchive:
    """Members of a ZIP file that nobody vouches for."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self._file = source.open()
        try:
            self._zip = zipfile.ZipFile(self._file)
        except _BROKEN as error:
            self._file.close()
            raise source.error(f"an archive that is cut off or damaged ({error})") from None
        self.names = self._zip.namelist()

    def __enter__(self) -> ForeignArchive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._zip.close()
        self._file.close()

    def size(self, name: str) -> int:
        return self._zip.getinfo(name).file_size

    def read(self, name: str) -> bytes:
        """A member, paid for from the file's budget before it is inflated."""
        try:
            info = self._zip.getinfo(name)
            self.source.budget.place = lambda: f"member {name[:80]!r}"
            self.source.budget.spend("decoded_bytes", info.file_size)
            with self._zip.open(info) as member:
                data = member.read(info.file_size + 1)
        except GlasshouseError:
            raise
        except _BROKEN as error:
            raise self.source.error(f"member {name[:80]!r} is damaged ({error})") from None
        if len(data) != info.file_size:
            raise self.source.error(f"member {name[:80]!r} is damaged (wrong length)")
        return data
