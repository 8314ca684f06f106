"""Builds the library of a saved model for GPUs: C++ of the host around a program of kernels."""

from __future__ import annotations

import ctypes
from pathlib import Path

from glasshouse.backend.cache import hash_text
from glasshouse.backend.cuda.c_api import PROGRAM
from glasshouse.backend.cuda.host_build import built_text
from glasshouse.backend.saved_symbol import saved_symbol


def build_host_library(text: str, program: Path, soname: str) -> Path:
    """The library of a C++ text; the file with plan and cubins is put into it."""
    held = hash_text(program.read_bytes().hex())
    return built_text(text, soname, (f'-D{PROGRAM}="{program}"', f"-Wl,-soname,{soname}"), held)


def program_in(library: Path) -> bytes:
    """The program of kernels that such a library holds."""
    found = saved_symbol(library, "glasshouse_program")
    found.restype = ctypes.c_void_p
    count = ctypes.c_int64()
    return ctypes.string_at(found(ctypes.byref(count)), count.value)
