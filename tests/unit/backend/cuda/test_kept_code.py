"""Code that is kept for GPUs: what is damaged in the cache is built again, and nothing else."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from glasshouse.backend.base import GeneratedSource
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.backend.cuda import build
from glasshouse.backend.cuda.host_build import built_text
from glasshouse.backend.sealed import damaged

SOURCE = GeneratedSource({"a": "text of a", "b": "text of b"}, json.dumps({"arch": "sm_90"}))


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels that were compiled, in an empty cache."""
    names: list[str] = []

    def compile_cubin(text: str, name: str, arch: str, include: Path) -> bytes:
        names.append(name)
        return f"{arch}: {text}".encode()

    monkeypatch.setenv("GLASSHOUSE_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "identity", lambda: "a compiler")
    monkeypatch.setattr(build, "compile_cubin", compile_cubin)
    return names


def held(library: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(library) as program:
        return {name: program.read(f"{name}.cubin") for name in SOURCE.kernels}


def changed(data: bytes) -> bytes:
    return data.replace(b"text of a", b"text of z")


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize("damage", [changed, half, lambda _: b""])
def test_a_damaged_kernel_is_compiled_again(
    compiled: list[str], damage: Callable[[bytes], bytes]
) -> None:
    library = build.build(SOURCE)
    first = held(library)
    assert sorted(compiled) == ["a", "b"]
    cubin = build._file(SOURCE.kernels["a"], "sm_90")
    cubin.write_bytes(damage(cubin.read_bytes()))
    assert damaged(made_cache_folder()) == [cubin]
    library.unlink()
    assert held(build.build(SOURCE)) == first
    assert compiled[2:] == ["a"]
    assert damaged(made_cache_folder()) == []


@pytest.mark.parametrize("damage", [changed, half])
def test_a_damaged_program_is_put_together_again(
    compiled: list[str], damage: Callable[[bytes], bytes]
) -> None:
    library = build.build(SOURCE)
    first = held(library)
    library.write_bytes(damage(library.read_bytes()))
    assert held(build.build(SOURCE)) == first
    assert len(compiled) == 2


def test_a_library_of_the_host_is_checked_as_others_are(
    compiled: list[str],
) -> None:
    text = 'extern "C" __attribute__((visibility("default"))) int answer() { return 42; }\n'
    library = built_text(text, "the answer")
    before = library.read_bytes()
    assert damaged(made_cache_folder()) == []
    library.write_bytes(half(before))
    assert damaged(made_cache_folder()) == [library]
    assert built_text(text, "the answer") == library
    assert damaged(made_cache_folder()) == []
