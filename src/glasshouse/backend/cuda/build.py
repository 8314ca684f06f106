"""Builds a rendered program: a cubin for each kernel, kept by its text, and a file of them all."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from glasshouse.backend.base import GeneratedSource, Progress
from glasshouse.backend.cache import hash_text, write_bytes
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.claim import claimed
from glasshouse.backend.cuda.launch import CudaKernel
from glasshouse.backend.cuda.nvrtc import compile_cubin, flags, identity
from glasshouse.backend.sealed import content, sealed
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
        self.built: dict[Path, Future[bytes]] = {}
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
    mine: Future[bytes] = Future()
    with _under_way.lock:
        first = _under_way.built.setdefault(file, mine)
    if first is not mine:
        return first.result()
    try:
        made = content(file)
        if made is None:
            made = compile_cubin(text, name, arch, INCLUDE)
            write_bytes(file, sealed(made))
            publish(file)
        mine.set_result(made)
    except BaseException as error:
        mine.set_exception(error)
        raise
    finally:
        with _under_way.lock:
            _under_way.built.pop(file, None)
    return made


def build_ahead(kernels: Sequence[CudaKernel], arch: str) -> None:
    """Begin to build kernels that will be asked for, beside whatever comes until then."""
    for kernel in kernels:
        _under_way.threads.submit(cubin_of, kernel.text, kernel.name, arch)


def build(source: GeneratedSource, progress: Progress | None = None) -> Path:
    """The file that `CudaExecutable` loads."""
    arch = str(json.loads(source.main)["arch"])
    folder, salt = made_cache_folder(), _salt(arch)
    library = folder / f"{hash_text(salt + source.main + ''.join(source.kernels.values()))}.gpu"
    with claimed(library):
        if not _is_whole(library) and not (fetch(library) and _is_whole(library)):
            _make(library, source, arch, progress)
    return library


def _is_whole(library: Path) -> bool:
    """Whether a program is there as it was written: its file has checksums of its own."""
    try:
        with zipfile.ZipFile(library) as held:
            return held.testzip() is None
    except Exception:  # whatever a damaged archive looks like
        return False


def _make(library: Path, source: GeneratedSource, arch: str, progress: Progress | None) -> None:
    found = {name: content(_file(text, arch)) for name, text in source.kernels.items()}
    missing = [name for name, code in found.items() if code is None]

    def compiled(name: str) -> bytes:
        return cubin_of(source.kernels[name], name, arch)

    with ThreadPoolExecutor(max(os.cpu_count() or 1, 1)) as pool:
        pairs = zip(missing, pool.map(compiled, missing), strict=True)
        for done, (name, made) in enumerate(pairs, 1):
            found[name] = made
            if progress is not None:
                progress(done, len(missing), name)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as out:
        out.writestr("plan.json", source.main)
        for name, code in found.items():
            assert code is not None, "compiled above"
            out.writestr(f"{name}.cubin", code)
    write_bytes(library, whole.getvalue())
    publish(library)
