"""The headers parsed in advance (a precompiled header of g++): a file is read in 0.1 s, not in 1 s.

Parsing in advance takes 1.5 s and 50 MB once for a cache folder, and everything waits for it. So it
is done where that pays: for many files at once, or in a folder that is used again and again. g++
looks for such a file beside the header by itself and takes it only if compiler and flags are those
that it was made with; otherwise it parses as ever.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from glasshouse.backend.cache import hash_text
from glasshouse.backend.cpu.cache import compile_into, have
from glasshouse.backend.cpu.toolchain import Toolchain
from glasshouse.errors import BuildError

_HEADER = Path("glasshouse") / "kernels.h"  # what every generated file includes first


# A first model is up to two programs: that which measures variants, and its own.
_PROGRAMS = 2


def parse_in_advance(tools: Toolchain, cache: Path, files: int) -> None:
    """Parse `tools.include`, where that pays for compiling some files with the same flags."""
    if "clang" in tools.version:  # which would have to be told of it in every command
        return
    used = len(list(islice(cache.glob("*.so"), _PROGRAMS))) == _PROGRAMS
    if used or files >= 2 * (os.cpu_count() or 1):
        _parsed(tools, cache)


@lru_cache(maxsize=8)
def _parsed(tools: Toolchain, cache: Path) -> None:
    header = tools.include / _HEADER
    name = hash_text(f"{tools.identity} {' '.join(tools.flags)}")
    target = header.with_suffix(".h.gch") / name
    if have(target):
        return
    command = [tools.compiler, "-O3", *tools.flags, "-x", "c++-header", str(header)]
    # g++ tries whatever lies in the folder of `target`, so nothing unfinished may lie there.
    made = cache / f"parsed-{name}"
    try:
        compile_into(made, command, "the headers")
        target.parent.mkdir(exist_ok=True)
        os.replace(made, target)
    except (OSError, BuildError):  # a full or read-only disk: each file parses for itself
        with suppress(OSError):
            target.unlink()
