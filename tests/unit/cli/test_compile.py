"""`glasshouse compile` and `bench` take files and functions, and refuse what is no model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import cli

MODELS = """
import numpy as np
from glasshouse import nn

def mlp():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)), (np.ones((2, 8), "f"),)

def one_input():
    return nn.Linear(8, 4), np.ones((2, 8), "f")

def fails():
    return 1 / 0

def nothing():
    return nn.Linear(8, 4)
"""
TORCH = """
import torch

def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(8, 4), (torch.ones(2, 8),)
"""


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "models.py"
    path.write_text(MODELS)
    return path


def test_compile_writes_a_folder_that_loads(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert cli.main(["compile", f"{models}:mlp", "-o", str(out), "--name", "mlp", "--check"]) == 0
    printed = capsys.readouterr()
    assert "libmlp.so" in printed.out
    assert "compiled: 2 steps" in printed.err
    assert gh.load(out)(np.ones((2, 8), np.float32)).shape == (2, 4)


def test_compile_in_another_precision(models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ["compile", f"{models}:mlp", "-o", str(out), "--precision", "bf16", "--no-tune"]
    assert cli.main(command) == 0
    dtypes = {n.outputs[0].type.dtype.name for n in gh.load(out).graph.nodes}
    assert "bfloat16" in dtypes


@pytest.mark.parametrize(
    "model, message",
    [
        ("models.py:fails", "fails() failed: ZeroDivisionError"),
        ("models.py:nothing", "must return a model and its inputs"),
        ("models.py:absent", "has no function 'absent'"),
        ("other.py:mlp", "other.py: No such file"),
        ("models.txt", "not a model"),
        ("absent.onnx", "absent.onnx: cannot be read (No such file"),
    ],
)
def test_what_is_no_model(
    model: str,
    message: str,
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(models.parent)
    assert cli.main(["compile", model, "-o", "out"]) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_bad_name_is_told_before_work_begins(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["compile", f"{models}:mlp", "-o", "out", "--name", "1x"]) == 2
    assert "cannot name a model" in capsys.readouterr().err


def test_bench_compares_with_the_reference(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", f"{models}:one_input", "--seconds", "0.01", "--rounds", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("glasshouse")
    assert lines[3].startswith("numpy reference")
    assert float(lines[3].split()[-1]) < 1e-5


def test_bench_compares_with_pytorch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "torch_models.py"
    path.write_text(TORCH)
    assert cli.main(["bench", f"{path}:linear", "--seconds", "0.01", "--rounds", "2"]) == 0
    line = capsys.readouterr().out.splitlines()[3]
    assert line.startswith("pytorch eager")
    assert float(line.split()[-1]) < 1e-5
