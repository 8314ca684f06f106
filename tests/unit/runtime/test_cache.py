"""The cache of built code: damage is repaired silently, processes share it, no compiler is told."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from glasshouse.backend.cache_folder import partial_prefix

# Two kernels, so that there are several objects; each run prints a sum to compare.
CODE = """
import numpy as np, glasshouse as gh
from glasshouse import nn
gh.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1))
x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
print(repr(gh.compile(model, x)(x).tolist()))
"""


def start(cache: Path, code: str = CODE, **more: str) -> subprocess.Popen[str]:
    env = {**os.environ, "GLASSHOUSE_CACHE": str(cache), **more}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], env=env, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    assert err == ""
    return out


def inside(cache: Path) -> Path:
    """This user's part of a folder that GLASSHOUSE_CACHE names."""
    return cache / f"user-{os.geteuid()}"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A cache that two processes filled at the same time, and their result."""
    cache = tmp_path_factory.mktemp("cache")
    both = [start(cache), start(cache)]
    first, second = (finish(p) for p in both)
    assert first == second
    return cache, first


def test_two_processes_leave_one_library_and_nothing_partial(shared: tuple[Path, str]) -> None:
    folder = inside(shared[0])
    assert len(list(folder.glob("*.so"))) == 1
    assert not list(folder.glob("partial-*"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "ending, cut",
    [("so", "half"), ("so", "changed"), ("o", "changed"), ("in", "half"), ("in", "changed")],
)
def test_damaged_files_are_built_again(shared: tuple[Path, str], ending: str, cut: str) -> None:
    cache, expected = shared
    if ending != "so":
        for path in inside(cache).glob("*.so"):
            path.unlink()
    files = [p for p in inside(cache).glob(f"*.{ending}") if not p.name.startswith("gh_")]
    assert files
    for path in files:
        data = path.read_bytes()
        middle = len(data) // 2
        same = bytes(255 - b for b in data[middle : middle + 64])
        wrong = data[:middle] + same + data[middle + 64 :]
        path.write_bytes(data[:middle] if cut == "half" else wrong)
    assert finish(start(cache)) == expected


def test_kernels_of_one_model_serve_another(tmp_path: Path) -> None:
    """Same layers and one more: only the new kernel and the calls are compiled."""
    finish(start(tmp_path))
    before = set(inside(tmp_path).glob("*.o"))
    longer = CODE.replace("nn.Softmax(-1))", "nn.Softmax(-1), nn.Sigmoid(), nn.Softmax(-1))")
    finish(start(tmp_path, code=longer))
    made = [p.with_suffix(".cpp").read_text() for p in set(inside(tmp_path).glob("*.o")) - before]
    assert len(made) == 2
    assert not any("void matmul" in text and "gh::gemm<" in text for text in made)


def test_without_a_compiler_the_message_has_the_one_command(tmp_path: Path) -> None:
    process = start(tmp_path, CXX="/nonexistent")
    _, err = process.communicate(timeout=600)
    assert process.returncode != 0
    assert "CompilerMissing: no C++ compiler found (looked for /nonexistent)" in err
    assert "apt-get install g++" in err


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = start(tmp_path / "file" / "cache")
    _, err = process.communicate(timeout=600)
    assert process.returncode != 0
    assert "BuildError: cannot write to the cache" in err
    assert "GLASSHOUSE_CACHE" in err


# Does `$DO` once, in place of the first compilation of generated code; else is the real compiler.
UNRELIABLE = """#!/bin/sh
case "$*" in
*--version* | *c++-header*) ;;
*) if mkdir "$ONCE" 2>/dev/null; then eval "$DO"; fi ;;
esac
exec g++ "$@"
"""


@pytest.fixture
def unreliable(tmp_path: Path) -> dict[str, str]:
    """The environment of a compiler that fails once; DO says how."""
    if shutil.which("g++") is None:
        pytest.skip("no g++")
    script = tmp_path / "c++"
    script.write_text(UNRELIABLE)
    script.chmod(0o755)
    return {"CXX": str(script), "ONCE": str(tmp_path / "once")}


def test_a_killed_build_is_made_up_for_and_its_rests_go(
    shared: tuple[Path, str], unreliable: dict[str, str], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    # It writes half a file and takes the whole process with it.
    half = 'for last; do :; done; echo half > "$last"; kill -9 $PPID; exit 1'
    killed = start(cache, DO=half, **unreliable)
    killed.communicate(timeout=600)
    assert killed.returncode == -9
    folder = inside(cache)
    # A compiler that ran beside it lives on and may write its own file at any time: not that one.
    (left,) = (p for p in folder.glob("partial-*") if p.read_bytes() == b"half\n")
    abandoned = folder / "partial-elsewhere-1-old.o"
    elsewhere = folder / "partial-elsewhere-1-new.o"
    ours = folder / f"{partial_prefix()}new.o"  # of this process, which is alive
    for path in (abandoned, elsewhere, ours):
        shutil.copyfile(left, path)
    os.utime(abandoned, (0, 0))
    assert finish(start(cache, DO="", **unreliable)) == shared[1]
    assert not left.exists()
    assert not abandoned.exists()
    assert elsewhere.exists()  # a compiler on another machine might be writing it
    assert ours.exists()


@pytest.mark.parametrize(
    "how, message",
    [
        ("echo 'fatal error: x.o: No space left on device' >&2; exit 1",
         "BuildError: cannot write to the cache .*: No space left on device"),
        pytest.param(
            "kill -9 $$", "BuildError: the C\\+\\+ compiler was killed while it built",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "echo 'a.cpp:1: error: no such thing' >&2; exit 1",
            "BuildError: .*the C\\+\\+ compiler failed on .*: a.cpp:1: error: no such thing",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_a_build_that_fails_says_why(
    unreliable: dict[str, str], tmp_path: Path, how: str, message: str
) -> None:
    process = start(tmp_path / "cache", DO=how, **unreliable)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 1
    assert re.search(message, err), err
    assert not list(inside(tmp_path / "cache").glob("partial-*"))
