"""What ONNX Runtime made of a file, beside what Glasshouse makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from glasshouse import cli
from glasshouse.record import Recording
from glasshouse.record.schema import KernelRow, TimeRow


def test_its_nodes_are_kernels_with_times(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    call = ["explain", str(file), "--backend", "onnxruntime", "--runs", "3", "-o", "theirs.glass"]
    assert cli.main(call) == 0
    assert "compiler: onnxruntime" in capsys.readouterr().out
    recording = Recording.open("theirs.glass")
    kernels = list(recording.graphs[0].table(KernelRow))
    assert [k.title for k in kernels] == ["first", "between", "second"]
    assert all(t.seconds > 0 for t in recording.graphs[0].table(TimeRow))
    # The same file as Glasshouse runs it: one kernel less, since the activation is fused.
    assert (
        cli.main(["explain", str(file), "--target", "interp", "--runs", "2", "-o", "ours.glass"])
        == 0
    )
    assert len(list(Recording.open("ours.glass").graphs[0].table(KernelRow))) == 2
    capsys.readouterr()
    assert cli.main(["diff", "ours.glass", "theirs.glass"]) == 0
    said = capsys.readouterr().out
    assert "Parts of the model that both compute" in said
    assert "1: first + between" not in said  # its kernels are those of single nodes
    assert "2: first; between" in said
    assert "wall time" in said


def test_it_takes_onnx_files_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "def f():\n    import numpy as np\n    return (lambda x: x + 1), (np.ones(2, 'f'),)\n"
    )
    assert cli.main(["explain", f"{model}:f", "--backend", "onnxruntime"]) == 2
    assert "ONNX Runtime takes .onnx files" in capsys.readouterr().err
