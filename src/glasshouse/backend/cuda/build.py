"""Builds a rendered program: a cubin for each kernel, kept by its text, and a file of them all."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from glasshouse.backend.base import GeneratedSource, Progress
from glasshouse.backend.cache import hash_text, write_bytes
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.claim import claimed
from glasshouse.backend.cuda.launch import CudaKernel
from glasshouse.backend.cuda.nvrtc import compile_cubin, flags, identity
from glasshouse.backend.store import fetch, publish
from glasshouse.forking import ForkLock

INCLUDE = Path(__file__).parent / "include"


@lru_cache(maxsize=1)
def headers_hash() -> str:
    """Changes whenever code built from the headers may."""
    return hash_text("".join(p.read_text() for p in sorted(INCLUDE.rglob("*.cuh"))))


def _salt(arch: str) -> str:
    """What changes whenever code built from the same text may."""
    return f"{identity()} {' '.join(flags(arch))} {headers_hash()}"


def _file(text: str, arch: str) -> Path:
    """Where the machine code of a kernel's text is kept."""
    return made_cache_folder() / f"{hash_text(_salt(arch) + text)}.cubin"


class _UnderWay(ForkLock):
    """Kernels that threads of this process build now; who needs one of them waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.built: dict[Path, Future[None]] = {}
        self._threads: ThreadPoolExecutor | None = None

    def after_fork_in_child(self) -> None:
        super().after_fork_in_child()
        self.built, self._threads = {}, None

    @property
    def threads(self) -> ThreadPoolExecutor:
        with self.lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(max(os.cpu_count() or 1, 1))
            return self._threads


_under_way = _UnderWay()


def cubin_of(text: str, name: str, arch: str) -> bytes:
    """The machine code of one kernel; what was built before is not built again."""
    file = _file(text, arch)
    mine: Future[None] = Future()
    with _under_way.lock:
        first = _under_way.built.setdefault(file, mine)
    if first is not mine:
        first.result()
        return file.read_bytes()
    try:
        if not file.exists() and not fetch(file):
            write_bytes(file, compile_cubin(text, name, arch, INCLUDE))
            publish(file)
        mine.set_result(None)
    except BaseException as error:
        mine.set_exception(error)
        raise
    finally:
        with _under_way.lock:
            _under_way.built.pop(file, None)
    return file.read_bytes()


def build_ahead(kernels: Sequence[CudaKernel], arch: str) -> None:
    """Begin to build kernels that will be asked for, beside whatever comes until then."""
    for kernel in kernels:
        _under_way.threads.submit(cubin_of, kernel.text, kernel.name, arch)


def build(source: GeneratedSource, progress: Progress | None = None) -> Path:
    """The file that `CudaExecutable` loads."""
    arch = str(json.loads(source.main)["arch"])
    folder, salt = made_cache_folder(), _salt(arch)
    files = {n: _file(t, arch) for n, t in source.kernels.items()}
    library = folder / f"{hash_text(salt + source.main + ''.join(source.kernels.values()))}.gpu"
    with claimed(library):
        if not zipfile.is_zipfile(library) and not fetch(library):
            _make(library, source, files, arch, progress)
    return library


def _make(
    library: Path,
    source: GeneratedSource,
    files: Mapping[str, Path],
    arch: str,
    progress: Progress | None,
) -> None:
    missing = {p: name for name, p in files.items() if not p.exists() and not fetch(p)}
    done = 0

    def compiled(name: str) -> str:
        cubin_of(source.kernels[name], name, arch)
        return name

    with ThreadPoolExecutor(max(os.cpu_count() or 1, 1)) as pool:
        for name in pool.map(compiled, missing.values()):
            done += 1
            if progress is not None:
                progress(done, len(missing), name)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as out:
        out.writestr("plan.json", source.main)
        for name, path in files.items():
            out.writestr(f"{name}.cubin", path.read_bytes())
    write_bytes(library, whole.getvalue())
    publish(library)
