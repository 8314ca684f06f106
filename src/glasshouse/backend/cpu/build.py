"""How generated code is built: in parallel, only what the cache lacks, kept by content.

The cache holds object files and libraries named after a hash of everything that went into them:
text, headers, compiler, flags, processor (`sealed.py`: how they are found whole; `batches.py`:
which kernels share a file; `templates.py`: what all programs share).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from glasshouse.backend.base import GeneratedSource, Progress
from glasshouse.backend.cache import hash_text
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.cache_size import keep_within_limit
from glasshouse.backend.claim import claimed
from glasshouse.backend.cpu.batches import compile_batch, compile_text, find_objects, make_batches
from glasshouse.backend.cpu.cache import compile_into
from glasshouse.backend.cpu.headers import headers_apart, headers_hash, headers_in
from glasshouse.backend.cpu.parsed_headers import begin_parsing, parse_in_advance, reads_headers
from glasshouse.backend.cpu.recipe import PARTS, CpuSource, Recipe
from glasshouse.backend.cpu.spawn import compilers_at_once
from glasshouse.backend.cpu.templates import PROGRAM, build_part, is_program, part_file
from glasshouse.backend.cpu.threads import leave_share
from glasshouse.backend.cpu.toolchain import Toolchain, toolchain
from glasshouse.backend.sealed import have
from glasshouse.backend.store import store_url
from glasshouse.errors import BuildError, CompilerMissing

_LOG = logging.getLogger("glasshouse.build")


def get_ready() -> None:
    """Begin to parse the headers, unless a store may have all that is needed."""
    if store_url() is None:
        with suppress(BuildError, CompilerMissing):  # building says it, if it comes to that
            tools, folder = toolchain(), made_cache_folder()
            begin_parsing(_with_copies(tools, folder), folder)


def _with_copies(tools: Toolchain, folder: Path) -> Toolchain:
    return replace(tools, include=headers_in(folder, tools.flags[:-1]))


def build(source: GeneratedSource, progress: Progress | None = None) -> Path:
    """The shared library of a program; what the cache has is not built again."""
    tools = toolchain()
    folder = made_cache_folder()
    salt = salt_of(tools)
    recipes = _recipes(source)
    keys = {
        name: hash_text(f"{salt} {recipes[name].level}{headers_apart(text)}{text}")
        for name, text in source.kernels.items()
    }
    main = hash_text(salt + headers_apart(source.main) + source.main)
    library = folder / f"{hash_text(salt + ' '.join([*keys.values(), main, source.soname]))}.so"
    if have(library):
        _LOG.debug("%s was built before", library.name)
        return library
    with claimed(library):
        if not have(library):  # no other process built it while this one waited
            _make(library, source, tools, keys, main, progress)
            keep_within_limit(folder)
    return library


def _make(
    library: Path,
    source: GeneratedSource,
    tools: Toolchain,
    keys: Mapping[str, str],
    main: str,
    progress: Progress | None,
) -> None:
    """Compile what the cache lacks of a program, and link it; `keys` name kernels by content."""
    folder, salt = library.parent, salt_of(tools)
    tools = _with_copies(tools, folder)
    recipes = _recipes(source)
    alike = (PROGRAM,) if is_program(source.main) else ()
    parts = [*alike, *dict.fromkeys(part for recipe in recipes.values() for part in recipe.parts)]
    found = find_objects(folder, keys)
    once = {keys[name]: name for name in source.kernels}  # some are the same function
    missing = {n: source.kernels[n] for key, n in once.items() if key not in found}
    batches = make_batches(missing, keys, recipes)
    new_parts = [part for part in parts if not part_file(folder, salt, part).exists()]
    # Parts take as long without parsed headers, so those of a small program need not wait for them;
    # in a large one they fill the end, when one compiler has nothing else to do.
    few = len(batches) <= compilers_at_once()
    with _compilers() as pool:
        tasks: dict[Future[Any], str] = {}
        made: list[Future[Path]] = []

        def begin_parts() -> None:
            for part in parts:
                tasks[pool.submit(build_part, tools, part_file(folder, salt, part), part)] = part

        if few:
            begin_parts()
        if batches or reads_headers(source.main):
            parse_in_advance(tools, folder, len(batches) + len(new_parts) + 1)
        for batch in batches:
            made.append(pool.submit(compile_batch, tools, folder, batch))
            tasks[made[-1]] = batch.name
        if not few:
            begin_parts()
        target = folder / f"{main}.o"
        tasks[pool.submit(compile_text, tools, target, source.main, "main")] = "main"
        _LOG.info("%d files to build with %s", len(tasks), tools.compiler)
        for done, task in enumerate(as_completed(tasks), 1):
            task.result()
            _LOG.debug("built %s (%d of %d)", tasks[task], done, len(tasks))
            if progress is not None:
                progress(done, len(tasks), tasks[task])
    objects = dict.fromkeys([*(task.result() for task in made), *found.values(), target])
    shared = [part_file(folder, salt, part) for part in parts]
    named = [f"-Wl,-soname,{source.soname}"] if source.soname and sys.platform == "linux" else []
    try:
        _link(tools, library, [*objects, *shared], named, "-Wl,-z,defs")
    except BuildError:  # something inside of a template calls for a part that no recipe names
        everything = {part: part_file(folder, salt, part) for part in (*alike, *PARTS)}
        for part, path in everything.items():
            build_part(tools, path, part)
        _link(tools, library, [*objects, *everything.values()], named)


@contextmanager
def _compilers() -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for compilers. When one of these fails, or the user interrupts, those that
    have not begun are left out."""
    pool = ThreadPoolExecutor(compilers_at_once(), initializer=leave_share)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _recipes(source: GeneratedSource) -> dict[str, Recipe]:
    known = source.recipes if isinstance(source, CpuSource) else {}
    return {name: known.get(name, Recipe()) for name in source.kernels}


def salt_of(tools: Toolchain) -> str:
    """What changes whenever code built from the same text may."""
    return f"{tools.identity} {' '.join(tools.flags[:-1])} {headers_hash()}"


def _link(
    tools: Toolchain, library: Path, objects: list[Path], named: list[str], *strict: str
) -> None:
    """Kernels of other programs in the same objects are left out, and what they would need."""
    flags = ("-Wl,--gc-sections", *strict) if sys.platform == "linux" else ()
    command = [*tools.command, "-shared", "-pthread", *tools.extra, *named, *flags]
    compile_into(library, [*command, *map(str, objects), "-lm"], "the library")
