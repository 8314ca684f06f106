"""What one machine built another finds in the store, unless somebody tampered with it."""

import logging
import os
import sys

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.backend import store as stores
from glasshouse.backend.cache_folder import cache_folder
from glasshouse.errors import BuildError

KEY = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A store in a folder, and an empty cache; `machine(n)` is another one."""
    monkeypatch.setenv("GLASSHOUSE_CACHE", f"file://{tmp_path}/store")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "first"))
    return tmp_path / "store"


def entries(root):
    return {p.name: p for p in root.rglob("*") if p.is_file()}


def compiled(scale):
    module = gh.compile(lambda x: x * scale + 1, gh.spec((3,), "float32"), progress=False)
    return module(np.ones(3, np.float32))


def test_a_second_machine_finds_what_the_first_built_and_refuses_what_was_poisoned(
    root, tmp_path, monkeypatch, caplog
):
    monkeypatch.setenv("GLASSHOUSE_CACHE_KEY", KEY)
    assert compiled(3.0).tolist() == [4, 4, 4]
    held = entries(root)
    (library,) = (p for n, p in held.items() if n.endswith(".so"))
    assert {p.rpartition(".")[2] for p in held} >= {"so", "o", "in"}

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "second"))
    with caplog.at_level(logging.INFO, "glasshouse.build"):
        assert compiled(3.0).tolist() == [4, 4, 4]
    assert "files to build" not in caplog.text
    assert sorted(p.suffix for p in cache_folder().iterdir() if p.is_file()) == [".so"]

    for path in held.values():  # whoever can write, without the key
        path.write_bytes(stores.packed(path.name, library.read_bytes(), b"another key"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "third"))
    with caplog.at_level(logging.INFO, "glasshouse.build"):
        assert compiled(3.0).tolist() == [4, 4, 4]
    assert f"{library.name} is refused: it was not written with the key" in caplog.text
    assert "files to build" in caplog.text
    stores.unpacked(library.name, library.read_bytes(), KEY.encode())  # made again, for all


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (b"", "no entry"),
        (b"\x7fELF\n", "no entry"),
        (b"[]\n", "no entry"),
        (b'{"format": "glasshouse-store 9", "name": "a.so", "sha256": ""}\n', "another format"),
        (stores.packed("b.so", b"code", KEY.encode()), "put there as b.so"),
        (stores.packed("a.so", b"code", KEY.encode())[:-1], "not what its hash says"),
        (stores.packed("a.so", b"code", None), "not written with the key"),
        (stores.packed("a.so", b"code", b"other"), "not written with the key"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused(entry, why):
    with pytest.raises(stores.Refused, match=why):
        stores.unpacked("a.so", entry, KEY.encode())


def test_an_entry_is_what_was_put():
    for key in (None, KEY.encode()):
        assert stores.unpacked("a", stores.packed("a", b"x\ny", key), key) == b"x\ny"


def test_without_a_key_a_folder_that_others_can_write_is_not_used(root):
    root.mkdir(mode=0o755)
    assert stores.store() is not None
    stores._store.cache_clear()
    root.chmod(0o777)
    with pytest.raises(BuildError, match="others can write to it"):
        stores.store()


def test_a_store_that_fails_is_told_of_once_and_left_alone(root, caplog, monkeypatch):
    found = stores.store()
    root.rmdir()
    root.write_text("a file, where the folder was")
    path = root.parent / "a.in"
    path.write_text("x")
    for _ in range(3):
        stores.publish(path)
        assert not stores.fetch(root.parent / "b.in")
    for what in ("read", "written"):
        assert caplog.text.count(f"cannot be {what} for now") == 1
    assert found.get("a.in") is None


def test_a_store_that_is_full_or_read_only_is_still_read(root, caplog, tmp_path, monkeypatch):
    path = tmp_path / "a.in"
    path.write_text("x")
    stores.publish(path)

    def no_room(name, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stores.store().place, "write", no_room)
    other = tmp_path / "b.in"
    other.write_text("y")
    for _ in range(3):
        stores.publish(other)
        path.unlink()
        assert stores.fetch(path)
    assert caplog.text.count("cannot be written for now") == 1


def test_fsspec_opens_other_stores(monkeypatch, tmp_path):
    pytest.importorskip("fsspec")
    monkeypatch.setenv("GLASSHOUSE_CACHE", "memory://fleet")
    monkeypatch.setenv("GLASSHOUSE_CACHE_KEY", KEY)
    path = tmp_path / "a.in"
    path.write_text("x")
    stores.publish(path)
    path.unlink()
    assert stores.fetch(path)
    assert path.read_text() == "x"
    assert not stores.fetch(tmp_path / "b.in")


@pytest.mark.parametrize(
    ("url", "key", "why"),
    [
        ("file://relative", KEY, "does not begin at the root"),
        ("s3://bucket", KEY, "fsspec"),
        ("memory://x", "short", "can be guessed"),
    ],
)
def test_what_cannot_be_a_store_is_said(monkeypatch, url, key, why):
    monkeypatch.setenv("GLASSHOUSE_CACHE", url)
    monkeypatch.setenv("GLASSHOUSE_CACHE_KEY", key)
    if url.startswith("s3"):
        monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(BuildError, match=why):
        stores.store()


def test_a_folder_is_no_store(monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    assert stores.store() is None
    assert cache_folder() == tmp_path / f"user-{os.geteuid()}"
