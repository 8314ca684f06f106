"""A built program of the CUDA backend: what is read from its file, and how it is run."""

from __future__ import annotations

import ctypes
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.backend.cuda.device import Gpu, gpu
from glasshouse.backend.cuda.forms import form_bytes, prepared, source_count
from glasshouse.backend.cuda.host_library import program_in
from glasshouse.backend.cuda.loaded import Loaded, Started, memory_at
from glasshouse.backend.cuda.target import capability
from glasshouse.errors import FormatError, Unsupported
from glasshouse.ir.dtype import as_dtype
from glasshouse.lower.kernel.statement import Form

Array = np.ndarray[Any, Any]


class CudaExecutable:
    """See `glasshouse.backend.base.Executable`. Nothing touches the GPU before the first run."""

    def __init__(self, library: Path, find: Callable[[], Gpu] = gpu) -> None:
        try:
            data = program_in(library) if library.suffix == ".so" else library.read_bytes()
            with zipfile.ZipFile(io.BytesIO(data)) as held:
                self.plan = json.loads(held.read("plan.json"))
                self.cubins = {name: held.read(f"{name}.cubin") for name in self.plan["kernels"]}
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise FormatError(f"{library}: no program for a GPU ({error})") from None
        self._identity = hashlib.sha256(data).hexdigest()
        self._find = find
        self._loaded: Loaded | None = None
        self._gaps: dict[int, float] = {}
        self.call: Callable[[Any], int] = self._call
        self._enter: Callable[[], int] | None = None  # made by the first launch that is repeated
        self.forms = {
            place: (source, Form("", kind, as_dtype(dtype), tuple(attrs), True))
            for place, source, kind, dtype, attrs in self.plan["forms"]
        }

    @property
    def places(self) -> frozenset[int]:
        arguments = [a for _, _, given in self.plan["steps"] for a in given]
        return frozenset(a[1] for a in arguments if a[0] == "table")

    @property
    def loaded(self) -> Loaded:
        """The program on the GPU; an error where there is none that can run it."""
        if self._loaded is None:
            device = self._find()
            wanted = capability(self.plan["arch"])
            # Machine code runs on its own major architecture, at its minor version or a later one.
            if device.capability // 10 != wanted // 10 or device.capability < wanted:
                raise Unsupported(
                    f"compiled for {self.plan['arch']}, and {device.name} is {device.arch}",
                    hint=f"compile with arch='{device.arch}'",
                )
            self._loaded = Loaded(device, self.plan, self.cubins, self._identity)
        return self._loaded

    # ------------------------------------------------------------------------------------- running
    def frame(self, table: int, arena: int, sizes: int, steps: int) -> Any:
        return table, arena, sizes, steps

    def call_in_loop(self, frame: Any) -> int:
        return self.call(frame)

    def clocked(self, frame: Any, times: int) -> int:
        table, arena, sizes, steps = frame
        return self.run(table, arena, sizes, 0, steps, times)

    def _call(self, frame: tuple[int, int, int, int]) -> int:
        """Starts a run and does not wait for it: gives what earlier ones have reported."""
        table, arena, sizes, steps = frame
        return self.start(table, arena, sizes, 0, steps)

    def start(self, table: int, arena: int, sizes: int, begin: int, end: int) -> int:
        self.loaded.start(table, arena, sizes, begin, end)
        return self.loaded.reported()

    def settle(self, frame: Any) -> None:
        self.loaded.settle(*frame)

    def settled(self) -> Mapping[str, str]:
        return {
            f"seconds of {way.value}": f"{seconds:.6g}"
            for way, seconds in self.loaded.timed.items()
        }

    def run(self, table: int, arena: int, sizes: int, begin: int, end: int, times: int) -> int:
        """Runs steps and waits for them."""
        loaded = self.loaded
        graph = loaded.start(table, arena, sizes, begin, end, timed=bool(times))
        loaded.device.synchronize()
        if times and graph is not None:
            clock = (ctypes.c_double * end).from_address(times)
            if begin == 0:
                self._gaps.clear()
            for step, spent in loaded.spent().items():
                clock[step] += spent.kernels
                self._gaps[step] = spent.gaps
        return loaded.reported()

    def gaps(self) -> Mapping[int, float]:
        return self._gaps

    @property
    def last(self) -> Started | None:
        return self.loaded.last

    def again(self, launch: Any, stream: int) -> int:
        """As little as can be: a small model's kernels take less than a look-up of everything."""
        if self._enter is None:
            loaded = self.loaded
            cuda: Any = loaded.device.driver
            self._enter = partial(cuda.cuCtxSetCurrent, loaded.device.context)
            self._start = cuda.cuGraphLaunch
            self._flag = ctypes.c_int.from_address(loaded.flag)
        if self._enter() or self._start(launch.executable, stream):
            self.loaded.device.enter()  # says what is wrong
            launch.launch(stream)
        return self.loaded.reported() if self._flag.value else 0

    def repeated(self) -> Callable[[], None]:
        loaded = self.loaded
        graph, stream = loaded.taken(), loaded.device.stream
        return (lambda: None) if graph is None else (lambda: graph.launch(stream))

    # ---------------------------------------------------------------------------------- constants
    def prepared_bytes(self, place: int) -> int:
        return form_bytes(self.forms[place][1])

    def prepare(self, table: int) -> None:
        """Forms are made on the host: the table points into its memory here."""
        pointers = (ctypes.c_uint64 * self.plan["places"]).from_address(table)
        for place, (source, form) in self.forms.items():
            if pointers[place] and pointers[source]:
                kind = form.dtype.storage
                made = prepared(form, memory_at(pointers[source], source_count(form), kind))
                memory_at(pointers[place], made.size, kind)[:] = made

    def stamp(self, addresses: int, sizes: int, count: int) -> int:
        places = memory_at(addresses, count, np.dtype(np.uint64))
        lengths = memory_at(sizes, count, np.dtype(np.int64))
        byte = np.dtype(np.uint8)
        pieces = zip(places, lengths, strict=True)
        return zlib.crc32(b"".join(memory_at(int(p), int(n), byte).tobytes() for p, n in pieces))
