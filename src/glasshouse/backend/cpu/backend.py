"""The CPU backend: C++ text, built by the compiler of the machine, loaded into this process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from glasshouse.backend.base import (
    Array,
    DeviceMemory,
    Executable,
    GeneratedSource,
    Interface,
    Limits,
    Progress,
    SavedModel,
)
from glasshouse.backend.cpu.build import build, get_ready, salt_of
from glasshouse.backend.cpu.emit import emit
from glasshouse.backend.cpu.executable import CpuExecutable
from glasshouse.backend.cpu.headers import headers_hash
from glasshouse.backend.cpu.limits import known_limits, measured_limits
from glasshouse.backend.cpu.measure import measure_variants, measured_as
from glasshouse.backend.cpu.processor import processor_features
from glasshouse.backend.cpu.target import CPU
from glasshouse.backend.cpu.threads import default_threads
from glasshouse.backend.cpu.toolchain import toolchain
from glasshouse.backend.memory import aligned_bytes
from glasshouse.backend.saved_symbol import saved_symbol
from glasshouse.errors import FormatError, Unsupported
from glasshouse.lower.choice import Candidate, Problem
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.program import Call, Program
from glasshouse.lower.target import Target


class CpuBackend:
    """See `glasshouse.backend.base.Backend`."""

    elsewhere = False
    target: Target = CPU

    @property
    def identity(self) -> str:
        return salt_of(toolchain())

    def get_ready(self) -> None:
        get_ready()

    def render(self, program: Program) -> GeneratedSource:
        return emit(program)

    def build(self, source: GeneratedSource, progress: Progress | None = None) -> Path:
        return build(source, progress)

    def load(
        self,
        library: Path,
        needs: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> Executable:
        headers = headers_hash() if needs is None else needs["headers"]
        return CpuExecutable(library, headers, threads)

    def needs(self) -> dict[str, Any]:
        plain = toolchain().march == "plain"
        return {"headers": headers_hash(), "processor": [] if plain else [*processor_features()]}

    def contract(self, library: Path, needs: Mapping[str, Any]) -> str:
        lacking = set(needs["processor"]) - set(processor_features())
        if lacking:
            names = ", ".join(sorted(lacking))
            raise FormatError(
                f"{library}: built for a processor with {names}, which this one lacks",
                hint="compile on this machine",
            )
        contract = saved_symbol(library, "glasshouse_contract")
        contract.restype = ctypes.c_char_p
        return str(contract().decode())

    def memory(self, count: int) -> Array:
        return aligned_bytes(count)

    @property
    def device(self) -> DeviceMemory:
        raise Unsupported("kernels run in the memory of the process")

    def facts(self, threads: int | None = None) -> dict[str, str]:
        return {"threads": str(threads or default_threads())}

    def limits(self, measure: bool = True, threads: int | None = None) -> Limits | None:
        threads = threads or default_threads()
        return measured_limits(threads) if measure else known_limits(threads)

    def prepare(
        self,
        asked: Sequence[tuple[Problem, Sequence[str]]],
        kernels: Sequence[Kernel] = (),
        asking: Mapping[Problem, Call] | None = None,
    ) -> None:
        pass  # its variants are calls of one library

    def measure(
        self,
        problem: Problem,
        names: Sequence[str],
        progress: Progress | None = None,
        asking: Call | None = None,
    ) -> list[Candidate] | None:
        return measure_variants(problem, names, progress)

    def measured_as(self, problem: Problem, asking: Call | None) -> str:
        return measured_as(problem)

    def interface(
        self, name: str, program: Program, saved: SavedModel, source: GeneratedSource
    ) -> Interface:
        from glasshouse.backend.cpu.c_api import c_interface  # for who saves

        return c_interface(name, program, saved)


def backend() -> CpuBackend:
    """The backend of this machine's processor."""
    return CpuBackend()
