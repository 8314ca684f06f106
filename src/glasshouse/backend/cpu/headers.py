"""Which headers a process builds from: those that were there when it first asked.

Pieces of one program must come from the same headers, and kernels of all programs share one pool of
threads. An upgrade under a running process (or an editor) would mix two versions, which ends in a
crash. So the headers are read once, and the compiler is given copies in the cache.

Headers of `glasshouse/apart/` serve few kernels, which include them by name: a change there builds
those kernels again and no others. They include shared headers, and each other by bare names. An
object made of an old one is linked no more, whatever else it holds: two versions of a template have
one name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cpu.toolchain import INCLUDE


@lru_cache(maxsize=1)
def header_texts() -> dict[str, str]:
    """All headers, by their path."""
    files = sorted(INCLUDE.rglob("*.[ch]*"))
    return {str(path.relative_to(INCLUDE)): path.read_text() for path in files}


@lru_cache(maxsize=1)
def headers_hash() -> str:
    """Changes whenever code built from the shared headers may."""
    return hash_text("".join(text for name, text in header_texts().items() if not _is_apart(name)))


def _is_apart(name: str) -> bool:
    return Path(name).parent.name == "apart"


_APART = re.compile(r'^#include "(?:glasshouse/apart/)?([\w.]+)"$', re.MULTILINE)


def headers_apart(text: str) -> str:
    """The headers apart that a file includes: with them its text says all that it is made of."""
    return "".join(_apart_text(name) for name in _names_apart(text))


def versions_apart(text: str) -> list[str]:
    """The same headers by name and what they are now: `fft.h:1a2b3c4d5e6f`."""
    return [_version(name) for name in _names_apart(text)]


def _names_apart(text: str) -> list[str]:
    """The headers apart that a file includes, with those that they include."""
    found: set[str] = set()
    waiting = [text]
    while waiting:
        new = set(_APART.findall(waiting.pop())) - found
        found |= new
        waiting += map(_apart_text, new)
    return sorted(found)


def _apart_text(name: str) -> str:
    return header_texts()[f"glasshouse/apart/{name}"]


def are_current(versions: Iterable[str]) -> bool:
    """Whether headers apart are what they were when `versions_apart` named them."""
    return all(version == _version(version.partition(":")[0]) for version in versions)


def _version(name: str) -> str:
    return f"{name}:{hash_text(header_texts().get(f'glasshouse/apart/{name}', ''))[:12]}"


def include_apart(names: Iterable[str]) -> str:
    """The lines that include headers apart."""
    return "".join(f'#include "glasshouse/apart/{name}"\n' for name in dict.fromkeys(names))


def headers_in(cache: Path, flags: Sequence[str] = ()) -> Path:
    """The folder of the copies; what is missing or was changed is written again.

    Each set of flags has copies of its own: g++ would take headers that were parsed with other ones
    (`parsed_headers.py`), and crash.
    """
    folder = cache / f"include-{hash_text(' '.join((*flags, *header_texts().values())))}"
    for name, text in header_texts().items():
        path = folder / name
        try:
            same = path.read_text() == text
        except (OSError, UnicodeDecodeError):
            same = False
        if not same:
            with suppress(OSError):  # writing says it better
                path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, text)
    with suppress(OSError):  # a read-only cache; used now
        os.utime(folder / "glasshouse" / "kernels.cpp")
    return folder
