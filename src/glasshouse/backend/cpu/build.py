"""Decides how generated code is built: each file once, in parallel, kept by content.

The cache holds object files and libraries named after a hash of everything that went into them:
text, headers, compiler, flags, processor. A file appears under its name only when it is whole
(written beside and renamed), so several processes can share the cache, and a killed build leaves
nothing but a temporary file. Libraries and object files end in a hash of their content (linkers and
loaders do not look behind what the ELF header names): what is missing or damaged is built again. A
truncated library must not even be tried, because loading it would end the process.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from glasshouse.backend.cpu.emit import Source
from glasshouse.backend.cpu.toolchain import INCLUDE, Toolchain, hash_text, toolchain
from glasshouse.errors import BuildError

MANY_KERNELS = 64
_SEAL = b"glasshouse"  # in front of the hash at the end of a file

Progress = Callable[[int, int, str], None]
"""Called with (files done, files in all, name of the one just built)."""


def cache_folder() -> Path:
    """Where built code is kept: GLASSHOUSE_CACHE, or the user's cache folder."""
    named = os.environ.get("GLASSHOUSE_CACHE")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base if named else base / "glasshouse"


def build(source: Source, progress: Progress | None = None) -> Path:
    """The shared library of a program; what the cache has is not built again."""
    tools = toolchain()
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_room(folder, error) from None
    salt = f"{tools.identity} {' '.join(tools.flags[:-1])} {headers_hash()}"
    units = _units(source)
    texts, names = list(units.values()), list(units)
    keys = [hash_text(salt + text) for text in texts]
    library = folder / f"{hash_text(salt + ' '.join(keys))}.so"
    if _is_whole(library):
        return library
    headers = _precompiled_headers(tools, folder, salt)
    templates = folder / f"templates-{hash_text(salt)}.o"
    done = 0
    with ThreadPoolExecutor(max(os.cpu_count() or 1, 1)) as pool:
        shared = pool.submit(_templates, tools, templates)
        tasks = [
            pool.submit(_object, tools, folder, headers, k, t, n)
            for k, t, n in zip(keys, texts, names, strict=True)
        ]
        for task, name in zip(tasks, names, strict=True):
            task.result()
            done += 1
            if progress is not None:
                progress(done, len(tasks), name)
        shared.result()
    objects = [*(str(folder / f"{key}.o") for key in keys), str(templates)]
    link = [tools.compiler, "-shared", "-pthread", *tools.extra, *objects, "-lm"]
    _into(library, link, "the library")
    return library


def _units(source: Source) -> dict[str, str]:
    """The files to build: a kernel each, so that equal layers of other models find them built; but
    several in one where there are very many, because starting the compiler costs 0.1 s."""
    names = list(source.kernels)
    size = 1 if len(names) <= MANY_KERNELS else 16
    units: dict[str, str] = {}
    for begin in range(0, len(names), size):
        part = names[begin : begin + size]
        units[part[0]] = "".join(source.kernels[name] for name in part)
    return {**units, "main": source.main}


def _precompiled_headers(tools: Toolchain, folder: Path, salt: str) -> list[str]:
    """Flags that bring in the headers already parsed: 0.2 s a file instead of 1.2 s. GCC only."""
    if "clang" in tools.version:
        return []
    header = folder / f"headers-{hash_text(salt)}.h"
    if not header.with_suffix(".h.gch").exists():
        _write(header, '#include "glasshouse/kernels.h"\n')
        command = [tools.compiler, *tools.flags, "-x", "c++-header", str(header)]
        _into(header.with_suffix(".h.gch"), command, "the headers")
    return ["-include", str(header)]


def _templates(tools: Toolchain, target: Path) -> None:
    """What all kernels share (register tiles, packing), built once for a machine."""
    if not _is_whole(target):
        source = INCLUDE / "glasshouse" / "kernels.cpp"
        _into(target, [tools.compiler, *tools.flags, "-c", str(source)], "the templates")


def _object(
    tools: Toolchain, folder: Path, headers: list[str], key: str, text: str, name: str
) -> None:
    target = folder / f"{key}.o"
    if _is_whole(target):
        return
    source = folder / f"{key}.cpp"
    _write(source, text)
    try:
        _into(target, [tools.compiler, *tools.flags, *headers, "-c", str(source)], name)
    except BuildError:
        if not headers:
            raise
        # It may be the parsed headers that are damaged: the compiler does not check them.
        Path(f"{headers[-1]}.gch").unlink(missing_ok=True)
        _into(target, [tools.compiler, *tools.flags, "-c", str(source)], name)


def _into(target: Path, command: list[str], name: str) -> None:
    """Run a compiler so that its output appears under its name only when it is whole."""
    handle, partial = _temporary(target)
    os.close(handle)
    try:
        made = subprocess.run(
            [*command, "-o", partial], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            first = next((x for x in made.stderr.splitlines() if "error" in x), made.stderr[:500])
            raise BuildError(
                f"the C++ compiler failed on {name}: {first}",
                where=command[-1],
                hint="the generated code is kept there; please report it with the model",
            )
        if target.suffix in (".so", ".o"):
            _seal(Path(partial))
        os.replace(partial, target)
    finally:
        Path(partial).unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    handle, partial = _temporary(path)
    try:
        with os.fdopen(handle, "w") as out:
            out.write(text)
        os.replace(partial, path)
    except OSError as error:
        raise _no_room(path.parent, error) from None
    finally:
        Path(partial).unlink(missing_ok=True)


def _temporary(target: Path) -> tuple[int, str]:
    try:
        return tempfile.mkstemp(suffix=target.suffix, prefix="partial-", dir=target.parent)
    except OSError as error:
        raise _no_room(target.parent, error) from None


def _no_room(folder: Path, error: OSError) -> BuildError:
    return BuildError(
        f"cannot write to the cache {folder}: {error.strerror}",
        hint="set GLASSHOUSE_CACHE to a folder that can be written",
    )


def _seal(path: Path) -> None:
    data = path.read_bytes()
    try:
        with path.open("ab") as out:
            out.write(_SEAL + hashlib.sha256(data).digest())
    except OSError as error:
        raise _no_room(path.parent, error) from None


def _is_whole(path: Path) -> bool:
    """Whether a file is there with the content that it was written with."""
    try:
        data = path.read_bytes()
    except OSError:
        return False
    body, seal = data[: -len(_SEAL) - 32], data[-len(_SEAL) - 32 :]
    return seal == _SEAL + hashlib.sha256(body).digest()


@lru_cache(maxsize=1)
def headers_hash() -> str:
    """Changes whenever code built from the headers may."""
    return hash_text("".join(p.read_text() for p in sorted(INCLUDE.rglob("*.[ch]*"))))
