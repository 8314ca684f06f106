"""How files are written into the folder where built code and measurements are kept.

A file appears under its name only when it is whole (written beside and renamed), so several
processes can share the folder, and a killed one leaves nothing but a temporary file, which the next
process removes (`cache_folder.py`).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from glasshouse.backend.cache_folder import no_room, partial_prefix


def write_whole(path: Path, text: str) -> None:
    """Write a text so that nobody ever reads half of it."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever reads half of it."""
    handle, partial = temporary_file(path)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.replace(partial, path)
    except OSError as error:
        raise no_room(path.parent, error) from None
    finally:
        Path(partial).unlink(missing_ok=True)


def temporary_file(target: Path) -> tuple[int, str]:
    """An open file beside another, to be renamed to it."""
    try:
        return tempfile.mkstemp(suffix=target.suffix, prefix=partial_prefix(), dir=target.parent)
    except OSError as error:
        raise no_room(target.parent, error) from None


def hash_text(text: str) -> str:
    """A name for a text: 32 letters that differ where the texts do."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
