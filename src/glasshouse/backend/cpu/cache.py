"""Decides how files of the cache come to be and how they are trusted: whole, sealed, or not at all.

A file appears under its name only when it is whole (written beside and renamed), so several
processes can share the cache, and a killed build leaves nothing but a temporary file, which a later
process removes. What another version wrote has other names. Libraries and object files end in a
hash of their content (linkers and loaders do not look behind what the ELF header names): what is
missing or damaged is built again. A truncated library must not even be tried, because loading it
would end the process.
"""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from glasshouse.backend.cpu.spawn import run_program
from glasshouse.errors import BuildError

_SEAL = b"glasshouse"  # in front of the hash at the end of a file
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
        raise _no_room(folder, error) from None
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


def compile_into(target: Path, command: list[str], name: str) -> None:
    """Run a compiler so that its output appears under its name only when it is whole."""
    handle, partial = _temporary(target)
    os.close(handle)
    try:
        made = run_program([*command, "-o", partial])
        if made.returncode != 0:
            raise _failure(made, name, target.parent, command[-1])
        _seal(Path(partial))
        os.replace(partial, target)
    except OSError as error:
        raise _no_room(target.parent, error) from None
    finally:
        Path(partial).unlink(missing_ok=True)


def _failure(
    made: subprocess.CompletedProcess[str], name: str, folder: Path, source: str
) -> BuildError:
    """What a compiler that failed says: the disk is full, it was killed, or the code is wrong."""
    if os.strerror(errno.ENOSPC) in made.stderr:
        return _no_room(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    lines = made.stderr.splitlines()
    if made.returncode < 0 or any("Killed" in line for line in lines):
        return BuildError(
            f"the C++ compiler was killed while it built {name}", hint="is there enough memory?"
        )
    first = next((x for x in lines if "error" in x), made.stderr[:500])
    return BuildError(
        f"the C++ compiler failed on {name}: {first}",
        where=source,
        hint="the generated code is kept there; please report it with the model",
    )


def write_whole(path: Path, text: str) -> None:
    """Write a text so that nobody ever reads half of it."""
    handle, partial = _temporary(path)
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
        os.replace(partial, path)
    except OSError as error:
        raise _no_room(path.parent, error) from None
    finally:
        Path(partial).unlink(missing_ok=True)


def is_whole(path: Path) -> bool:
    """Whether a compiled file is there with the content that it was written with."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    body, seal = data[: -len(_SEAL) - 32], data[-len(_SEAL) - 32 :]
    return seal == _SEAL + hashlib.sha256(body).digest()


def _seal(path: Path) -> None:
    data = path.read_bytes()
    with path.open("ab") as out:
        out.write(_SEAL + hashlib.sha256(data).digest())


def _temporary(target: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(suffix=target.suffix, prefix=_PARTIAL, dir=target.parent)
    except OSError as error:
        raise _no_room(target.parent, error) from None


def _no_room(folder: Path, error: OSError) -> BuildError:
    return BuildError(
        f"cannot write to the cache {folder}: {error.strerror}",
        hint="set GLASSHOUSE_CACHE to a folder that can be written and has room",
    )
