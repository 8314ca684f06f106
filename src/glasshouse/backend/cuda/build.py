"""Builds a rendered program: a cubin for each kernel, kept by its text, and a file of them all."""

from __future__ import annotations

import io
import json
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from glasshouse.backend.base import GeneratedSource, Progress
from glasshouse.backend.cache import hash_text, temporary_file
from glasshouse.backend.cache_folder import made_cache_folder, no_room
from glasshouse.backend.cuda.nvrtc import compile_cubin, version

INCLUDE = Path(__file__).parent / "include"


@lru_cache(maxsize=1)
def headers_hash() -> str:
    """Changes whenever code built from the headers may."""
    return hash_text("".join(p.read_text() for p in sorted(INCLUDE.rglob("*.cuh"))))


def build(source: GeneratedSource, progress: Progress | None = None) -> Path:
    """The file that `CudaExecutable` loads."""
    arch = str(json.loads(source.main)["arch"])
    folder = made_cache_folder()
    salt = f"{arch} {version()} {headers_hash()}"
    files = {n: folder / f"{hash_text(salt + t)}.cubin" for n, t in source.kernels.items()}
    missing = {path: name for name, path in files.items() if not path.exists()}
    done = 0

    def compiled(path: Path, name: str) -> str:
        _write(path, compile_cubin(source.kernels[name], name, arch, INCLUDE))
        return name

    with ThreadPoolExecutor(max(os.cpu_count() or 1, 1)) as pool:
        for name in pool.map(lambda item: compiled(*item), missing.items()):
            done += 1
            if progress is not None:
                progress(done, len(missing), name)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as out:
        out.writestr("plan.json", source.main)
        for name, path in files.items():
            out.writestr(f"{name}.cubin", path.read_bytes())
    library = folder / f"{hash_text(salt + source.main + ''.join(source.kernels.values()))}.gpu"
    _write(library, whole.getvalue())
    return library


def _write(path: Path, data: bytes) -> None:
    handle, partial = temporary_file(path)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(data)
        os.replace(partial, path)
    except OSError as error:
        raise no_room(path.parent, error) from None
    finally:
        with suppress(OSError):
            Path(partial).unlink()
