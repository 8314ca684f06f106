"""Builds C++ of the host, kept by its text."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from glasshouse.backend.cache import hash_text, write_bytes
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.cxx.compiler import compiler_command
from glasshouse.backend.sealed import is_whole, sealed
from glasshouse.errors import ExecutionError

_FLAGS = (
    "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-exceptions", "-fno-rtti",
    "-Wno-unused-function", "-pthread",
)  # fmt: skip


def built_text(text: str, name: str, words: Sequence[str] = (), held: str = "") -> Path:
    """The library of a C++ text; `held` says what is in a file that it takes up, whose own place
    among the further words of the command does not matter."""
    line = [*compiler_command(os.environ.get("CXX")), *_FLAGS]
    key = hash_text(f"{text} {line} {name} {held}")
    library = made_cache_folder() / f"{key}.gpu.so"
    if is_whole(library):
        return library
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "main.cpp"), Path(folder, "made.so")
        source.write_text(text)
        whole = [*line, *words, str(source), "-o", str(made), "-ldl"]
        done = subprocess.run(whole, check=False, capture_output=True, text=True)
        if done.returncode:
            raise ExecutionError(f"{line[0]} cannot build {name}: {done.stderr[:500]}")
        write_bytes(library, sealed(made.read_bytes()))
    return library
