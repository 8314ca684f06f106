"""The protocol between the compiler and a machine: render, build, load, run, measure.

`runtime` and `passes` know backends by name alone: `backend_named("cpu")`; "cuda:sm_90" names one
for an architecture that need not be here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from glasshouse.errors import Unsupported, nearest
from glasshouse.ir.graph import Node
from glasshouse.lower.choice import Candidate, Problem
from glasshouse.lower.kernel.kernel import Kernel
from glasshouse.lower.kernel.statement import Ops
from glasshouse.lower.program import Call, Program
from glasshouse.lower.target import Target

Array = np.ndarray[Any, Any]

Progress = Callable[[int, int, str], None]
"""Called with (files done, files in all, name of the one just built)."""


@dataclass(frozen=True)
class GeneratedSource:
    """Generated code: a file for each kernel, by name, and the one that calls them."""

    kernels: Mapping[str, str]
    main: str
    lines: Mapping[str, tuple[Ops, ...]] = field(default_factory=dict)
    """For each line of a kernel's file, the positions in the kernel's group of the ops that it
    computes."""
    language: str = "c++"
    soname: str = ""
    """The name under which programs that are linked with the library look for it."""


@dataclass(frozen=True)
class SavedModel:
    """Offsets of the constants and variables of a saved model in its file."""

    offsets: Mapping[Node, int]
    bytes: int
    inside: bool  # behind the code in the library's own file
    contract: str  # hash of what the code takes for granted; the library tells it
    forms: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """By place of the table: where prepared forms of constants lie, and their bytes, where those
    are saved."""


@dataclass(frozen=True)
class Interface:
    """What lets a program without Python run a model: its header, and code behind the kernels'."""

    header: str
    source: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Further texts of the saved folder, by path."""


INTERFACE_BEGINS = "// ---- The C interface of the saved model."
"""The first line of `Interface.source`: in a saved folder it stands behind the code of the kernels,
and a module that is loaded and saved again gets a new one."""


@dataclass(frozen=True)
class Limits:
    """What a machine can do at best; figures that no kernel passes unless its data is in a cache,
    or its variant needs fewer operations than the op's definition."""

    compute: Mapping[str, float]  # operations a second, by element type
    read: float  # bytes a second from main memory
    copy: float  # bytes a second, those read and those written together
    sure: bool = True  # not where the machine was too busy for two measurements to agree

    def seconds(self, operations: float, moved: float, dtype: str) -> float:
        """The least time for so many operations on elements of a type and so many bytes."""
        peak = self.compute.get(dtype) or self.compute["float32"]
        return max(operations / peak, moved / max(self.read, self.copy))


class Executable(Protocol):
    """A loaded program. Addresses are those of the machine's memory, as whole numbers."""

    call: Callable[[Any], int]
    """Runs all steps in a frame with the least overhead; gives what `run` gives."""

    def frame(self, table: int, arena: int, sizes: int, steps: int) -> Any:
        """What `call` takes: where the table of pointers, the arena and the sizes are."""

    def call_in_loop(self, frame: Any) -> int:
        """`call`, by a caller who will be back at once: threads that it runs on stay awake."""

    def clocked(self, frame: Any, times: int) -> int:
        """`call`, adding the seconds of each step at `times`."""

    def run(self, table: int, arena: int, sizes: int, begin: int, end: int, times: int) -> int:
        """Runs the steps from `begin` to `end`; adds the seconds of each at `times` unless 0.

        Gives 0, or the number, from 1, of the first step that met an index outside of its tensor;
        negative, where it divided an integer by zero.
        """

    def prepared_bytes(self, place: int) -> int:
        """What the prepared constant at a place of the table takes."""

    def stamp(self, addresses: int, sizes: int, count: int) -> int:
        """A number made of a few words of each of `count` pieces of memory, all of a small one:
        it changes, all but surely, when they are written to from end to end."""

    def prepare(self, table: int) -> None:
        """Brings constants into the forms that have a pointer in the table."""


class DeviceExecutable(Executable, Protocol):
    """A program whose memory is that of a device."""

    @property
    def places(self) -> frozenset[int]:
        """Places of the table that kernels read or write."""

    def start(self, table: int, arena: int, sizes: int, begin: int, end: int) -> int:
        """As `run`, without waiting for the end: gives what earlier runs have reported."""

    def settle(self, frame: Any) -> None:
        """Decide by timing what is left open of a whole run, which must not change anything but its
        results; at once where it is decided."""

    def settled(self) -> Mapping[str, str]:
        """What `settle` has decided, and from which times, for the recording."""

    def gaps(self) -> Mapping[int, float]:
        """Seconds before each step of the last run with `times` in which the device did nothing."""

    def repeated(self) -> Callable[[], None]:
        """A function that starts the last run once more, as it was."""

    @property
    def last(self) -> StartedRun | None:
        """What the last run was started as; None where nothing was to be done."""

    def again(self, launch: StartedRun, stream: int) -> int:
        """Start a run once more, in order with a stream; gives what earlier ones have reported."""


class StartedRun(Protocol):
    """A run that can be started again, on the same memory."""

    pointers: object
    """The addresses that it was started with, as whoever started it noted them; None from the
    moment that it is given others."""


