"""Files of the cache that end in a hash of their content: what is missing or damaged is made again.

Linkers and loaders do not look behind what the ELF header names. A truncated library must not even
be tried, because loading it would end the process.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from glasshouse.backend.store import fetch

COMPILED = (".so", ".o", ".cubin")
"""What programs are made of; headers that were parsed in advance are this machine's alone."""
_PIECE = 1 << 20
_SEAL = b"glasshouse"  # in front of the hash at the end of a file
_LENGTH = len(_SEAL) + hashlib.sha256().digest_size


def sealed(data: bytes) -> bytes:
    """What a file holds that is to be found whole later."""
    return data + _SEAL + hashlib.sha256(data).digest()


def seal(path: Path) -> None:
    """Put the hash behind what a file holds."""
    with path.open("r+b") as file:
        file.write(_seal_of(file, path.stat().st_size))


def is_whole(path: Path) -> bool:
    """Whether a file is there with the content that it was written with."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size - _LENGTH
            return size >= 0 and _seal_of(file, size) == file.read()
    except OSError:
        return False


def content(path: Path) -> bytes | None:
    """What was sealed; None where it is not there, or not whole."""
    return path.read_bytes()[:-_LENGTH] if have(path) else None


def have(path: Path) -> bool:
    """Whether the cache or the store behind it has a file; if so, it is used now, and kept for
    longer."""
    whole = is_whole(path) or (fetch(path) and is_whole(path))
    if whole:
        with suppress(OSError):  # a read-only cache
            os.utime(path)
    return whole


def damaged(folder: Path) -> list[Path]:
    """Compiled files that are not what was written; each is built again when it is needed."""
    built = sorted(p for p in folder.iterdir() if p.suffix in COMPILED)
    return [p for p in built if not p.name.startswith("partial-") and not is_whole(p)]


def _seal_of(file: BinaryIO, size: int) -> bytes:
    """Of what stands first in a file, read in pieces: parsed headers have 50 MB."""
    hashed = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        hashed.update(piece)
        size -= len(piece)
    return _SEAL + hashed.digest()
