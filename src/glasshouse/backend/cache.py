"""The folder on disk where built code and measurements are kept, and how texts are written there.

A file appears under its name only when it is whole (written beside and renamed), so several
processes can share the folder, and a killed one leaves nothing but a temporary file, which a later
process removes.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from glasshouse.errors import BuildError

_PARTIAL = "partial-"
_ABANDONED = 3600.0  # seconds after which no compiler writes into a temporary file any more


def cache_folder() -> Path:
    """Where built code is kept: GLASSHOUSE_CACHE, or the user's cache folder."""
    named = os.environ.get("GLASSHOUSE_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base if named else base / "glasshouse"


def made_cache_folder() -> Path:
    """The cache folder, there and ready to be written."""
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cache_error(folder, error) from None
    _sweep(folder)
    return folder


@lru_cache(maxsize=8)
def _sweep(folder: Path) -> None:
    """Remove what killed builds left, once in a process; not what may still be written."""
    for path in folder.glob(f"{_PARTIAL}*"):
        try:
            if time.time() - path.stat().st_mtime > _ABANDONED:
                path.unlink()
        except OSError:  # another process was quicker
            continue


def write_whole(path: Path, text: str) -> None:
    """Write a text so that nobody ever reads half of it."""
    handle, partial = temporary_file(path)
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
        os.replace(partial, path)
    except OSError as error:
        raise cache_error(path.parent, error) from None
    finally:
        Path(partial).unlink(missing_ok=True)


def temporary_file(target: Path) -> tuple[int, str]:
    """An open file beside another, to be renamed to it."""
    try:
        return tempfile.mkstemp(suffix=target.suffix, prefix=_PARTIAL, dir=target.parent)
    except OSError as error:
        raise cache_error(target.parent, error) from None


def cache_error(folder: Path, error: OSError) -> BuildError:
    """What to say when nothing can be written there."""
    return BuildError(
        f"cannot write to the cache {folder}: {error.strerror}",
        hint="set GLASSHOUSE_CACHE to a folder that can be written and has room",
    )


def hash_text(text: str) -> str:
    """A name for a text: 32 letters that differ where the texts do."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]