class TensorDevice(Protocol):
    """PyTorch on a device: its tensors are bound by address, its ops run on the device's memory."""

    name: str
    """What PyTorch calls the device: "cuda:0"."""
    index: int
    """What its tensors' `get_device()` gives."""

    def holds(self, given: Any) -> bool:
        """Whether something is a tensor of this device, with plain memory."""

    def stream(self) -> int:
        """That PyTorch uses in this thread now."""

    def ordered(self, stream: int) -> AbstractContextManager[Any]:
        """PyTorch's work inside is in order with a stream."""

    def tensor(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        """Memory of the device as a tensor, row by row; it is not copied, and not owned."""

    def release(self) -> None:
        """Give back memory that PyTorch keeps for tensors to come."""


class DeviceMemory(Protocol):
    """Memory that the process cannot read itself; addresses are whole numbers."""

    stream: int
    """In which order with other work kernels and copies are: a handle of the machine's."""
    own_stream: int

    def enter(self) -> None:
        """Use the device in this thread."""

    def allocate(self, count: int) -> int:
        """Bytes on the device, aligned for its kernels; ExecutionError where none is left."""

    def free(self, address: int) -> None: ...

    def upload(self, to: int, array: Array) -> None: ...

    def put(self, to: int, array: Array) -> None:
        """As `upload`, of a few words of 4 bytes, without waiting for what runs."""

    def download(self, array: Array, source: int) -> None: ...

    def copy(self, to: int, source: int, count: int) -> None: ...

    def synchronize(self) -> None: ...

    @property
    def torch(self) -> TensorDevice | None:
        """PyTorch, where the process uses it and it can use this device."""


class Backend(Protocol):
    """One kind of machine."""

    @property
    def target(self) -> Target: ...

    @property
    def identity(self) -> str:
        """Changes whenever what is built or measured here may."""

    def get_ready(self) -> None:
        """Begin in the background what every program needs that is built here; return at once."""

    def render(self, program: Program) -> GeneratedSource:
        """The code of a decided program."""

    def build(self, source: GeneratedSource, progress: Progress | None = None) -> Path:
        """A library; what was built before is not built again."""

    def load(
        self,
        library: Path,
        needs: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> Executable:
        """`needs` tell what the library was built from, where that was not here and now.

        `threads` is a budget of its own; None: that of the process. A GPU has no use for it.
        """

    def needs(self) -> dict[str, Any]:
        """What libraries that are built here need of the machine that loads them, for JSON."""

    def contract(self, library: Path, needs: Mapping[str, Any]) -> str:
        """What a saved library tells of what it was built for; no kernel has run.

        Raises FormatError where this machine lacks something that it needs.
        """

    def memory(self, count: int) -> Array:
        """Zeroed bytes of the machine's memory, aligned for its kernels."""

    @property
    def elsewhere(self) -> bool:
        """Whether kernels read and write memory of a device, not that of the process."""

    @property
    def device(self) -> DeviceMemory:
        """That memory; an error where there is none, or the device is not here."""

    def facts(self, threads: int | None = None) -> dict[str, str]:
        """How measured times came to be, for the recording: threads and such."""

    def limits(self, measure: bool = True, threads: int | None = None) -> Limits | None:
        """What the machine can do at best, measured once; without `measure`, if it is known."""

    def prepare(
        self,
        asked: Sequence[tuple[Problem, Sequence[str]]],
        kernels: Sequence[Kernel] = (),
        asking: Mapping[Problem, Call] | None = None,
    ) -> None:
        """Begin to build what measuring these variants of these problems will need, and kernels of
        the program as they stand, of which some will stay so. `asking`: a call of the program
        with each problem, which is what is measured where it can be."""

    def measure(
        self,
        problem: Problem,
        names: Sequence[str],
        progress: Progress | None = None,
        asking: Call | None = None,
    ) -> list[Candidate] | None:
        """Seconds and error of each variant; None if the machine is too busy to tell, or cannot.
        `asking` is a call of the program with this problem."""

    def measured_as(self, problem: Problem, asking: Call | None) -> str:
        """What was measured, where that is more than the problem: measurements are kept apart by
        it."""

    def interface(
        self, name: str, program: Program, saved: SavedModel, source: GeneratedSource
    ) -> Interface:
        """The C interface of a saved model, whose code is `source`."""


_BACKENDS = {
    "cpu": "glasshouse.backend.cpu.backend",
    "cuda": "glasshouse.backend.cuda.backend",
    "interp": "glasshouse.backend.interp.backend",
}
"""Modules that hold `backend()`; imported when they are asked for."""


@lru_cache(maxsize=8)
def backend_named(name: str) -> Backend:
    """The backend of a name; it is an error if there is none, or its machine is not there."""
    kind, _, which = name.partition(":")
    if kind not in _BACKENDS or (which and kind != "cuda"):
        hint = nearest(name, _BACKENDS, "there are")
        if kind in ("gpu", "nvidia"):
            hint = f"did you mean 'cuda'? there are: {', '.join(_BACKENDS)}"
        raise Unsupported(f"there is no target {name!r}", hint=hint)
    made: Backend = import_module(_BACKENDS[kind]).backend(*[which] * bool(which))
    return made


def target_named(given: Target | str) -> Target:
    """The target of a name, or one's own figures with the tables of the backend of that name."""
    if isinstance(given, str):
        return backend_named(given).target
    whole = backend_named(given.name).target
    if given.tiles or given.elementwise:
        return given
    return replace(
        whole, cores=given.cores, operations=given.operations, bandwidth=given.bandwidth,
        launch=given.launch, low_precision=given.low_precision,
    )  # fmt: skip
