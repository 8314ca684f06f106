"""The terminal report and the comparison: what they say, and when the exit code is 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from glasshouse.cli import main
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.schema import ErrorRow, KernelRow, RejectRow, RewriteRow, Text, TimeRow
from glasshouse.show.figures import cut, percent, seconds, short, size
from glasshouse.show.report import report


def compiled(scale: float = 1.0, error: float = 1e-6, extra: bool = False) -> Recording:
    """A model of two ops, fused into one timed and checked kernel."""
    made = RecordingBuilder("net")
    made.facts["wall time"] = f"{0.004 * scale}"
    graph = made.graph("net")
    graph.stage("traced")
    block = graph.group_path("module", ["block"], ["Block"])
    x = graph.node("Input", name="x", kind="source", outputs=["float32[8]"])
    mul = graph.node("Mul", name="mul", kind="elementwise", inputs=[x, x], outputs=["float32[8]"],
                     groups=[block], file="a/model.py", line=12)  # fmt: skip
    add = graph.node("Add", name="add", kind="elementwise", inputs=[mul, x], groups=[block],
                     outputs=["float32[8]"], file="a/model.py", line=13)  # fmt: skip
    odd = graph.node("Mystery", name="odd", kind="opaque", inputs=[add], outputs=["float32[8]"])
    if extra:
        graph.node("Tanh", name="tail", kind="elementwise", inputs=[odd], outputs=["float32[8]"])
    stage = graph.stage("Fuse", pass_name="Fuse", seconds=0.5)
    fused = graph.node("FusedMul", name="fused", kind="elementwise", inputs=[x],
                       outputs=["float32[8]"], groups=[block], file="a/model.py", line=13,
                       replaces=[mul, add])  # fmt: skip
    graph.end(mul)
    graph.end(add)
    graph.node("Mystery", id=odd, name="odd", kind="opaque", inputs=[fused], outputs=["float32[8]"])
    graph.add(RewriteRow(stage, "Fuse", "pair", "32 B stay in registers", [mul, add], [fused]))
    graph.add(RejectRow(stage, "Fuse", "pair", "Mystery cannot be seen into", [fused, odd]))
    graph.add(
        KernelRow(0, "fused_mul", fused, [mul, add], "cpu", "loops", Text(""), flops=16e6,
                  bytes_read=8e6, bytes_written=8e6, limit_seconds=0.001 * scale)
    )  # fmt: skip
    graph.add(TimeRow("first", fused, 0.002 * scale, kernel=0))
    graph.add(TimeRow("first", odd, 0.001 * scale))
    graph.add(TimeRow("second", fused, 7.0))
    graph.add(ErrorRow(stage, fused, 0, 2e-6, 3e-6, error, 5e-7, tolerance=1e-5))
    return made.finish()


def test_report_says_what_the_recording_knows() -> None:
    text = report(compiled())
    assert "67 % " in text  # of the time, the fused kernel
    assert "2.00 ms" in text
    assert "50 %" in text  # of the machine's limit
    assert "8.0" in text  # GFLOP/s and GB/s
    assert "model.py:13" in text
    assert "3.00 ms of 4.00 ms wall time: 75 %\n  25 % is not attributed" in text
    assert "7.00 s" not in text  # another run
    assert "32 B stay in registers" in text
    assert "Mystery cannot be seen into" in text
    assert "which no pass can see into: 1" in text
    assert "1.0e-06" in text
    assert "all within rounding" in text
    lines = [line.split() for line in text.splitlines()]
    assert ["Fuse", "500", "ms", "3", "+1", "-2", "~1"] in lines


def test_report_of_little(recording: object) -> None:
    made = RecordingBuilder("bare")
    made.graph("bare").node("Relu")
    text = report(made.finish())
    assert "bare: 1 node, 1 op of 1 kind" in text
    assert "Kernels" not in text
    assert "Accuracy" not in text


def test_times_and_sizes_among_the_facts_have_units() -> None:
    made = RecordingBuilder("facts")
    facts = {"wall seconds": "3.0525e-06", "arena bytes": "98368", "wall time": "3", "bytes": "x",
             "seconds without clock": "0.005"}  # fmt: skip
    made.facts.update(facts)
    made.graph("g").stage("traced")
    text = report(made.finish())
    for line in ("wall seconds: 3.05 us", "arena bytes: 98.4 kB", "wall time: 3", "bytes: x",
                 "seconds without clock: 5.00 ms"):  # fmt: skip
        assert f"  {line}\n" in text
    assert "g: 0 nodes, 0 ops of 0 kinds" in text
    made.graphs[0].node("Relu", kind="elementwise")
    assert "g: 1 node, 1 op of 1 kind" in report(made.finish())


def test_explain_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compiled().save(tmp_path / "a.glass")
    assert main(["explain", str(tmp_path / "a.glass"), "--top", "1"]) == 0
    out = capsys.readouterr().out
    assert "and 1 more" in out
    assert main(["explain", str(tmp_path / "no.glass")]) == 2


# ------------------------------------------------------------------------------------------ diff
@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    compiled().save(tmp_path / "a.glass")
    compiled(scale=1.5, error=4e-6, extra=True).save(tmp_path / "b.glass")
    return str(tmp_path / "a.glass"), str(tmp_path / "b.glass")


def test_diff_tells_nodes_times_and_errors(
    files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *files]) == 0
    out = capsys.readouterr().out
    assert "3 nodes are the same, 0 only in A, 1 only in B, 0 changed" in out
    assert "+ Tanh tail" in out
    assert "150 %" in out
    assert "400 %" in out


def test_diff_of_stages(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", files[0]]) == 0
    out = capsys.readouterr().out
    assert "1 nodes are the same, 2 only in A, 1 only in B, 1 changed" in out
    assert "~ Mystery odd (inputs)" in out
    assert "- Mul mul" in out


@pytest.mark.parametrize(
    ("limits", "code", "told"),
    [
        (["--max-slower", "1.6"], 0, ""),
        (["--max-slower", "1.2"], 1, "150 % of A's time"),
        (["--max-worse", "2"], 1, "400 %"),
        (["--max-error", "1e-5"], 0, ""),
        (["--max-error", "1e-6"], 1, "4.0e-06"),
        (["--max-nodes", "1"], 0, ""),
        (["--max-nodes", "0"], 1, "1 nodes differ"),
    ],
)
def test_limits_decide_the_exit_code(
    files: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    limits: list[str],
    code: int,
    told: str,
) -> None:
    assert main(["diff", *files, *limits]) == code
    out = capsys.readouterr().out
    assert ("past the limit" in out) == bool(code)
    assert told in out


def test_a_limit_that_cannot_be_checked_is_broken(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    made = RecordingBuilder("bare")
    made.graph("bare").node("Relu")
    made.save(tmp_path / "bare.glass")
    bare = str(tmp_path / "bare.glass")
    assert main(["diff", files[0], bare, "--max-slower", "2"]) == 1
    assert "cannot be checked" in capsys.readouterr().out


# --------------------------------------------------------------------------------------- convert
def test_convert_by_extension(
    tmp_path: Path, files: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    assert main(["convert", files[0], str(out)]) == 0
    assert len(json.loads(out.read_text(encoding="utf-8"))["graphs"]) >= 1
    back = tmp_path / "back.glass"
    assert main(["convert", str(out), str(back)]) == 0
    assert Recording.open(back).graphs[0].stage(-1).nodes.rows >= 3
    assert main(["convert", files[0], str(tmp_path / "out.html")]) == 0
    assert "glass-data" in (tmp_path / "out.html").read_text(encoding="utf-8")
    capsys.readouterr()
    assert main(["convert", files[0], str(tmp_path / "out.dot")]) == 0
    assert "cannot hold" in capsys.readouterr().err
    assert main(["convert", files[0], str(tmp_path / "out.xyz")]) == 2


# --------------------------------------------------------------------------------------- figures
def test_figures() -> None:
    assert [seconds(v) for v in (2, 0.0123, 4.5e-6, 7e-10, float("nan"))] == [
        "2.00 s", "12.3 ms", "4.50 us", "0.700 ns", "-",
    ]  # fmt: skip
    assert [size(v) for v in (12, 1500, 2.5e9)] == ["12.0 B", "1.50 kB", "2.50 GB"]
    assert [short(v) for v in (7, 1234, 5.6e9)] == ["7", "1.23k", "5.60G"]
    assert [percent(v) for v in (0, 0.031, 0.5, 1.5)] == ["0 %", "3.1 %", "50 %", "150 %"]
    assert cut("a" * 10 + "b" * 10, 10) == "aaaa…bbbbb"
