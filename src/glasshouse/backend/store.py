"""The store behind the cache: what one machine built or measured, others find.

GLASSHOUSE_CACHE names it as a URL: `file:///mnt/fleet`, or what fsspec opens (`s3://bucket/fleet`).
What the cache of this machine lacks is looked for there under the same name, a hash of all that
went into it, and what is made here is put there. The cache stays where code is loaded from.

An entry tells its name and the hash of its content; one that does not fit is refused, and what it
should hold is made again. With GLASSHOUSE_CACHE_KEY a keyed hash is demanded too: then whoever can
write to the store, but has not the key, cannot have his code run here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import stat
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from glasshouse.backend.cache import hash_text, write_bytes
from glasshouse.errors import BuildError

_LOG = logging.getLogger("glasshouse.store")
_FORMAT = "glasshouse-store 1"
_PAUSE = 60.0  # seconds for which a store is not read, or not written, after that failed
_SHORTEST_KEY = 16  # letters


class Refused(ValueError):
    """An entry that is not what was put there under its name."""


# ------------------------------------------------------------------------------ what an entry is
def packed(name: str, data: bytes, key: bytes | None) -> bytes:
    """An entry: a line that tells what it is, and the content."""
    content = hashlib.sha256(data).hexdigest()
    head = {"format": _FORMAT, "name": name, "bytes": len(data), "sha256": content}
    if key is not None:
        head["hmac"] = _keyed(name, content, key)
    return json.dumps(head).encode() + b"\n" + data


def unpacked(name: str, entry: bytes, key: bytes | None) -> bytes:
    """The content of an entry; Refused where it is not the one of this name."""
    line, _, data = entry.partition(b"\n")
    try:
        head = json.loads(line)
        form, called, content = head["format"], head["name"], head["sha256"]
    except (ValueError, KeyError, TypeError):
        raise Refused("it is no entry of a store") from None
    if form != _FORMAT:
        raise Refused(f"it is of another format ({str(form)[:40]})")
    if called != name:
        raise Refused(f"it was put there as {str(called)[:80]}")
    if hashlib.sha256(data).hexdigest() != content:
        raise Refused("its content is not what its hash says")
    if key is not None and not hmac.compare_digest(
        str(head.get("hmac", "")).encode(), _keyed(name, content, key).encode()
    ):
        raise Refused("it was not written with the key of GLASSHOUSE_CACHE_KEY")
    return data


def _keyed(name: str, content: str, key: bytes) -> str:
    return hmac.new(key, f"{_FORMAT}\n{name}\n{content}".encode(), "sha256").hexdigest()


# ------------------------------------------------------------------------------- where entries lie
class EntryPlace(Protocol):
    """Bytes by name: read whole or not at all, written by several at once."""

    def read(self, name: str) -> bytes | None: ...

    def write(self, name: str, data: bytes) -> None: ...


class FolderPlace:
    """A folder that machines share."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, name: str) -> bytes | None:
        try:
            return (self.root / _spread(name)).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        path = self.root / _spread(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, data)


