"""NVRTC through ctypes: CUDA C++ to a cubin of one architecture, without GPU, driver or toolkit.

The library comes with the wheel `nvidia-cuda-nvrtc` (the extra `cuda`), or with an installed CUDA.
"""

from __future__ import annotations

import ctypes
import glob
import os
from collections.abc import Iterator
from contextlib import suppress
from ctypes.util import find_library
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from glasshouse.backend.cuda.nvrtc_processes import build
from glasshouse.errors import CompilerMissing, ExecutionError

_WAY = "pip install 'glasshouse[cuda]' (nvidia-cuda-nvrtc, 53 MB), or install CUDA 12.8 or later"


def candidates() -> Iterator[str]:
    """Where the library may be, the wheel first: it is pinned."""
    spec = find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for pattern in ("cu*/lib/libnvrtc.so.*", "cuda_nvrtc/lib/libnvrtc.so.*"):
            yield from sorted(glob.glob(os.path.join(folder, pattern)), reverse=True)
    for root in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if root:
            yield from sorted(glob.glob(f"{root}/lib64/libnvrtc.so.*"), reverse=True)
    found = find_library("nvrtc")
    if found:
        yield found


def _usable() -> Iterator[str]:
    return (n for n in candidates() if ".alt." not in n and "builtins" not in n)


@lru_cache(maxsize=1)
def nvrtc() -> ctypes.CDLL:
    """The library; it is an error where there is none."""
    tried: list[str] = []
    for name in _usable():
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(f"{name}: {error}")
    raise CompilerMissing(
        "kernels for CUDA are built with NVRTC, which is not installed"
        + (f" ({tried[0]})" if tried else ""),
        hint=_WAY,
    )


@lru_cache(maxsize=1)
def version() -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _check(nvrtc().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


@lru_cache(maxsize=1)
def identity() -> str:
    """Which compiler it is, by name and size of its file: where all kernels are in the cache, its
    126 MB are not loaded. Where only the loader knows the file, its version."""
    for name in _usable():
        with suppress(OSError):
            return f"{Path(name).name} {Path(name).stat().st_size}"
    return f"{version()}"


def flags(arch: str) -> list[str]:
    """How everything is compiled for `arch` ("sm_90")."""
    # sm_90a is sm_90 with the instructions of warpgroups; unannotated lambdas are device code.
    exact = "sm_90a" if arch == "sm_90" else arch
    return [
        f"--gpu-architecture={exact}", "--std=c++17", "-lineinfo", "-default-device",
        "-diag-suppress=177",  # temporaries that one function skips
    ]  # fmt: skip


def compile_cubin(text: str, name: str, arch: str, include: Path) -> bytes:
    """The machine code of a file for `arch`."""
    good, made = build(nvrtc(), text, name, [*flags(arch), f"-I{include}"])
    if not good:
        raise ExecutionError(
            f"NVRTC cannot compile {name} for {arch}: {made.decode(errors='replace')[:2000]}",
            hint="this is an error of Glasshouse: please report it with the model",
        )
    return made


def _check(status: int) -> None:
    if status:
        library = nvrtc()
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise ExecutionError(f"NVRTC: {library.nvrtcGetErrorString(status).decode()}")
