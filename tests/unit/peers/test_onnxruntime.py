"""What ONNX Runtime made of a file, beside what Glasshouse makes of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from glasshouse import cli
from glasshouse.record import Recording
from glasshouse.record.schema import KernelRow, TimeRow


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((16, 32)), "v": rng.standard_normal((32, 8))}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="between"),
        helper.make_node("MatMul", ["b", "v"], ["y"], name="second"),
    ]
    graph = helper.make_graph(
        nodes, "small", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


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
    assert "between" in said
    assert "wall time" in said


def test_it_takes_onnx_files_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "def f():\n    import numpy as np\n    return (lambda x: x + 1), (np.ones(2, 'f'),)\n"
    )
    assert cli.main(["explain", f"{model}:f", "--backend", "onnxruntime"]) == 2
    assert "ONNX Runtime takes .onnx files" in capsys.readouterr().err
