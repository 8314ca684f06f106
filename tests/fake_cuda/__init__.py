"""A CUDA driver without a GPU (`libcuda.cpp`), and NVRTC's part played by the host's compiler.

What the driver is told is noted, and what it is told to run is run: kernels are compiled behind
`emulate.h`. Tests see the whole way from a model to its results, in Python and in C++.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from cuda_emulator import compiled, compiled_kernels
from glasshouse.backend import base
from glasshouse.backend.cuda import backend, build, cublaslt, cudnn, cudnn_descriptors, device
from glasshouse.backend.cuda.driver import Driver

HERE = Path(__file__).parent
_FUNCTION = re.compile(
    r"void(?: __cluster_dims__\((\d+, \d+), 1\))? __launch_bounds__\((\d+)[^)]*\)\s*"
    r"(\w+)\(([^{]*)\) \{"
)


@lru_cache(maxsize=1)
def fake_library() -> Path:
    return compiled((HERE / "libcuda.cpp").read_text(), "libcuda", "-O0")


@contextmanager
def fake_cublaslt(patch: pytest.MonkeyPatch, cuda: FakeCuda) -> Iterator[Any]:
    """cuBLASLt is installed too (`libcublaslt.cpp`), and starts its work through the driver."""
    found = ctypes.CDLL(str(compiled((HERE / "libcublaslt.cpp").read_text(), "libcublaslt", "-O1")))
    found.fake_starts_with(ctypes.cast(cuda.library.fake_start, ctypes.c_void_p))
    found.fake_refuses(0)
    library = cublaslt.CublasLt(found)
    patch.setattr(cublaslt, "_library", lambda: library)
    base.backend_named.cache_clear()
    yield found
    base.backend_named.cache_clear()


@contextmanager
def fake_cudnn(patch: pytest.MonkeyPatch, cuda: FakeCuda) -> Iterator[Any]:
    """cuDNN is installed too (`libcudnn.cpp`), and starts its work through the driver."""
    found = ctypes.CDLL(str(compiled((HERE / "libcudnn.cpp").read_text(), "libcudnn", "-O1")))
    found.fake_starts_with(ctypes.cast(cuda.library.fake_start, ctypes.c_void_p))
    found.fake_refuses(0)
    library = cudnn_descriptors.Cudnn(found)
    patch.setattr(cudnn_descriptors, "_library", lambda: library)
    base.backend_named.cache_clear()
    yield found
    cudnn._planned.cache_clear()
    base.backend_named.cache_clear()


def fake_cubin(text: str, name: str, arch: str, include: Path) -> bytes:
    """What NVRTC would give: here, where the host's code for a kernel is."""
    del arch, include
    lines = [x for x in text.splitlines() if not x.startswith("#include")]
    # What a kernel defines stands before the headers: headers parsed with it serve all that do.
    defined = [x.split(" ", 2)[1:] for x in lines if x.startswith("#define ")]
    body = "\n".join(x for x in lines if not x.startswith("#define "))
    rows = []
    for cluster, threads, function, parameters in _FUNCTION.findall(text):
        types = [p.rsplit(" ", 1)[0] for p in parameters.split(", ")]
        near = f", {cluster}" if cluster else ""
        given = ", ".join(f"*({t}*)a[{i}]" for i, t in enumerate(types))
        body += (
            f'\nextern "C" void run_{function}(unsigned x, unsigned y, unsigned z, void** a) {{\n'
            f"  gh_emu::run(dim3{{x, y, z}}, {threads}, [=] {{ {function}({given}); }}{near});\n"
            "}\n"
        )
        maps = sum("TensorMap" in t for t in types)
        rows.append(f"{function} run_{function} {len(types)} {maps}")
    assert rows, text
    library = compiled_kernels(body, name, "-O0", *(f"-D{what}={value}" for what, value in defined))
    return "\n".join(["fake cubin", str(library), *rows]).encode() + b"\0"


class HostTorch:
    """PyTorch's tensors of the host as those of the device: their memory is the same."""

    name = "cpu"
    index = -1

    def holds(self, given: Any) -> bool:
        here = isinstance(given, torch.Tensor) and given.device.type == "cpu"
        return here and given.layout is torch.strided

    def stream(self) -> int:
        return 7

    def ordered(self, stream: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def tensor(self, address: int, shape: Sequence[int], dtype: str) -> Any:
        kind = getattr(torch, dtype)
        count = int(np.prod(shape, dtype=np.int64))
        if not count:
            return torch.empty(tuple(shape), dtype=kind)
        raw = (ctypes.c_char * (count * kind.itemsize)).from_address(address)
        return torch.frombuffer(raw, dtype=kind).reshape(tuple(shape))

    def release(self) -> None:
        pass


class FakeCuda:
    """The driver of a test, and what it was told."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(fake_library()))
        self.library.fake_notes.restype = ctypes.c_char_p
        self.library.fake_taken.restype = ctypes.c_size_t
        self.library.fake_room.argtypes = (ctypes.c_size_t,)

    @property
    def calls(self) -> list[str]:
        return str(self.library.fake_notes().decode()).split()

    @property
    def taken(self) -> int:
        """Bytes of the device that are allocated."""
        return int(self.library.fake_taken())

    def forget(self) -> None:
        self.library.fake_forget()

    def fail(self, name: str, status: int) -> None:
        self.library.fake_fail(name.encode(), status)

    def be(self, major: int = 9, minor: int = 0, devices: int = 1) -> None:
        self.library.fake_is(major, minor, devices)

    def late(self, is_late: bool = True) -> None:
        """Graphs run when somebody waits for them, or copies, and not as they are launched."""
        self.library.fake_late(int(is_late))

    def wait(self) -> None:
        """What was launched ends."""
        self.library.fake_wait()

    def room(self, count: int = 1 << 40) -> None:
        self.library.fake_room(count)


@contextmanager
def fake_cuda(patch: pytest.MonkeyPatch, beside_torch: bool = True) -> Iterator[FakeCuda]:
    """This machine has a GPU, sm_90; with `beside_torch`, CPU tensors are that GPU's."""
    fake = FakeCuda()
    fake.forget()
    patch.setattr(device, "driver", lambda: Driver(fake.library))
    patch.setattr(device, "torch_on", lambda number: HostTorch() if beside_torch else None)
    patch.setattr(build, "compile_cubin", fake_cubin)
    patch.setattr(build, "identity", lambda: "fake")
    patch.setenv("GLASSHOUSE_OVERLAP", "0")  # nothing is timed
    for library in (cublaslt, cudnn_descriptors):
        patch.setattr(library, "_library", lambda: None)  # what is installed here is no fake
    patch.setattr(backend, "measured_limits", lambda gpu: None)  # of an emulator they say nothing
    caches = (device.gpu, base.backend_named)
    for cache in caches:
        cache.cache_clear()
    try:
        yield fake
    finally:
        for cache in caches:
            cache.cache_clear()
        fake.be()
        fake.room()
        fake.late(False)
