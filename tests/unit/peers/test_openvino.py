"""What OpenVINO made of a file, beside what Glasshouse makes of it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from glasshouse import cli, formats
from glasshouse.peers.openvino import _timed
from glasshouse.record import Recording
from glasshouse.record.schema import KernelRow, TimeRow

EXECUTED = Path(__file__).parents[2] / "data/openvino/executed.xml"
"""What OpenVINO 2026.4 wrote of the file in conftest.py: one kernel of three layers."""


def test_an_execution_graph_with_its_counters() -> None:
    made = _timed(formats.read(str(EXECUTED)), {"y": [3e-6, 2e-6, 9e-6]}, [1e-5], "openvino", "s")
    (kernel,) = made.graphs[0].table(KernelRow)
    assert (kernel.title, kernel.variant) == ("first + between + y", "jit_avx2_f32")
    (row,) = made.graphs[0].table(TimeRow)
    assert row.seconds == pytest.approx(3e-6)
    assert made.header.facts["compiler"] == "openvino"


def test_one_page_has_both_compilers(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    call = ["explain", str(file), "--target", "interp", "--runs", "2", "-o", "ours.glass"]
    assert cli.main(call) == 0
    graph = formats.read(str(EXECUTED))
    _timed(graph, {"y": [3e-6]}, [1e-5], "openvino", "small").save("theirs.glass")
    capsys.readouterr()
    assert cli.main(["diff", "ours.glass", "theirs.glass", "--html", "both.html"]) == 0
    said = capsys.readouterr().out
    assert "Parts of the model that both compute, A faster in 0, B in 1" in said
    assert "1: first + between + y" in said
    page = Path("both.html").read_text()
    assert "originalLayersNames" not in said
    assert len(page) < 2_000_000
    assert '"compare":true' in page.replace(" ", "")  # it opens side by side


@pytest.mark.skipif(find_spec("openvino") is None, reason="openvino is not installed")
def test_the_real_one(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    call = ["explain", str(file), "--backend", "openvino", "--runs", "3", "-o", "theirs.glass"]
    assert cli.main(call) == 0
    assert "compiler: openvino" in capsys.readouterr().out
    kernels = list(Recording.open("theirs.glass").graphs[0].table(KernelRow))
    assert any("between" in k.title for k in kernels)


def test_without_it_one_line_says_so(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from glasshouse.peers import openvino

    monkeypatch.setattr(openvino, "find_spec", lambda name: None)
    assert cli.main(["explain", str(file), "--backend", "openvino"]) == 2
    assert "openvino is not installed" in capsys.readouterr().err


def test_what_the_other_compiler_cannot_do_is_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from glasshouse.peers import openvino

    def recording_of(*given: object) -> Recording:
        raise RuntimeError("\nno conversion rule for Frobnicate\nat core.cpp:1")

    monkeypatch.setattr(openvino, "recording_of", recording_of)
    assert cli.main(["explain", str(file), "--backend", "openvino"]) == 2
    said = capsys.readouterr().err
    assert "openvino does not run" in said
    assert "no conversion rule for Frobnicate" in said
    assert "core.cpp" not in said
