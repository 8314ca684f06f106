"""A GPU of this machine: what it is, its memory, and copies there and back."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np

from glasshouse.backend.base import TensorDevice
from glasshouse.backend.cuda.driver import OUT_OF_MEMORY, Driver, driver
from glasshouse.backend.cuda.target import OLDEST
from glasshouse.backend.cuda.torch_device import torch_on
from glasshouse.errors import ExecutionError, Unsupported

Array = np.ndarray[Any, Any]
_MAJOR, _MINOR, _PROCESSORS = 75, 76, 16


class Gpu:
    """One GPU, through its primary context and a stream of its own."""

    def __init__(self, cuda: Driver, number: int = 0) -> None:
        self.driver = cuda
        self.number = number
        self._handle = cuda.number("cuDeviceGet", number)
        name = ctypes.create_string_buffer(256)
        cuda.call("cuDeviceGetName", name, 256, self._handle)
        self.name = name.value.decode(errors="replace")
        self.capability = 10 * self.attribute(_MAJOR) + self.attribute(_MINOR)
        self.processors = self.attribute(_PROCESSORS)
        if self.capability < OLDEST:
            raise Unsupported(
                f"{self.name} has compute capability {self.capability / 10}: kernels need 8.0 "
                "(Ampere) or later",
                hint="compile with target='cpu'",
            )
        self.context = cuda.address("cuDevicePrimaryCtxRetain", self._handle)
        self.enter()
        self.own_stream = cuda.address("cuStreamCreate", 1)  # not ordered with the default one
        self._near = threading.local()
        self._torch: TensorDevice | None = None
        self.driver_version = cuda.number("cuDriverGetVersion")

    @property
    def stream(self) -> int:
        """That kernels and copies of this thread are in order with."""
        found: int = getattr(self._near, "stream", self.own_stream)
        return found

    @stream.setter
    def stream(self, given: int) -> None:
        self._near.stream = given

    @property
    def arch(self) -> str:
        return f"sm_{self.capability}"

    def attribute(self, which: int) -> int:
        return self.driver.number("cuDeviceGetAttribute", which, self._handle)

    @property
    def torch(self) -> TensorDevice | None:
        """PyTorch on this GPU, where it is in use; it stays so."""
        if self._torch is None:
            self._torch = torch_on(self.number)
        return self._torch

    def enter(self) -> None:
        """Make the GPU's context that of this thread."""
        self.driver.call("cuCtxSetCurrent", self.context)

    # -------------------------------------------------------------------------------------- memory
    def allocate(self, count: int) -> int:
        """Bytes on the GPU, aligned to 256."""
        made = ctypes.c_uint64()
        cuda: Any = self.driver
        status = cuda.cuMemAlloc_v2(ctypes.byref(made), max(count, 1))
        beside = self.torch
        if status == OUT_OF_MEMORY and beside is not None:
            beside.release()
            status = cuda.cuMemAlloc_v2(ctypes.byref(made), max(count, 1))
        if status == OUT_OF_MEMORY:
            free, total = self.room()
            raise ExecutionError(
                f"{self.name} has no room for {count / 2**20:,.1f} MB more: {free / 2**20:,.1f} of "
                f"{total / 2**20:,.1f} MB are free",
                hint="give a smaller batch, or free tensors and modules that are not needed",
            )
        if status:
            raise ExecutionError(f"memory on {self.name}: {self.driver.meaning(status)}")
        return made.value

    def room(self) -> tuple[int, int]:
        """Free bytes, and all of them."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def free(self, address: int) -> None:
        self.driver.call("cuMemFree_v2", address)

    def upload(self, to: int, array: Array) -> None:
        """From the host; done when it returns, as far as the array goes."""
        if array.nbytes:
            self.driver.call(
                "cuMemcpyHtoDAsync_v2", to, array.ctypes.data, array.nbytes, self.stream
            )
            self.synchronize()

    def put(self, to: int, array: Array) -> None:
        """A few words of 4 bytes from the host, in order with kernels: they go with the commands,
        so nobody waits for what runs."""
        for number, word in enumerate(np.frombuffer(array.tobytes(), np.uint32).tolist()):
            self.driver.call("cuMemsetD32Async", to + 4 * number, word, 1, self.stream)

    def download(self, array: Array, source: int) -> None:
        """To the host, after all that runs."""
        if array.nbytes:
            self.driver.call(
                "cuMemcpyDtoHAsync_v2", array.ctypes.data, source, array.nbytes, self.stream
            )
            self.synchronize()

    def copy(self, to: int, source: int, count: int) -> None:
        """Inside the GPU, in order with kernels."""
        if count:
            self.driver.call("cuMemcpyDtoDAsync_v2", to, source, count, self.stream)

    def clear(self, address: int, count: int) -> None:
        self.driver.call("cuMemsetD8Async", address, 0, max(count, 1), self.stream)

    def synchronize(self) -> None:
        self.driver.call("cuStreamSynchronize", self.stream)

    def seconds_between(self, begin: int, end: int) -> float:
        """From one event to another; both have passed."""
        passed = ctypes.c_float()
        self.driver.call("cuEventElapsedTime", ctypes.byref(passed), begin, end)
        return passed.value * 1e-3

    @contextmanager
    def timed(self) -> Iterator[Callable[[], float]]:
        """Gives a function that tells, behind the block, the seconds of what was started in it."""
        cuda = self.driver
        begin, end = (cuda.address("cuEventCreate", 0) for _ in range(2))
        seconds: list[float] = []
        cuda.call("cuEventRecord", begin, self.stream)
        yield lambda: seconds[0]
        cuda.call("cuEventRecord", end, self.stream)
        self.synchronize()
        seconds.append(self.seconds_between(begin, end))
        for event in (begin, end):
            cuda.call("cuEventDestroy_v2", event)

    def pinned(self, count: int) -> tuple[int, int]:
        """Zeroed memory of the host that kernels see too: its address here and there."""
        here = self.driver.address("cuMemHostAlloc", count, 2)
        ctypes.memset(here, 0, count)
        return here, self.driver.address("cuMemHostGetDevicePointer_v2", here, 0)


@lru_cache(maxsize=8)
def gpu(number: int = 0) -> Gpu:
    """A GPU of this machine, with one clear error where there is none."""
    return Gpu(driver(), number)
