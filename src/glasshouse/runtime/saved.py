"""Decides what a saved model is: a folder that runs without a compiler, and without Python.

    libNAME.so       the kernels, and the functions of NAME.h; behind them constants and variables
    NAME.h           the C interface
    weights.bin      constants and variables, where they are not in the library
    module.json      the compiled graph, its steps, and where every value lies
    recording.glass  how it came to be: stages, rewrites, kernels
    source/          the generated C++, for reading

Weights stand behind the last byte that the loader of the system looks at, begin at a page, and are
mapped into memory from there (or from their file): saving 500 MB is one copy, loading none. Linking
them in (`.incbin`) was rejected: it writes everything three times, and ends at 2 GB.

Nothing in it is executed but the library, so load folders that you trust.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FORMAT = "glasshouse-module"
VERSION = 2
# Instruction sets that kernels may use.
_FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "avx512_vnni")


def digest(path: Path, count: int) -> str:
    """Of the first `count` bytes of a library: those before its weights."""
    with path.open("rb") as data:
        return hashlib.sha256(data.read(count)).hexdigest()


def processor_features() -> list[str]:
    """Which of the instruction sets that kernels may use this processor has."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    flags = next((x for x in text.splitlines() if x.startswith("flags")), "").split()
    return [f for f in _FEATURES if f in flags]
