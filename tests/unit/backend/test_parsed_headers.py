"""Headers parsed in advance: made where that pays, used by g++, made again when damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from glasshouse.backend.base import GeneratedSource
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.cpu import headers, parsed_headers
from glasshouse.backend.cpu.build import build, get_ready
from glasshouse.backend.cpu.headers import headers_in
from glasshouse.backend.cpu.parsed_headers import parse_in_advance
from glasshouse.backend.cpu.spawn import run_program
from glasshouse.backend.cpu.toolchain import Toolchain, toolchain


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toolchain]:
    """The compiler, with the copies of the headers that earlier programs left in the cache."""
    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    found = toolchain()
    if "clang" in found.version:
        pytest.skip("only g++ looks for such files by itself")
    # Ours take 2 s each time; g++ treats a short one alike.
    texts = {"glasshouse/kernels.h": "int answer();\n", "glasshouse/kernels.cpp": ""}
    monkeypatch.setattr(headers, "header_texts", lambda: texts)
    headers.headers_hash.cache_clear()
    parsed_headers._PARSED.clear()
    for name in ("variants", "model"):
        (made_cache_folder() / f"{name}.so").touch()
    yield replace(found, include=headers_in(made_cache_folder(), found.flags[:-1]))
    headers.headers_hash.cache_clear()  # what later tests build has the names of its own headers


def program(name: str) -> GeneratedSource:
    text = f'#include "glasshouse/kernels.h"\nextern "C" int {name}() {{ return 1; }}\n'
    return GeneratedSource({}, text)


def uses_parsed(tools: Toolchain, folder: Path) -> bool:
    """Whether g++ takes what was parsed; `-H` marks such a file with an exclamation mark."""
    source = folder / "look.cpp"
    source.write_text('#include "glasshouse/kernels.h"\n')
    shown = run_program([*tools.command, "-O3", *tools.flags, "-H", "-c", str(source), "-o",
                         str(folder / "look.o")])  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    return shown.stderr.startswith("!")


def test_many_files_are_worth_it_and_the_few_of_a_first_model_are_not(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsed_headers, "_parse", lambda *given: made.append(given))
    made: list[object] = []
    cores = os.cpu_count() or 1
    parse_in_advance(tools, tmp_path, 2 * cores - 1)
    assert not made
    parse_in_advance(tools, tmp_path, 2 * cores)
    assert made == [(tools, tmp_path)]


def test_they_are_parsed_while_a_model_is_traced(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    compile_into = parsed_headers.compile_into

    def counted(target: Path, command: list[str], name: str) -> None:
        runs.append(name)
        compile_into(target, command, name)

    monkeypatch.setattr(parsed_headers, "compile_into", counted)
    get_ready()
    get_ready()
    build(program("zeroth"))
    assert runs == ["the headers"]
    assert uses_parsed(tools, tmp_path)


def test_a_later_program_finds_them(tools: Toolchain, tmp_path: Path) -> None:
    made = tools.include / "glasshouse" / "kernels.h.gch"
    build(program("first"))
    assert made.is_dir()
    assert uses_parsed(tools, tmp_path)
    parsed = next(made.iterdir())
    with parsed.open("r+b") as file:
        file.truncate(parsed.stat().st_size // 2)
    parsed_headers._PARSED.clear()
    build(program("second"))
    assert uses_parsed(tools, tmp_path)
    assert not [p for p in made_cache_folder().glob("parsed-*") if p.suffix != ".claim"]


def test_without_room_each_file_parses_for_itself(tools: Toolchain, tmp_path: Path) -> None:
    (tools.include / "glasshouse" / "kernels.h.gch").write_text("no folder can be made here")
    assert build(program("third")).is_file()
    assert not uses_parsed(tools, tmp_path)


def test_other_flags_have_headers_of_their_own(
    tools: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """g++ takes what was parsed with -O0 for -O3, too, and crashes in its own code."""
    usual = os.environ.get("GLASSHOUSE_CXXFLAGS", "")
    monkeypatch.setenv("GLASSHOUSE_CXXFLAGS", "-O0")
    build(program("fast"))
    monkeypatch.setenv("GLASSHOUSE_CXXFLAGS", usual)
    assert not uses_parsed(tools, tmp_path)
    assert build(program("usual")).is_file()
    assert uses_parsed(tools, tmp_path)
