"""The headers parsed in advance (a precompiled header of g++): a file is read in 0.1 s, not in 1 s.

Parsing in advance takes 1.5 s and 50 MB once for a cache folder. `begin_parsing` does it in the
background, while a model is traced; a build waits for that. Where nothing was begun, everything
would wait, so it is done only where that pays: for many files at once, or in a folder that is used
again and again. g++ looks for such a file beside the header by itself and takes it only if compiler
and flags are those that it was made with; otherwise it parses as ever.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import islice
from pathlib import Path
from threading import Thread

from glasshouse.backend.cache import hash_text
from glasshouse.backend.claim import claimed
from glasshouse.backend.cpu.cache import compile_into
from glasshouse.backend.cpu.spawn import compilers_at_once
from glasshouse.backend.cpu.toolchain import Toolchain
from glasshouse.backend.sealed import have
from glasshouse.errors import BuildError

_HEADER = Path("glasshouse") / "kernels.h"  # what generated files of kernels include first


# A first model is up to two programs: that which measures variants, and its own.
_PROGRAMS = 2
_PARSED: set[Path] = set()  # what this process has looked at: checking 50 MB takes 0.1 s
_UNDER_WAY: dict[Path, Thread] = {}


def reads_headers(text: str) -> bool:
    """Whether a file is compiled faster once the headers were parsed."""
    return text.startswith(f'#include "{_HEADER.as_posix()}"')


def begin_parsing(tools: Toolchain, cache: Path) -> None:
    """Parse `tools.include` in the background, unless that was done."""
    target = _target(tools)
    if _parses_by_itself(tools) and not target.exists() and target not in _UNDER_WAY:
        _UNDER_WAY[target] = Thread(target=_parse, args=(tools, cache), name="parse-headers")
        _UNDER_WAY[target].start()


def parse_in_advance(tools: Toolchain, cache: Path, files: int) -> None:
    """Have `tools.include` parsed, where that pays for compiling some files with the same flags."""
    if not _parses_by_itself(tools):
        return
    under_way = _UNDER_WAY.get(_target(tools))
    if under_way is not None and under_way.is_alive():  # a forked child has no such thread
        under_way.join()
    used = len(list(islice(cache.glob("*.so"), _PROGRAMS))) == _PROGRAMS
    if used or files >= 2 * compilers_at_once():
        _parse(tools, cache)


def _parses_by_itself(tools: Toolchain) -> bool:
    """Not clang, which would have to be told of the file in every command."""
    return "clang" not in tools.version


def _target(tools: Toolchain) -> Path:
    name = hash_text(f"{tools.identity} {' '.join(tools.flags)}")
    return (tools.include / _HEADER).with_suffix(".h.gch") / name


def _parse(tools: Toolchain, cache: Path) -> None:
    target = _target(tools)
    if target in _PARSED:
        return
    # g++ tries whatever lies in the folder of `target`, so nothing unfinished may lie there.
    made = cache / f"parsed-{target.name}"
    with claimed(made, target):
        if not have(target):
            command = [*tools.command, "-O3", *tools.flags, "-x", "c++-header"]
            try:
                compile_into(made, [*command, str(tools.include / _HEADER)], "the headers")
                target.parent.mkdir(exist_ok=True)
                os.replace(made, target)
            except (OSError, BuildError):  # a full or read-only disk: each file parses for itself
                with suppress(OSError):
                    target.unlink()
    _PARSED.add(target)
