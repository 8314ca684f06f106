"""The folder of the cache: whom it belongs to, how large it grows, and what the command tells."""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from glasshouse.backend.cache import write_whole
from glasshouse.backend.cache_folder import cache_folder, made_cache_folder
from glasshouse.backend.cache_size import entries, keep_within_limit, parse_size, prune
from glasshouse.backend.sealed import have, is_whole, seal
from glasshouse.cli import main
from glasshouse.errors import BuildError

OLD = time.time() - 100_000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path / "cache"))
    return made_cache_folder()


def put(path: Path, count: int, age: float) -> Path:
    path.write_bytes(os.urandom(count))
    seal(path)
    os.utime(path, (OLD - age, OLD - age))
    return path


def test_each_user_has_a_folder_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert cache_folder() != folder
    assert cache_folder().parent == folder.parent


def test_one_that_others_can_read_is_closed(folder: Path) -> None:
    folder.chmod(0o755)
    assert stat.S_IMODE(made_cache_folder().stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_one_that_others_can_write_is_refused(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    with pytest.raises(BuildError, match=f"others can write to it .mode {mode:o}") as told:
        made_cache_folder()
    assert f"chmod 700 {folder}" in str(told.value)


def test_one_of_somebody_else_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    monkeypatch.delenv("GLASSHOUSE_CACHE")
    made_cache_folder()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(BuildError, match=r"it belongs to user .*, not to 12345"):
        made_cache_folder()


def test_one_that_anybody_can_exchange_is_refused(folder: Path) -> None:
    folder.parent.chmod(0o777)
    with pytest.raises(BuildError, match=r"anybody can write to .* and exchange it"):
        made_cache_folder()
    folder.parent.chmod(0o1777)  # as /tmp is
    assert made_cache_folder() == folder


def test_a_read_only_one_serves_what_it_has_and_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = put(folder / "a.so", 100, 0)

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for owner, name in ((tempfile, "mkstemp"), (os, "utime"), (Path, "chmod")):
        monkeypatch.setattr(owner, name, refuse)
    assert made_cache_folder() == folder
    assert have(here)
    with pytest.raises(BuildError, match="is read-only, and what this model needs is not in it"):
        write_whole(folder / "b.cpp", "text")


def test_what_was_not_used_for_longest_goes_first(folder: Path) -> None:
    size = 40_000
    oldest = [put(folder / f"k1.{x}", size, 300) for x in ("o", "cpp")]
    note = folder / "kernel.in"  # which object holds a kernel: goes with the object
    note.write_text("k1 fft.h:1a2b3c4d5e6f")
    os.utime(note, (OLD - 900, OLD - 900))
    put(folder / "k2.so", size, 100)
    os.utime(put(folder / "k3.so", size, 0))
    assert len(entries(folder)) == 3
    total = sum(e.bytes for e in entries(folder))
    assert prune(folder, total - size) >= 2 * size
    assert not any(p.exists() for p in [*oldest, note])
    assert (folder / "k2.so").exists()
    prune(folder, 0)
    assert [p.name for p in folder.iterdir()] == ["k3.so"]  # somebody may be about to use it
    prune(folder, 0, keep_recent=False)
    assert not list(folder.iterdir())


def test_use_keeps_a_file_and_a_limit_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (put(folder / f"{n}.so", 300_000, age) for n, age in (("a", 9), ("b", 1)))
    assert have(first)
    monkeypatch.setenv("GLASSHOUSE_CACHE_SIZE", "500K")
    keep_within_limit(folder)
    assert first.exists()
    assert not second.exists()


@pytest.mark.parametrize("text, count", [("2G", 2 << 30), ("1.5 mb", 3 << 19), ("17", 17)])
def test_sizes(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "G", "-1", "two"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(BuildError, match="is no size of a cache"):
        parse_size(text)


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = put(folder / "a.so", 2000, 0)
    assert main(["cache"]) == 0
    told = capsys.readouterr().out
    assert str(folder) in told
    assert re.search(r"1 files, \d+ KB of at most 5.0 GB", told)
    assert main(["cache", "verify"]) == 0
    kept.write_bytes(kept.read_bytes()[:-1] + b"?")
    assert not is_whole(kept)
    assert main(["cache", "verify"]) == 1
    assert f"damaged: {kept}" in capsys.readouterr().out
    assert main(["cache", "prune", "--all"]) == 0
    assert not kept.exists()
    assert main(["cache", "prune", "--size", "many"]) == 2


def test_the_command_before_anything_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path / "none"))
    assert main(["cache"]) == 0
    assert "nothing is kept there yet" in capsys.readouterr().out
