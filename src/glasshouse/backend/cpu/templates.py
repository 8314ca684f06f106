"""Decides which compiled templates a program is linked with: only the parts that its text names.

`kernels.cpp` holds the register tiles, packing and Winograd transforms that generated code leaves
to be compiled once for a machine. All of them take 7 s of a processor; the tiles of one element
type take 1.2 s, so a part is built when the first program wants it.
"""

from __future__ import annotations

from pathlib import Path

from glasshouse.backend.cache import hash_text
from glasshouse.backend.cpu.cache import compile_into, have
from glasshouse.backend.cpu.toolchain import Toolchain

PARTS: dict[str, tuple[str, ...]] = {
    "GH_F32_KERNELS": ("DotF32", "conv_weight_grad"),
    "GH_BF16_KERNELS": ("DotBF16",),
    "GH_I8_KERNELS": ("DotI8", "i8_"),
    "GH_WINOGRAD_F32_2_KERNELS": ("conv2d_winograd<gh::DotF32, 2, float>",),
    "GH_WINOGRAD_F32_4_KERNELS": ("conv2d_winograd<gh::DotF32, 4, float>",),
    "GH_WINOGRAD_HALF_2_KERNELS": ("conv2d_winograd<gh::DotF32, 2, gh::bf16>",),
    "GH_WINOGRAD_HALF_4_KERNELS": ("conv2d_winograd<gh::DotF32, 4, gh::bf16>",),
}
"""A macro of `extern.h` for each part, and the words in generated code that call for it."""


def parts_for(text: str) -> list[str]:
    """The parts that generated code names. Templates may call for more inside: the linker tells."""
    return [part for part, words in PARTS.items() if any(w in text for w in words)]


def part_file(folder: Path, salt: str, part: str) -> Path:
    return folder / f"{part.lower()}-{hash_text(salt)}.o"


def build_part(tools: Toolchain, target: Path, part: str) -> None:
    """Compile one part, unless the cache has it."""
    if not have(target):
        source = tools.include / "glasshouse" / "kernels.cpp"
        command = [tools.compiler, "-O3", *tools.flags, f"-DGH_PART={part}", "-c", str(source)]
        compile_into(target, command, "the templates")
