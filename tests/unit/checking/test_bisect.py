"""A failure comes down to one rewrite or one op, and a script shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults import planted
from glasshouse import cli
from glasshouse.checking.repro import rebuilt
from glasshouse.ir.printer import print_graph
from glasshouse.record import Recording

MODELS = Path(planted.__file__).with_name("models.py")


def bisect(model: str, out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    call = ["bisect", f"{MODELS}:{model}", "--target", "interp", "-o", str(out)]
    code = cli.main(call)
    return code, capsys.readouterr().out


def test_a_wrong_rule_comes_down_to_the_ops_that_it_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.two_intervals_become_their_union(monkeypatch)
    code, said = bisect("clips", tmp_path / "small", capsys)
    assert code == 1
    assert "rule: clip-of-clip" in said
    assert "right without pass subgraph_rewrite" in said
    assert "right without rule clip-of-clip" in said
    assert "rewrite: SubgraphRewrite clip-of-clip" in said
    assert "smallest graph, 2 ops of 3:" in said
    assert Recording.open(tmp_path / "small.glass").graphs
    # Without the fault, the script finds nothing.
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "small.py")],
        check=False,
        capture_output=True,
        text=True,
        env=env,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr


def test_a_wrong_kernel_comes_down_to_its_op(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted.a_sum_leaves_out_its_last_element(monkeypatch)
    code, said = bisect("spread", tmp_path / "small", capsys)
    assert code == 1
    assert "op: sum" in said
    assert "smallest graph, 1 ops of 4:" in said
    assert "kernel: k0_" in said


def test_nothing_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert bisect("spread", tmp_path / "small", capsys) == (0, "spread: nothing is wrong\n")
    assert not list(tmp_path.iterdir())


def test_a_printed_graph_gets_its_constants_back() -> None:
    from faults import models
    from glasshouse import trace
    from glasshouse.ir.sources import CONSTANT

    model, inputs = models.linear()
    graph = trace(model, *inputs)
    data = [n.attrs["data"] for n in graph.nodes if n.op is CONSTANT]
    assert print_graph(rebuilt(print_graph(graph), data)) == print_graph(graph)
