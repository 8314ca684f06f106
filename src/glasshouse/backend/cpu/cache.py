"""Compiled files of the cache: written whole, sealed with a hash, checked before they are used.

Libraries and object files end in a hash of their content (linkers and loaders do not look behind
what the ELF header names): what is missing or damaged is built again. A truncated library must not
even be tried, because loading it would end the process.
"""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from glasshouse.backend.cache import temporary_file
from glasshouse.backend.cache_folder import no_room
from glasshouse.backend.cpu.spawn import run_program
from glasshouse.backend.store import fetch, publish
from glasshouse.errors import BuildError

_COMPILED = (".so", ".o")  # what programs are made of; headers parsed in advance are this machine's
_PIECE = 1 << 20
_SEAL = b"glasshouse"  # in front of the hash at the end of a file


def compile_into(target: Path, command: list[str], name: str) -> None:
    """Run a compiler so that its output appears under its name only when it is whole."""
    handle, partial = temporary_file(target)
    os.close(handle)
    try:
        made = run_program([*command, "-o", partial])
        if made.returncode != 0:
            raise _failure(made, name, target.parent, command[-1])
        _seal(Path(partial))
        os.replace(partial, target)
        if target.suffix in _COMPILED:
            publish(target)
    except OSError as error:
        raise no_room(target.parent, error) from None
    finally:
        Path(partial).unlink(missing_ok=True)


def _failure(
    made: subprocess.CompletedProcess[str], name: str, folder: Path, source: str
) -> BuildError:
    """What a compiler that failed says: the disk is full, it was killed, or the code is wrong."""
    if os.strerror(errno.ENOSPC) in made.stderr:
        return no_room(folder, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    lines = made.stderr.splitlines()
    if made.returncode < 0 or any("Killed" in line for line in lines):
        return BuildError(
            f"the C++ compiler was killed while it built {name}", hint="is there enough memory?"
        )
    first = next((x for x in lines if "error" in x), made.stderr[:500])
    broken = _broken(str(made.args[0]), folder)
    if broken is not None:
        return BuildError(
            f"the C++ compiler {made.args[0]} does not work: it fails on an empty file, too"
            + (f" ({broken})" if broken else ""),
            hint="set CXX to one that works: CXX=g++",
        )
    return BuildError(
        f"the C++ compiler failed on {name}: {first}",
        where=source,
        hint="the generated code is kept there; please report it with the model",
    )


def _broken(compiler: str, folder: Path) -> str | None:
    """What a compiler says that cannot even compile an empty file; None if it can."""
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        empty = Path(inside) / "empty.cpp"
        empty.write_text("int main() { return 0; }\n")
        made = run_program([compiler, "-c", str(empty), "-o", str(Path(inside) / "empty.o")])
    return None if made.returncode == 0 else next(iter(made.stderr.splitlines()), "")


def is_whole(path: Path) -> bool:
    """Whether a compiled file is there with the content that it was written with."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size - len(_SEAL) - 32
            return size >= 0 and _seal_of(file, size) == file.read()
    except OSError:
        return False


def have(path: Path) -> bool:
    """Whether the cache or the store behind it has a compiled file; if so, it is used now, and kept
    for longer."""
    whole = is_whole(path) or (fetch(path) and is_whole(path))
    if whole:
        with suppress(OSError):  # a read-only cache
            os.utime(path)
    return whole


def damaged(folder: Path) -> list[Path]:
    """Compiled files that are not what was written; each is built again when it is needed."""
    built = sorted(p for p in folder.iterdir() if p.suffix in _COMPILED)
    return [p for p in built if not p.name.startswith("partial-") and not is_whole(p)]


def _seal(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(_seal_of(file, path.stat().st_size))


def _seal_of(file: BinaryIO, size: int) -> bytes:
    """Of what stands first in a file, read in pieces: parsed headers have 50 MB."""
    hashed = hashlib.sha256()
    while size > 0 and (piece := file.read(min(size, _PIECE))):
        hashed.update(piece)
        size -= len(piece)
    return _SEAL + hashed.digest()
