"""The CUDA backend: CUDA C++ text, built by NVRTC, run through the driver in CUDA graphs.

`cuda` is the GPU of this machine; `cuda:sm_90` an architecture, for which models are compiled
without a GPU at hand.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse import __version__
from glasshouse.backend.base import (
    INTERFACE_BEGINS,
    Array,
    DeviceMemory,
    Executable,
    GeneratedSource,
    Interface,
    Limits,
    Progress,
    SavedModel,
)
from glasshouse.backend.cuda.build import build, headers_hash
from glasshouse.backend.cuda.c_api import c_interface
from glasshouse.backend.cuda.cublaslt import cublaslt
from glasshouse.backend.cuda.cudnn_descriptors import cudnn
from glasshouse.backend.cuda.device import Gpu, gpu
from glasshouse.backend.cuda.executable import CudaExecutable
from glasshouse.backend.cuda.host_library import build_host_library, program_in
from glasshouse.backend.cuda.limits import measured_limits
from glasshouse.backend.cuda.measure import measure, measured_as, prepare
from glasshouse.backend.cuda.plan import program_text
from glasshouse.backend.cuda.render import render
from glasshouse.backend.cuda.target import cuda_target
from glasshouse.errors import GlasshouseError
from glasshouse.lower.choice import Candidate, Problem
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.program import Call, Program
from glasshouse.lower.target import Target


class CudaBackend:
    """See `glasshouse.backend.base.Backend`."""

    def __init__(self, arch: str = "") -> None:
        """`arch`: that of the GPU at hand if it is empty."""
        self._given = arch
        if not arch:
            self._gpu()

    def _gpu(self) -> Gpu:
        return gpu()

    @cached_property
    def arch(self) -> str:
        return self._given or self._gpu().arch

    @cached_property
    def target(self) -> Target:
        return cuda_target(f"cuda:{self._given}" if self._given else "cuda", self.arch)

    @property
    def identity(self) -> str:
        here = "" if self._given else f" {self._gpu().name} driver {self._gpu().driver_version}"
        for name, library in (("cuBLASLt", cublaslt()), ("cuDNN", cudnn())):
            there = library is not None and not self._given
            here += f" {name} {library.version}" if there and library is not None else ""
        return f"cuda {__version__} {self.arch} {headers_hash()}{here}"

    def get_ready(self) -> None:
        pass

    def render(self, program: Program) -> GeneratedSource:
        kernels = {k.name: render(k) for k in program.kernels}
        return GeneratedSource(
            {name: k.text for name, k in kernels.items()},
            program_text(program, kernels, self.arch),
            {name: k.lines for name, k in kernels.items()},
            "cuda",
        )

    def build(self, source: GeneratedSource, progress: Progress | None = None) -> Path:
        """A file of plan and cubins; with the C interface behind the plan, a library around it."""
        plan, _, interface = source.main.partition(f"\n{INTERFACE_BEGINS}")
        program = build(replace(source, main=plan), progress)
        if not interface:
            return program
        return build_host_library(f"{INTERFACE_BEGINS}{interface}", program, source.soname)

    def load(
        self,
        library: Path,
        needs: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> Executable:
        return CudaExecutable(library)

    def needs(self) -> dict[str, Any]:
        return {"arch": self.arch}

    def contract(self, library: Path, needs: Mapping[str, Any]) -> str:
        program_in(library)
        found = ctypes.CDLL(str(library)).glasshouse_contract
        found.restype = ctypes.c_char_p
        return str(found().decode())

    def memory(self, count: int) -> Array:
        """The arena is on the GPU (`device`), where no array can point."""
        return np.zeros(1, np.uint8)

    elsewhere = True

    @property
    def device(self) -> DeviceMemory:
        return self._gpu()

    def facts(self, threads: int | None = None) -> dict[str, str]:
        device = self._gpu()
        return {"gpu": f"{device.name}, {device.arch}", "driver": str(device.driver_version)}

    def limits(self, measure: bool = True, threads: int | None = None) -> Limits | None:
        try:
            return measured_limits(self._gpu()) if measure else None
        except GlasshouseError:
            return None

    def prepare(
        self,
        asked: Sequence[tuple[Problem, Sequence[str]]],
        kernels: Sequence[Kernel] = (),
        asking: Mapping[Problem, Call] | None = None,
    ) -> None:
        if not self._given:
            prepare(self.arch, self.target, asked, kernels, asking or {})

    def measure(
        self,
        problem: Problem,
        names: Sequence[str],
        progress: Progress | None = None,
        asking: Call | None = None,
    ) -> list[Candidate] | None:
        if self._given:
            return None
        return measure(self._gpu(), self.target, problem, names, progress, asking)

    def measured_as(self, problem: Problem, asking: Call | None) -> str:
        return measured_as(problem, asking)

    def interface(
        self, name: str, program: Program, saved: SavedModel, source: GeneratedSource
    ) -> Interface:
        return c_interface(name, program, saved, source)


def backend(arch: str = "") -> CudaBackend:
    """The backend of the GPU here, or of an architecture."""
    return CudaBackend(arch)
