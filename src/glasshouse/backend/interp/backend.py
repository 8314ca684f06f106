"""The interpreter as a backend: its generated code is kernel IR itself, as text.

    kernel k0_add(...) ...                      each kernel, as it is printed
    step 0 k0_add table 0 8 arena 64 0 ...      each call: where operands and outputs lie, and the
                                                byte at which they begin there

`build` writes that text to the cache and `load` parses it, so a module runs what was rendered.
"""

from __future__ import annotations

import ctypes
import re
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse import __version__
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
from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.interp.kernel import run_kernel
from glasshouse.backend.interp.target import INTERP
from glasshouse.backend.memory import aligned_bytes
from glasshouse.errors import FormatError, Unsupported
from glasshouse.ir.dim import evaluate
from glasshouse.ir.graph import Value
from glasshouse.lower.choice import Candidate, Problem
from glasshouse.lower.kernel.kernel import TEMPORARY, Kernel
from glasshouse.lower.kernel.parser import parse_kernel
from glasshouse.lower.kernel.printer import print_kernel
from glasshouse.lower.plan import MemoryPlan
from glasshouse.lower.program import Call, Program
from glasshouse.lower.target import Target

_BYTE = np.dtype(np.uint8)
_KERNEL = re.compile(r"(?ms)^(?:symbol [^\n]*\n)*kernel .*?^}\n")


