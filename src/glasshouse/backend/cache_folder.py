"""Where built code is kept, and whether that place can be trusted: this user's alone, or refused.

Whoever can write into the cache decides what code this process loads. So its folder has mode 0700,
belongs to the user who runs this process, and cannot be exchanged by others. A folder that several
users name in GLASSHOUSE_CACHE has one inside for each of them.
"""

from __future__ import annotations

import os
import platform
import re
import stat
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from glasshouse.errors import BuildError
from glasshouse.forking import ForkLock

_PARTIAL = re.compile(r"partial-(?P<machine>[0-9a-z]+)-(?P<process>[0-9]+)-")
_ABANDONED = 3600.0  # seconds after which no compiler writes into a temporary file any more
_HINT = "set GLASSHOUSE_CACHE to a folder that can be written and has room"


def cache_folder() -> Path:
    """A folder of this user's in GLASSHOUSE_CACHE, or the user's cache folder.

    The latter too where GLASSHOUSE_CACHE names a store by its URL (`store.py`).
    """
    named = os.environ.get("GLASSHOUSE_CACHE")
    if named and "://" not in named:
        return Path(named) / f"user-{_user()}"
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "glasshouse"


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0  # Windows keeps homes apart by itself


def made_cache_folder() -> Path:
    """The cache folder, there, trusted, and ready to be written."""
    folder = cache_folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        check_trust(folder)
    except OSError as error:
        raise no_room(folder, error) from None
    _swept(folder)
    return folder


def check_trust(folder: Path) -> None:
    """Refuse a cache that others own, can write, or can put another in place of."""
    if not hasattr(os, "geteuid"):
        return
    about = folder.stat()
    if about.st_uid != os.geteuid():
        raise _untrusted(folder, f"it belongs to user {about.st_uid}, not to {os.geteuid()}")
    if about.st_mode & 0o022:
        raise _untrusted(
            folder, f"others can write to it (mode {stat.S_IMODE(about.st_mode):o})",
            hint=f"if you trust all that is in it: chmod 700 {folder}; otherwise delete it",
        )  # fmt: skip
    if about.st_mode & 0o055:
        with suppress(OSError):  # a read-only one
            folder.chmod(0o700)
    around = folder.parent.stat()
    if around.st_mode & stat.S_IWOTH and not around.st_mode & stat.S_ISVTX:
        raise _untrusted(folder, f"anybody can write to {folder.parent} and exchange it")


def _untrusted(folder: Path, why: str, hint: str = "") -> BuildError:
    return BuildError(
        f"the cache {folder} is not used: {why}",
        hint=hint or "set GLASSHOUSE_CACHE to a folder that is yours alone",
    )


def no_room(folder: Path, error: OSError) -> BuildError:
    """What is said when the cache cannot be written."""
    if isinstance(error, PermissionError) or "Read-only" in (error.strerror or ""):
        return BuildError(
            f"the cache {folder} is read-only, and what this model needs is not in it", hint=_HINT
        )
    return BuildError(f"cannot write to the cache {folder}: {error.strerror}", hint=_HINT)


# --------------------------------------------------------------------- what killed builds leave
def partial_prefix() -> str:
    """How names of files begin that this process has not finished."""
    return f"partial-{_machine()}-{os.getpid()}-"


@lru_cache(maxsize=1)
def _machine() -> str:
    """Homes may be shared: a process number means something on its own machine alone."""
    return re.sub(r"[^0-9a-z]", "", platform.node().lower()) or "here"


_sweeping = ForkLock()
_seen: set[Path] = set()


def _swept(folder: Path) -> None:
    """Remove what killed builds left, once in a process; not what may still be written."""
    with _sweeping.lock:
        if folder not in _seen:
            _seen.add(folder)
            for path in _partial(folder):
                with suppress(OSError):  # another process was quicker
                    if is_abandoned(path):
                        path.unlink()


def _partial(folder: Path) -> list[Path]:
    """Files that are not finished; not by `glob`, which holds 10 MB for 40,000 others beside."""
    with os.scandir(folder) as there:
        return [folder / file.name for file in there if file.name.startswith("partial-")]


def is_abandoned(path: Path) -> bool:
    """Whether its writer has ended; of a writer elsewhere, whether it is old."""
    made = _PARTIAL.match(path.name)
    if made is not None and made["machine"] == _machine():
        try:
            os.kill(int(made["process"]), 0)
        except ProcessLookupError:
            return True
        except OSError:  # somebody else's: alive
            pass
    return time.time() - path.stat().st_mtime > _ABANDONED
