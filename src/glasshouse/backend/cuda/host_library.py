"""Builds the library of a saved model for GPUs: C++ of the host around a program of kernels."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from glasshouse.backend.cache import hash_text, write_bytes
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.cuda.c_api import PROGRAM
from glasshouse.errors import CompilerMissing, ExecutionError, FormatError

_FLAGS = (
    "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
    "-Wno-unused-function", "-pthread",
)  # fmt: skip


def compiler() -> list[str]:
    """CXX, or the first that is installed."""
    given = os.environ.get("CXX")
    if given:
        return shlex.split(given)
    found = next(filter(shutil.which, ("g++", "clang++", "c++")), None)
    if found is None:
        raise CompilerMissing(
            "a saved model's library is built by a C++ compiler, and there is none",
            hint="install one: apt install g++ (or set CXX)",
        )
    return [found]


def build_host_library(text: str, program: Path, soname: str) -> Path:
    """The library of a C++ text; the file with plan and cubins is put into it."""
    words = [*compiler(), *_FLAGS]
    key = hash_text(f"{text} {words} {soname} {hash_text(program.read_bytes().hex())}")
    library = made_cache_folder() / f"{key}.gpu.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "main.cpp"), Path(folder, "made.so")
        source.write_text(text)
        where = [f'-D{PROGRAM}="{program}"', f"-Wl,-soname,{soname}"]
        line = [*words, *where, str(source), "-o", str(made), "-ldl"]
        done = subprocess.run(line, check=False, capture_output=True, text=True)
        if done.returncode:
            raise ExecutionError(f"{words[0]} cannot build {soname}: {done.stderr[:500]}")
        write_bytes(library, made.read_bytes())
    return library


def program_in(library: Path) -> bytes:
    """The program of kernels that such a library holds."""
    try:
        found = ctypes.CDLL(str(library)).glasshouse_program
    except (OSError, AttributeError) as error:
        raise FormatError(
            f"{library}: cannot be loaded ({error})",
            hint="copy the folder again from where it was saved, or save the model again",
        ) from None
    found.restype = ctypes.c_void_p
    count = ctypes.c_int64()
    return ctypes.string_at(found(ctypes.byref(count)), count.value)
