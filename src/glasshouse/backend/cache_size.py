"""What lies in the cache, how large it is, and which part goes when it grows past its limit.

What was not used for longest goes first, an object together with its text and the notes that point
to it. GLASSHOUSE_CACHE_SIZE is the limit (5 GB; "500M", "2G").
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from glasshouse.errors import BuildError

DEFAULT_LIMIT = "5G"
_SHARE = 0.8  # of the limit is what is left, so that not every build removes something
_RECENT = 3600.0  # seconds; another process may be about to link what it used just now
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass
class Entry:
    """Files that are used together: when they were last, and how large they are."""

    files: list[Path] = field(default_factory=list)
    bytes: int = 0
    used: float = 0.0

    def add(self, path: Path) -> None:
        about = path.stat()
        self.files.append(path)
        self.bytes += _bytes_of(about)
        self.used = max(self.used, about.st_mtime)

    def remove(self) -> None:
        for path in self.files:
            with suppress(OSError):  # another process was quicker
                path.unlink()


def size_limit() -> int:
    """Bytes that the cache may take."""
    text = os.environ.get("GLASSHOUSE_CACHE_SIZE") or DEFAULT_LIMIT
    return parse_size(text)


def parse_size(text: str) -> int:
    """A number of bytes, as in "500M" or "2G"."""
    made = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)i?B?\s*", text, re.IGNORECASE)
    if made is None:
        raise BuildError(f"{text!r} is no size of a cache", hint="GLASSHOUSE_CACHE_SIZE=2G is one")
    return int(float(made[1]) * _UNITS[made[2].upper()])


def entries(folder: Path) -> list[Entry]:
    """All that lies there, what was not used for longest first."""
    found: dict[str, Entry] = {}
    for path in _files(folder):
        with suppress(OSError):  # it went meanwhile
            found.setdefault(_together(folder, path), Entry()).add(path)
    return sorted(found.values(), key=lambda e: e.used)


def _files(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        for name in names:
            yield Path(root, name)


def _together(folder: Path, path: Path) -> str:
    """What a file belongs to: its object, or the copy of the headers."""
    first = path.relative_to(folder).parts[0]
    if path.suffix == ".in":
        with suppress(OSError, UnicodeDecodeError, IndexError):
            return path.read_text().split()[0]  # behind it stand headers (`batches.py`)
    return first.partition(".")[0]


def prune(folder: Path, limit: int, keep_recent: bool = True) -> int:
    """Remove the least recently used until `limit` bytes are left; how many bytes went."""
    held = entries(folder)
    left = total = sum(e.bytes for e in held)
    newest = time.time() - _RECENT
    for entry in held:
        if left <= limit or (keep_recent and entry.used > newest):
            break
        entry.remove()
        left -= entry.bytes
    for root, _, _ in os.walk(folder, topdown=False):
        if Path(root) != folder:
            with suppress(OSError):  # not empty
                Path(root).rmdir()
    return total - left


def keep_within_limit(folder: Path) -> None:
    """After something was built."""
    limit = size_limit()
    if _bytes_in(folder) > limit:
        prune(folder, int(limit * _SHARE))


def _bytes_in(folder: Path) -> int:
    """What all files take, without opening one: a cache of 50,000 is looked at in 0.2 s."""
    total = 0
    waiting = [os.fspath(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as found:
            for item in found:
                if item.is_dir(follow_symlinks=False):
                    waiting.append(item.path)
                else:
                    with suppress(OSError):  # it went meanwhile
                        total += _bytes_of(item.stat())
    return total


def _bytes_of(about: os.stat_result) -> int:
    return max(getattr(about, "st_blocks", 0) * 512, about.st_size)  # Windows has no blocks
