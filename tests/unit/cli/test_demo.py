"""`glasshouse demo` shows the graph, where it comes from, and a result that is right."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse import cli
from glasshouse.cli import demo

SMALL = ["demo", "--length", "8", "--hidden", "12", "--heads", "3"]


def test_shows_graph_sources_and_result(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(SMALL) == 0
    printed = capsys.readouterr().out
    assert "Graph(x: float32[1, 8, 12], x_1: float32[1, 1, 1, 8]){" in printed
    line = "weights = (scores + mask).softmax(-1)\n      -> x_17 Add, x_18 Softmax\n"
    assert line in printed
    assert "(in query)" in printed
    assert "Run on the reference executor: float32[1, 8, 12]" in printed


def test_a_wrong_result_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "by_hand", lambda model, x, mask: np.full(x.shape, np.nan))
    assert cli.main(SMALL) == 1
    assert "too much" in capsys.readouterr().out


@pytest.mark.parametrize("sizes", [["--heads", "5"], ["--length", "0"], ["--heads", "-3"]])
def test_bad_sizes(sizes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([*SMALL, *sizes]) == 2
    assert "multiple of the heads" in capsys.readouterr().err
