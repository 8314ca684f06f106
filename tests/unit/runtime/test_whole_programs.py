"""Whole programs under sanitizers: no access outside of a value, nothing undefined, no race.

The templates have their own test (backend/cpu_kernels); here it is generated code, the arena, the
packed weights and the threads, as a user runs them. Each program is checked for its results too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
MODELS = (
    "mlp", "mlp-one-row", "mlp-any-batch", "mlp-training", "attention", "bert", "bert-any-size",
    "bert-training", "gpt2", "gpt2-training", "resnet18", "resnet18-training", "quantised",
    "images",
)  # fmt: skip


def environment(kind: str, march: str, cache: Path, threads: int) -> dict[str, str]:
    """Variables that build with a sanitizer and preload it; skips where there is none."""
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no g++")
    library = f"lib{'tsan' if kind == 'thread' else 'asan'}.so"
    found = subprocess.run(
        [compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if found == library:
        pytest.skip(f"the compiler has no {library}")
    return {
        **os.environ,
        "CXX": compiler,
        "LD_PRELOAD": found,
        "GLASSHOUSE_CXXFLAGS": f"-O0 -g1 -fsanitize={kind} -fno-sanitize-recover=all",
        "GLASSHOUSE_MARCH": march,
        "GLASSHOUSE_CACHE": str(cache),
        "GLASSHOUSE_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": "1",
        "ASAN_OPTIONS": "detect_leaks=0",  # Python does not free all it has
        "TSAN_OPTIONS": "halt_on_error=1",
        "PYTHONPATH": str(TESTS),
    }


def run_under(kind: str, march: str, cache: Path, *programs: str, threads: int = 2) -> None:
    command = [sys.executable, str(TESTS / "sanitized_programs.py"), *programs]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env=environment(kind, march, cache, threads),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6000:]
    assert done.stdout.split("\n")[:-1] == [f"clean {name}" for name in programs]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for this file: the templates are built once for each sanitizer."""
    return tmp_path_factory.mktemp("cache")


def test_a_share(cache: Path) -> None:
    names = ("mlp-any-batch", "faults", "random:0:2")
    run_under("address,undefined", "native", cache, *names)


def test_the_check_sees_a_write_outside(cache: Path) -> None:
    with pytest.raises(AssertionError, match="AddressSanitizer"):
        run_under("address,undefined", "native", cache, "astray")


@pytest.mark.slow
@pytest.mark.parametrize("march", ["native", "haswell", "plain"])
def test_models_and_random_graphs(march: str, cache: Path) -> None:
    run_under("address,undefined", march, cache, *MODELS, "random:100:100")


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4])
def test_threads(cache: Path, threads: int) -> None:
    names = (
        "mlp-large", "attention", "resnet18", "mlp-training", "resized", "callers", "background",
    )  # fmt: skip
    run_under("thread", "native", cache, *names, threads=threads)


@pytest.mark.slow
def test_forks_and_the_c_interface(cache: Path) -> None:
    run_under("address,undefined", "native", cache, "forked", "saved", "resized")
