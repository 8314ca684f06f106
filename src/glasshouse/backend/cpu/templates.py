"""What programs are linked with that is compiled once for a machine: only the parts that they call.

`kernels.cpp` holds the register tiles, packing and Winograd transforms that generated code leaves
to such parts. All of them take 7 s of a processor; the tiles of one element type take 1.2 s, so a
part is built when the first program wants it. `program.cpp` is what all programs have alike.
"""

from __future__ import annotations

from pathlib import Path

from glasshouse.backend.cache import hash_text
from glasshouse.backend.cpu.cache import compile_into
from glasshouse.backend.cpu.toolchain import Toolchain
from glasshouse.backend.sealed import have

PROGRAM = "program"
"""The part of a program whose main file includes `program.h`."""


def is_program(main: str) -> bool:
    """Whether a main file leaves what all programs have alike to that part."""
    return '#include "glasshouse/program.h"' in main


def part_file(folder: Path, salt: str, part: str) -> Path:
    return folder / f"{part.lower()}-{hash_text(salt)}.o"


def build_part(tools: Toolchain, target: Path, part: str) -> None:
    """Compile one part, unless the cache has it."""
    if not have(target):
        whole = part == PROGRAM
        source = tools.include / "glasshouse" / ("program.cpp" if whole else "kernels.cpp")
        named = () if whole else (f"-DGH_PART={part}",)
        command = [*tools.command, "-O3", *tools.flags, *named, "-c", str(source)]
        compile_into(target, command, "the templates")
