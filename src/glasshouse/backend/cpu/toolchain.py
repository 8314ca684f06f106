"""Which C++ compiler builds generated code, and with which flags."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from glasshouse.backend.cache import hash_text
from glasshouse.backend.cpu.processor import has_tiles
from glasshouse.backend.cpu.spawn import run_program
from glasshouse.backend.cxx.compiler import compiler_command

INCLUDE = Path(__file__).parent / "include"

# -fno-math-errno and -fno-trapping-math let loops with sqrt and selects become vectors; neither
# changes a result. -ffp-contract=off keeps a*b+c as written: templates that want an FMA ask for it.
_FLAGS = (
    "-std=c++17", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=off", "-fopenmp-simd", "-fno-exceptions", "-fno-rtti", "-Wno-unknown-pragmas",
    "-Wno-psabi", "-fno-semantic-interposition", "-ffunction-sections", "-DGH_EXTERN_KERNELS",
)  # fmt: skip


@dataclass(frozen=True)
class Toolchain:
    """A compiler; `identity` changes whenever what it produces may change."""

    compiler: str  # its command, as a shell takes it
    version: str
    march: str
    extra: tuple[str, ...] = ()  # for the compiler and for the linker, as sanitizers want it
    include: Path = INCLUDE

    @property
    def command(self) -> list[str]:
        return shlex.split(self.compiler)

    @property
    def flags(self) -> tuple[str, ...]:
        return (*_FLAGS, *_march_flags(self.march), *self.extra, f"-I{self.include}")

    @property
    def identity(self) -> str:
        return f"{self.compiler} {self.version} {self.march} {_machine()}"


def _march_flags(march: str) -> tuple[str, ...]:
    """This machine's instructions, those of a processor that the compiler knows, or none of it."""
    if march == "plain":
        return ("-DGH_PLAIN",)
    if march != "native" or not _is_x86():
        return (f"-march={march}",)
    tiles = ("-DGH_AMX",) if has_tiles() else ()
    return ("-march=native", "-mprefer-vector-width=512", *tiles)


def _is_x86() -> bool:
    import platform

    return platform.machine().lower() in ("x86_64", "amd64")


def toolchain() -> Toolchain:
    """The compiler named by CXX, or the first of g++, clang++ and c++ that is there.

    GLASSHOUSE_MARCH names the processor to build for: "native", "plain", or what -march takes.
    GLASSHOUSE_CXXFLAGS adds flags.
    """
    return _toolchain(
        os.environ.get("CXX"),
        os.environ.get("GLASSHOUSE_MARCH", "native"),
        os.environ.get("GLASSHOUSE_CXXFLAGS", ""),
    )


@lru_cache(maxsize=4)
def _toolchain(named: str | None, march: str, more: str) -> Toolchain:
    command = compiler_command(named)
    shown = run_program([*command, "--version"])
    version = shown.stdout.splitlines()[0] if shown.stdout else "unknown"
    return Toolchain(shlex.join(command), version, march, tuple(shlex.split(more)))


@lru_cache(maxsize=1)
def _machine() -> str:
    """The processor, so that code built for one is not loaded on another."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return str(hash_text(line))
    except OSError:
        pass
    import platform

    return platform.machine()
