"""How the kernel headers are compiled for tests.

One small driver an area, compiled once for each instruction set.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
INCLUDE = HERE.parents[3] / "src/glasshouse/backend/cpu/include"
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Wno-uninitialized", "-Wno-maybe-uninitialized",
         "-Wno-psabi", "-Wno-unknown-pragmas", f"-I{INCLUDE}"]  # fmt: skip
# -O1 builds twice as fast as -O3 and still inlines what the headers force; plain C++ needs not even
# that.
ISAS = {
    "native": ["-O1", "-march=native"],
    "avx2": ["-O1", "-march=haswell"],
    "plain": ["-O0", "-DGH_PLAIN"],
    # AMX, its instructions emulated: the same kernels, whatever the machine.
    "tiles": ["-O1", "-march=native", "-DGH_AMX", "-DGH_AMX_EMULATED", f"-I{HERE / 'drivers'}"],
}


def _flags_of_cpu() -> set[str]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return set()
    lines = [line for line in text.splitlines() if line.startswith(("flags", "Features"))]
    return set(lines[0].split()) if lines else set()


def compiler() -> str:
    """The C++ compiler, or skip."""
    found = shutil.which("g++") or shutil.which("clang++")
    if not found:
        pytest.skip("no C++ compiler")
    return found


def run_compiler(args: list[str]) -> None:
    """Compile; a diagnostic is a failure, since the headers must be free of warnings."""
    done = subprocess.run([compiler(), *args], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr


@pytest.fixture(scope="session", params=list(ISAS))
def isa(request: pytest.FixtureRequest) -> str:
    """Each instruction set that this machine can run."""
    name = str(request.param)
    if name == "avx2" and not {"avx2", "fma", "f16c"} <= _flags_of_cpu():
        pytest.skip("this machine has no AVX2")
    if name == "avx2" and "avx512f" not in _flags_of_cpu():
        pytest.skip("native is AVX2 on this machine")
    if name == "tiles" and not {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= _flags_of_cpu():
        pytest.skip("tiles are used beside AVX-512 alone")
    return name


@pytest.fixture(scope="session")
def compile_driver(isa: str) -> Callable[[str, Path, list[str]], None]:
    """Compile drivers/NAME.cpp for the instruction set: (name, output, more flags)."""

    def compiled(name: str, out: Path, more: list[str]) -> None:
        source = str(HERE / "drivers" / f"{name}.cpp")
        run_compiler([*FLAGS, *ISAS[isa], "-pthread", *more, source, "-o", str(out)])

    return compiled


@pytest.fixture(scope="session")
def load(
    isa: str,
    compile_driver: Callable[[str, Path, list[str]], None],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], ctypes.CDLL]:
    """The driver as an open library; the processes of one test run share what was compiled."""
    libraries: dict[str, ctypes.CDLL] = {}
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def opened(name: str) -> ctypes.CDLL:
        if isa == "tiles" and name in ("math", "math_double"):
            pytest.skip("nothing in it uses tiles")
        if name not in libraries:
            library = folder / f"{name}-{isa}.so"
            with (folder / f"{name}-{isa}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not library.exists():
                    part = library.with_suffix(".part")
                    compile_driver(name, part, ["-fPIC", "-shared"])
                    part.rename(library)
            libraries[name] = ctypes.CDLL(str(library))
            libraries[name].pool_new.restype = ctypes.c_void_p
        return libraries[name]

    return opened


@pytest.fixture
def rng() -> np.random.Generator:
    """The same numbers in every run."""
    return np.random.default_rng(20240607)