class InterpBackend:
    """See `glasshouse.backend.base.Backend`."""

    elsewhere = False
    target: Target = INTERP

    @property
    def identity(self) -> str:
        return f"interp {__version__}"

    def get_ready(self) -> None:
        pass

    def render(self, program: Program) -> GeneratedSource:
        plan = program.memory
        lines = [f"symbols {' '.join(s.name for s in program.symbols)}"]
        for number, step in enumerate(program.steps):
            if isinstance(step, Call):
                places = [f"{_place(v, program, plan)} {at}" for v, at in step.starts()]
                places += [f"{_place(v, program, plan)} 0" for v in step.outputs]
                lines.append(f"step {number} {step.kernel.name} {' '.join(places)}")
        kernels = {k.name: print_kernel(k) for k in program.kernels}
        return GeneratedSource(kernels, "\n".join(lines) + "\n", language="kernel ir")

    def build(self, source: GeneratedSource, progress: Progress | None = None) -> Path:
        text = "".join(source.kernels.values()) + source.main
        path = made_cache_folder() / f"{hash_text(text)}.kernels"
        write_whole(path, text)
        if progress is not None:
            progress(1, 1, path.name)
        return path

    def load(
        self,
        library: Path,
        needs: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> Executable:
        return InterpExecutable(library.read_text())

    def needs(self) -> dict[str, Any]:
        return {}

    def contract(self, library: Path, needs: Mapping[str, Any]) -> str:
        raise FormatError(f"{library}: modules of the interpreter are not saved")

    def memory(self, count: int) -> Array:
        return aligned_bytes(count)

    @property
    def device(self) -> DeviceMemory:
        raise Unsupported("kernels run in the memory of the process")

    def facts(self, threads: int | None = None) -> dict[str, str]:
        return {"threads": "1"}

    def prepare(
        self,
        asked: Sequence[tuple[Problem, Sequence[str]]],
        kernels: Sequence[Kernel] = (),
        asking: Mapping[Problem, Call] | None = None,
    ) -> None:
        pass  # nothing is measured here

    def measure(
        self,
        problem: Problem,
        names: Sequence[str],
        progress: Progress | None = None,
        asking: Call | None = None,
    ) -> list[Candidate] | None:
        return None

    def measured_as(self, problem: Problem, asking: Call | None) -> str:
        return ""

    def limits(self, measure: bool = True, threads: int | None = None) -> Limits | None:
        return None  # how fast Python is says nothing about a kernel

    def interface(
        self, name: str, program: Program, saved: SavedModel, source: GeneratedSource
    ) -> Interface:
        raise Unsupported(
            "a module of the interpreter has no C interface", hint="compile it with target='cpu'"
        )


def _place(value: Value, program: Program, plan: MemoryPlan) -> str:
    value = value if value in plan.table else program.buffer_of(value)
    if value in plan.table:
        return f"table {plan.table[value]}"
    return f"arena {plan.arena[value]}"


@dataclass(frozen=True)
class _Step:
    kernel: Kernel
    places: tuple[tuple[str, int, int], ...]  # of operands, then of outputs


class InterpExecutable:
    """See `glasshouse.backend.base.Executable`. Frames are tuples of addresses."""

    def __init__(self, text: str) -> None:
        parsed = [parse_kernel(part) for part in _KERNEL.findall(text)]
        kernels = {kernel.name: kernel for kernel in parsed}
        head, *steps = _KERNEL.sub("", text).splitlines()
        self.symbols = head.split()[1:]
        self.steps: dict[int, _Step] = {}
        self.call: Callable[[Any], int] = self._run_all
        for line in steps:
            _, number, name, *places = line.split()
            numbers = map(int, places[1::3]), map(int, places[2::3])
            found = tuple(zip(places[::3], *numbers, strict=True))
            self.steps[int(number)] = _Step(kernels[name], found)

    def _run_all(self, frame: tuple[int, int, int, int]) -> int:
        table, arena, sizes, steps = frame
        return self.run(table, arena, sizes, 0, steps, 0)

    def frame(self, table: int, arena: int, sizes: int, steps: int) -> Any:
        return table, arena, sizes, steps

    def call_in_loop(self, frame: Any) -> int:
        return self.call(frame)

    def clocked(self, frame: Any, times: int) -> int:
        table, arena, sizes, steps = frame
        return self.run(table, arena, sizes, 0, steps, times)

    def run(self, table: int, arena: int, sizes: int, begin: int, end: int, times: int) -> int:
        numbers = _memory(sizes, len(self.symbols), np.dtype(np.int64))
        known = {name: int(n) for name, n in zip(self.symbols, numbers, strict=True)}
        clock = _memory(times, end, np.dtype(np.float64)) if times else None
        bad = 0
        for number in range(begin, end):
            step = self.steps.get(number)
            if step is None:
                continue
            start = time.perf_counter()
            fault = run_kernel(step.kernel, _bound(step, table, arena, known), known)
            bad = bad or fault * (number + 1)
            if clock is not None:
                clock[number] += time.perf_counter() - start
        return bad

    def prepared_bytes(self, place: int) -> int:
        return 0

    def stamp(self, addresses: int, sizes: int, count: int) -> int:
        places = _memory(addresses, count, np.dtype(np.uint64))
        lengths = _memory(sizes, count, np.dtype(np.int64))
        pieces = zip(places, lengths, strict=True)
        return zlib.crc32(b"".join(_memory(int(p), int(n), _BYTE).tobytes() for p, n in pieces))

    def prepare(self, table: int) -> None:
        """Kernels read constants as they are."""


def _bound(step: _Step, table: int, arena: int, sizes: Mapping[str, int]) -> dict[str, Array]:
    """The buffers of a kernel where they lie."""
    out: dict[str, Array] = {}
    buffers = [b for b in step.kernel.buffers if b.role != TEMPORARY]
    for buffer, (where, place, start) in zip(buffers, step.places, strict=True):
        at = arena + place
        if where == "table":
            at = int(_memory(table, place + 1, np.dtype(np.uint64))[place])
        dtype = buffer.dtype.storage
        whole = _memory(at, evaluate(buffer.size, sizes), dtype)
        out[buffer.name] = whole[start // dtype.itemsize :]
    return out


def _memory(address: int, count: int, dtype: np.dtype[Any]) -> Array:
    if count == 0:
        return np.zeros(0, dtype)
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(memoryview(raw), dtype)


def backend() -> InterpBackend:
    """The interpreter needs no machine of its own."""
    return InterpBackend()
