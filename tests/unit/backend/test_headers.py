"""Headers that change under a running process do not reach what it builds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from glasshouse.backend.cpu import batches, headers
from glasshouse.backend.cpu.measure import measured_as
from glasshouse.lower.choice import Problem


@pytest.fixture
def include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of headers that a process has not read yet."""
    folder = tmp_path / "include"
    (folder / "glasshouse").mkdir(parents=True)
    (folder / "glasshouse" / "pool.h").write_text("old")
    monkeypatch.setattr(headers, "INCLUDE", folder)
    headers.header_texts.cache_clear()
    headers.headers_hash.cache_clear()
    yield folder
    headers.header_texts.cache_clear()
    headers.headers_hash.cache_clear()


def test_the_first_look_counts(include: Path, tmp_path: Path) -> None:
    before = headers.headers_hash()
    (include / "glasshouse" / "pool.h").write_text("new")
    copies = headers.headers_in(tmp_path / "cache")
    assert (copies / "glasshouse" / "pool.h").read_text() == "old"
    assert headers.headers_hash() == before


def test_damaged_copies_are_written_again(include: Path, tmp_path: Path) -> None:
    copies = headers.headers_in(tmp_path / "cache")
    (copies / "glasshouse" / "pool.h").write_bytes(b"\xff")
    assert headers.headers_in(tmp_path / "cache") == copies
    assert (copies / "glasshouse" / "pool.h").read_text() == "old"


def test_an_object_with_an_old_header_apart_serves_no_other_kernel(
    include: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template has one name in old and new objects, of which the linker takes the first."""
    apart = include / "glasshouse" / "apart"
    apart.mkdir()
    (apart / "fast.h").write_text("old")
    versions = headers.versions_apart('#include "glasshouse/apart/fast.h"\nvoid f();\n')
    monkeypatch.setattr(batches, "have", lambda path: True)
    (tmp_path / "plain.in").write_text(" ".join(("object", *versions)))
    assert batches.find_objects(tmp_path, {"k": "plain"}) == {"plain": tmp_path / "object.o"}
    (apart / "fast.h").write_text("new")
    headers.header_texts.cache_clear()
    assert batches.find_objects(tmp_path, {"k": "plain"}) == {}


def test_what_a_header_apart_includes_of_the_others_counts_with_it(include: Path) -> None:
    apart = include / "glasshouse" / "apart"
    apart.mkdir()
    (apart / "outer.h").write_text('#pragma once\n#include "inner.h"\n')
    (apart / "inner.h").write_text("old")
    text = headers.include_apart(["outer.h"])
    content, versions = headers.headers_apart(text), headers.versions_apart(text)
    assert [v.partition(":")[0] for v in versions] == ["inner.h", "outer.h"]
    (apart / "inner.h").write_text("new")
    headers.header_texts.cache_clear()
    assert headers.headers_apart(text) != content
    assert not headers.are_current(versions)


def test_what_was_measured_of_products_is_kept_by_their_headers_apart() -> None:
    product = Problem("matmul", "float32", (64, 64, 64), 1e6)
    assert measured_as(product).startswith("gemm_blocked.h:")
