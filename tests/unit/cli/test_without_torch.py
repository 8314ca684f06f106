"""The commands take models of `glasshouse.nn` where neither PyTorch nor onnx is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODELS = """
import numpy as np
from glasshouse import nn

def linear():
    return nn.Linear(8, 4), (np.zeros((2, 8), np.float32),)

def pytorch():
    import torch
"""
# A name that is None in `sys.modules` is one that cannot be imported or found.
BARE = """
import sys
sys.modules.update(torch=None, onnx=None, onnxruntime=None)
from glasshouse.cli import main
raise SystemExit(main(sys.argv[1:]))
"""


def bare(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BARE, *words],
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("bare")
    (made / "m.py").write_text(MODELS)
    (made / "cut.onnx").write_bytes(b"\x08")
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("explain", "m.py:linear", "--runs", "1"),
        ("compile", "m.py:linear", "-o", "out"),
        ("html", "m.py:linear", "-o", "m.html"),
        ("check", "m.py:linear"),
        ("bisect", "m.py:linear"),
        ("convert", "m.py:linear", "m.json"),
        ("diff", "m.py:linear", "m.py:linear"),
    ],
    ids=lambda words: words[0],
)
def test_a_model_of_our_own_needs_no_torch(folder: Path, words: tuple[str, ...]) -> None:
    done = bare(folder, *words)
    assert done.returncode == 0, done.stderr


def test_a_file_that_is_none_is_a_message(folder: Path) -> None:
    done = bare(folder, "explain", "cut.onnx")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_what_a_model_lacks_is_told_with_the_python_that_lacks_it(folder: Path) -> None:
    done = bare(folder, "explain", "m.py:pytorch")
    assert done.returncode == 2
    assert "import of torch halted" in done.stderr
    assert f"among the packages of {sys.executable}" in done.stderr
