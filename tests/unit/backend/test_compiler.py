"""Which C++ compiler is taken: what CXX says, words behind the program included."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from glasshouse.backend.base import GeneratedSource
from glasshouse.backend.cpu.build import build
from glasshouse.backend.cpu.toolchain import toolchain
from glasshouse.backend.cxx.compiler import compiler_command
from glasshouse.errors import BuildError, CompilerMissing


def wrapper(path: Path) -> Path:
    """A program that runs what stands behind it, as ccache does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('#!/bin/sh\nexec "$@"\n')
    path.chmod(0o755)
    return path


def test_a_program_with_words_behind_it_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = toolchain().command
    said = " ".join([str(wrapper(tmp_path / "wrapper")), *first])
    monkeypatch.setenv("CXX", said)
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path / "cache"))
    assert toolchain().command == said.split()
    text = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'
    assert ctypes.CDLL(str(build(GeneratedSource({}, text)))).answer() == 42
    with pytest.raises(BuildError, match="the C\\+\\+ compiler failed on main"):
        build(GeneratedSource({}, "this is no C++"))


def test_a_path_may_have_spaces_and_quotes(tmp_path: Path) -> None:
    for name in ("my compiler/g++", 'his "compiler'):
        path = str(wrapper(tmp_path / name))
        assert compiler_command(path) == [path]


@pytest.mark.parametrize("named", ["/nonexistent -m64", 'g+++ "'])
def test_none_is_found(named: str) -> None:
    with pytest.raises(CompilerMissing, match="no C\\+\\+ compiler found") as told:
        compiler_command(named)
    assert f"(looked for {named})" in str(told.value)
