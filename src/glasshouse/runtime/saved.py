"""What a saved model is: a folder that runs without a compiler, and without Python.

    libNAME.so       the kernels, and the functions of NAME.h; behind them constants and variables
    NAME.h           the C interface; NAME.hpp the same for C++
    cmake/           the package glasshouse_NAME, for CMake
    weights.bin      constants and variables, where they are not in the library
    module.json      the compiled graph, its steps, and the memory plan
    recording.glass  how it came to be: stages, rewrites, kernels
    source/          the generated C++ with all that it includes: it can be built again from here

Weights stand behind the last byte that the loader of the system looks at, begin at a page, and are
mapped into memory from there (or from their file): saving 500 MB is one copy, loading none. Linking
them in (`.incbin`) was rejected: it writes everything three times, and ends at 2 GB.

Nothing in it is executed but the library, so load folders that you trust. Against damage, every
part has a hash in module.json, which has one of itself; and the library holds a hash of all that
its code takes for granted (places, sizes, steps), so that no other module.json can be put to it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from glasshouse.backend.base import INTERFACE_BEGINS, GeneratedSource
from glasshouse.errors import Unsupported

FORMAT = "glasshouse-module"
VERSION = 5
CONTRACT = (
    "name", "symbols", "graph", "steps", "orders", "aliases", "table", "packed", "arena",
    "arena_bytes", "tensor_bytes", "work_offset", "updates", "kept", "direct",
)  # fmt: skip
"""What of module.json the library's code takes for granted."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FOOTER = Struct("<8sQQQQ")
"""Behind the weights: a mark, where in the file they begin, how many bytes, and their two sums."""


def weights_footer(begin: int, count: int, sums: tuple[int, int]) -> bytes:
    return FOOTER.pack(b"GHWEIGHT", begin, count, *sums)


def weights_sums(words: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The sum of 64-bit words, and that of each times its place: what C can find without a library.

    The first tells of every changed bit, the second of pieces that changed places.
    """
    total = placed = np.uint64(0)
    with np.errstate(over="ignore"):  # they are taken modulo 2**64
        for begin in range(0, len(words), 1 << 20):
            piece = words[begin : begin + (1 << 20)]
            places = np.arange(begin + 1, begin + 1 + len(piece), dtype=np.uint64)
            total += piece.sum(dtype=np.uint64)
            placed += (piece * places).sum(dtype=np.uint64)
    return int(total), int(placed)


def check_name(name: str) -> None:
    """A model's name becomes part of C names."""
    if not _NAME.fullmatch(name):
        raise Unsupported(
            f"{name!r} cannot name a model", hint="letters, digits and _ can, as in C"
        )


_PIECE = 4 << 20  # bytes


def digest(path: Path, begin: int = 0, count: int | None = None) -> str:
    """The hash of a file or of a part of it: of the hashes of its pieces, found on all processors.

    It is read, not mapped: what is only hashed need not count as this process's memory.
    """
    size = path.stat().st_size - begin if count is None else count

    def of_piece(at: int) -> bytes:
        with path.open("rb", buffering=0) as data:  # one each: they are read at the same time
            data.seek(at)
            piece = data.read(min(_PIECE, begin + size - at))
        return hashlib.sha256(piece).digest()

    places = range(begin, begin + size, _PIECE)
    whole = hashlib.sha256(str(size).encode())
    if len(places) < 2:
        return _joined(whole, map(of_piece, places))
    with ThreadPoolExecutor(min(len(places), os.cpu_count() or 1)) as threads:
        return _joined(whole, threads.map(of_piece, places))


def _joined(whole: Any, hashes: Any) -> str:
    for piece in hashes:
        whole.update(piece)
    return str(whole.hexdigest())


def text_digest(about: Mapping[str, Any]) -> str:
    """The hash of what module.json tells, but for that hash itself."""
    rest = {key: value for key, value in about.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, separators=(",", ":")).encode()).hexdigest()


def source_texts(source: GeneratedSource, interface: str) -> dict[str, str]:
    """Generated code by its path in the folder; `interface` stands behind the code of a processor's
    kernels, and beside the plan of a GPU's."""
    if source.language != "cuda":
        texts = {**source.kernels, "main": source.main + interface}
        return {f"source/{name}.cpp": text for name, text in texts.items()}
    kernels = {f"source/{name}.cu": text for name, text in source.kernels.items()}
    return {**kernels, "source/plan.json": source.main, "source/main.cpp": interface}


def read_sources(folder: Path) -> GeneratedSource:
    """The generated code of a saved folder, as it was before it was saved."""
    plan = folder / "plan.json"
    if plan.exists():
        kernels = {path.stem: path.read_text() for path in sorted(folder.glob("*.cu"))}
        return GeneratedSource(kernels, plan.read_text(), language="cuda")
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.cpp"))}
    main, _, _ = texts.pop("main", "").partition(f"\n{INTERFACE_BEGINS}")
    return GeneratedSource(texts, main)


def contract_digest(about: Mapping[str, Any]) -> str:
    """The hash of what the library's code takes for granted; not of where a node comes from."""
    rows = about["weights"]["arrays"]
    taken = _without_origins([rows, [about[key] for key in CONTRACT]])
    return hashlib.sha256(json.dumps(taken, separators=(",", ":")).encode()).hexdigest()


def _without_origins(given: Any) -> Any:
    if isinstance(given, dict):
        return {k: _without_origins(v) for k, v in given.items() if k != "origin"}
    return [_without_origins(v) for v in given] if isinstance(given, list) else given
