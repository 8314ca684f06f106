"""How what a compiler makes gets into the cache: whole and sealed, or an error says why not."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import tempfile
from itertools import takewhile
from pathlib import Path

from glasshouse.backend.cache import temporary_file
from glasshouse.backend.cache_folder import no_room
from glasshouse.backend.cpu.spawn import run_program
from glasshouse.backend.sealed import COMPILED, seal
from glasshouse.backend.store import publish
from glasshouse.errors import BuildError


def compile_into(target: Path, command: list[str], name: str) -> None:
    """Run a compiler so that its output appears under its name only when it is whole."""
    handle, partial = temporary_file(target)
    os.close(handle)
    try:
        made = run_program([*command, "-o", partial])
        if made.returncode != 0:
            raise _failure(made, name, target.parent, command[-1])
        seal(Path(partial))
        os.replace(partial, target)
        if target.suffix in COMPILED:
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
    compiler = list(takewhile(lambda word: not word.startswith("-"), made.args))
    broken = _broken(compiler, folder)
    if broken is not None:
        return BuildError(
            f"the C++ compiler {shlex.join(compiler)} does not work: it fails on an empty file, too"
            + (f" ({broken})" if broken else ""),
            hint="set CXX to one that works: CXX=g++",
        )
    return BuildError(
        f"the C++ compiler failed on {name}: {first}",
        where=source,
        hint="the generated code is kept there; please report it with the model",
    )


def _broken(compiler: list[str], folder: Path) -> str | None:
    """What a compiler says that cannot even compile an empty file; None if it can."""
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        empty = Path(inside) / "empty.cpp"
        empty.write_text("int main() { return 0; }\n")
        made = run_program([*compiler, "-c", str(empty), "-o", str(Path(inside) / "empty.o")])
    return None if made.returncode == 0 else next(iter(made.stderr.splitlines()), "")