class RemotePlace:
    """What fsspec opens; an object store shows an object when all of it has arrived."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError:
            raise BuildError(
                f"GLASSHOUSE_CACHE names the store {url}, and fsspec is not installed",
                hint="pip install fsspec, with s3fs, gcsfs or what the URL needs; "
                "file:///folder needs none",
            ) from None
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            raise BuildError(
                f"GLASSHOUSE_CACHE names the store {url}, which fsspec cannot open: {error}"
            ) from None

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(self._files.cat_file(f"{self._root}/{_spread(name)}"))
        except FileNotFoundError:
            return None

    def write(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{_spread(name)}"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(path, data)


def _spread(name: str) -> str:
    """Entries in 256 folders: file systems list a million files in one badly."""
    return f"{hash_text(name)[:2]}/{name}"


# ------------------------------------------------------------------------------------- the store
class EntryStore:
    """Entries of a place, checked when they are read."""

    def __init__(self, url: str, place: EntryPlace, key: bytes | None) -> None:
        self.url, self.place, self.key = url, place, key
        # When it last failed. One that cannot be written (full, read-only) is still read: a fleet
        # that may not write starts warm, too.
        self._failed = {"read": -_PAUSE, "written": -_PAUSE}

    def get(self, name: str) -> bytes | None:
        """The content of an entry; None where there is none, or none that can be trusted."""
        if self._rests("read"):
            return None
        try:
            entry = self.place.read(name)
        except Exception as error:  # whatever a network file system raises
            self._fail("read", error)
            return None
        if entry is None:
            return None
        try:
            return unpacked(name, entry, self.key)
        except Refused as why:
            _LOG.warning("%s: %s is refused: %s; it is made again", self.url, name, why)
            return None

    def put(self, name: str, data: bytes) -> None:
        """Write an entry; a store that is full or gone is reported, and does not stop anybody."""
        if self._rests("written"):
            return
        try:
            self.place.write(name, packed(name, data, self.key))
        except Exception as error:
            self._fail("written", error)

    def _rests(self, what: str) -> bool:
        return time.monotonic() - self._failed[what] < _PAUSE

    def _fail(self, what: str, error: Exception) -> None:
        self._failed[what] = time.monotonic()
        _LOG.warning(
            "the store %s cannot be %s for now (the next try is in %.0f s): %s",
            self.url, what, _PAUSE, error,
        )  # fmt: skip


def store_url() -> str | None:
    """The store that GLASSHOUSE_CACHE names; None where it names a folder of this machine's."""
    named = os.environ.get("GLASSHOUSE_CACHE", "")
    return named if "://" in named else None


def store() -> EntryStore | None:
    """The store of this process, if there is one."""
    url = store_url()
    return _store(url, os.environ.get("GLASSHOUSE_CACHE_KEY") or "") if url is not None else None


@lru_cache(maxsize=4)
def _store(url: str, key: str) -> EntryStore:
    if key and len(key) < _SHORTEST_KEY:
        raise BuildError(
            f"GLASSHOUSE_CACHE_KEY has {len(key)} letters, and can be guessed",
            hint=f"at least {_SHORTEST_KEY}: openssl rand -hex 32",
        )
    if url.startswith("file://"):
        place: EntryPlace = FolderPlace(_folder(url, bool(key)))
    else:
        place = RemotePlace(url)
        if not key:
            _LOG.warning(
                "whoever can write to %s can run code here: GLASSHOUSE_CACHE_KEY is not set", url
            )
    return EntryStore(url, place, key.encode() if key else None)


def _folder(url: str, keyed: bool) -> Path:
    """The folder of a store, there; without a key, only one that nobody else can write to."""
    root = Path(url.removeprefix("file://"))
    if not root.is_absolute():
        raise BuildError(
            f"GLASSHOUSE_CACHE is {url}, and the path in it does not begin at the root",
            hint="file:///mnt/fleet has three slashes",
        )
    try:
        root.mkdir(parents=True, exist_ok=True)
        about = root.stat()
    except OSError as error:
        raise BuildError(f"the store {url} cannot be used: {error.strerror}") from None
    others = about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not keyed and hasattr(os, "geteuid") and (others or about.st_uid != os.geteuid()):
        raise BuildError(
            f"the store {url} is not used: others can write to it, and their code would run here",
            hint="give all who share it the same GLASSHOUSE_CACHE_KEY (openssl rand -hex 32)",
        )
    return root


# ------------------------------------------------------------------------- the cache's side of it
def fetch(path: Path) -> bool:
    """Bring a file that the cache lacks from the store; whether it is there now."""
    found = store()
    data = found.get(path.name) if found is not None else None
    if data is None:
        return False
    write_bytes(path, data)
    _LOG.debug("%s came from the store", path.name)
    return True


def publish(path: Path) -> None:
    """Put a file of the cache into the store."""
    found = store()
    if found is not None:
        found.put(path.name, path.read_bytes())


def described() -> dict[str, Any]:
    """What there is to say of the store: for `glasshouse cache`."""
    found = store()
    return {} if found is None else {"url": found.url, "keyed": found.key is not None}
