"""Compilers of a build: how many run at a time, and what becomes of the others when one fails."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from glasshouse.backend.cpu import build
from glasshouse.backend.cpu.batches import Batch
from glasshouse.backend.cpu.recipe import CpuSource, Recipe
from glasshouse.backend.cpu.spawn import compilers_at_once
from glasshouse.errors import BuildError


def test_a_share_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for given, wanted in (("3", 3), ("0", 8), ("", 8)):
        monkeypatch.setenv("GLASSHOUSE_BUILD_JOBS", given)
        assert compilers_at_once() == wanted
    monkeypatch.setenv("GLASSHOUSE_BUILD_JOBS", "many")
    with pytest.raises(BuildError, match="GLASSHOUSE_BUILD_JOBS is 'many'"):
        compilers_at_once()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Batch]:
    """The files that compilers are asked for, one at a time; the first of them fails."""
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    monkeypatch.setenv("GLASSHOUSE_BUILD_JOBS", "1")
    monkeypatch.setattr(build, "parse_in_advance", lambda *_: None)
    asked: list[Batch] = []
    left = Event()  # the build has given up
    shutdown: Callable[..., None] = ThreadPoolExecutor.shutdown

    def give_up(pool: ThreadPoolExecutor, wait: bool = True, cancel_futures: bool = False) -> None:
        shutdown(pool, wait=False, cancel_futures=cancel_futures)
        left.set()
        shutdown(pool, wait=wait)

    def fail(tools: Any, folder: Path, batch: Batch) -> Path:
        if asked:
            left.wait()
        asked.append(batch)
        raise BuildError("the disk is full")

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", give_up)
    monkeypatch.setattr(build, "compile_batch", fail)
    return asked


def program(recipes: Mapping[str, Recipe]) -> CpuSource:
    return CpuSource({name: f"void {name}() {{}}\n" for name in recipes}, "", recipes=recipes)


def test_after_one_that_fails_no_other_begins(compiled: list[Batch]) -> None:
    with pytest.raises(BuildError, match="the disk is full"):
        build.build(program({f"k{i}": Recipe(seconds=9.0) for i in range(9)}))
    assert len(compiled) <= 2  # the next one may have begun meanwhile


def test_a_kernel_is_another_one_at_another_level(compiled: list[Batch]) -> None:
    for level in ("-O2", "-O3"):
        with pytest.raises(BuildError, match="the disk is full"):
            build.build(program({"k": Recipe(level=level)}))
    fast, faster = (batch.texts for batch in compiled)
    assert list(fast.values()) == list(faster.values())
    assert list(fast) != list(faster)
