"""`glasshouse demo` shows the graph, where it comes from, its kernels, and right results."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pytest

from glasshouse import cli
from glasshouse.cli import demo, demo_compiled, demo_torch

SMALL = [
    "demo", "--length", "8", "--hidden", "12", "--heads", "3", "--batch", "0", "--image", "0",
    "--layers", "0",
]  # fmt: skip


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is written where the demo is started."""
    monkeypatch.chdir(tmp_path)


def test_shows_graph_sources_and_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(SMALL) == 0
    printed = capsys.readouterr().out
    assert "Graph(x: float32[1, 8, 12], x_1: float32[1, 1, 1, 8]){" in printed
    line = "weights = (scores + mask).softmax(-1)\n      -> x_17 Add, x_18 Softmax\n"
    assert line in printed
    assert "(in query)" in printed
    assert "Run on the reference executor: float32[1, 8, 12]" in printed
    assert "own error" in printed
    assert Path("demo.html").exists() or "make viewer" in printed


def test_times_pytorch_models_against_pytorch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_torch, "SECONDS", 0.01)
    for name, small in (("mlp_right", {"hidden": 16}), ("resnet_right", {"channels": 4})):
        full = getattr(demo_torch, name)
        monkeypatch.setattr(demo_torch, name, functools.partial(full, **small))
    assert cli.main([*SMALL, "--batch", "4", "--image", "32"]) == 0
    printed = capsys.readouterr().out
    lines = [x for x in printed.splitlines() if x.startswith("pytorch eager")]
    assert len(lines) == 2
    assert all(float(x.split()[-1]) < demo_compiled.TOLERANCE for x in lines)
    assert "blocks." in printed  # where the time goes, by module


def test_without_a_compiler_the_rest_still_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "/nonexistent")
    assert cli.main(SMALL) == 0
    printed = capsys.readouterr().out
    assert "Run on the reference executor" in printed
    assert "Not compiled: no C++ compiler found" in printed
    assert "apt-get install g++" in printed


def test_a_wrong_result_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "by_hand", lambda model, x, mask: np.full(x.shape, np.nan))
    assert cli.main(SMALL) == 1
    assert "too much" in capsys.readouterr().out


def test_heads_that_do_not_divide(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SMALL, "--heads", "5"]) == 2
    assert "multiple of the heads" in capsys.readouterr().err


@pytest.mark.parametrize("sizes", [["--length", "0"], ["--heads", "-3"]])
def test_bad_sizes(sizes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main([*SMALL, *sizes])
    assert f"{sizes[0]}: a whole number from 1 on is wanted" in capsys.readouterr().err
