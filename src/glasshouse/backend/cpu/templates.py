"""The compiled templates that programs are linked with: only the parts that their kernels call.

`kernels.cpp` holds the register tiles, packing and Winograd transforms that generated code leaves
to be compiled once for a machine. All of them take 7 s of a processor; the tiles of one element
type take 1.2 s, so a part is built when the first program wants it.
"""

from __future__ import annotations

from pathlib import Path

from glasshouse.backend.cache import hash_text
from glasshouse.backend.cpu.cache import compile_into, have
from glasshouse.backend.cpu.toolchain import Toolchain


def part_file(folder: Path, salt: str, part: str) -> Path:
    return folder / f"{part.lower()}-{hash_text(salt)}.o"


def build_part(tools: Toolchain, target: Path, part: str) -> None:
    """Compile one part, unless the cache has it."""
    if not have(target):
        source = tools.include / "glasshouse" / "kernels.cpp"
        command = [tools.compiler, "-O3", *tools.flags, f"-DGH_PART={part}", "-c", str(source)]
        compile_into(target, command, "the templates")
