"""A failure comes down to one rewrite or one op, and a script shows it."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import pytest

from faults import planted
from glasshouse import cli
from glasshouse.checking.repro import rebuilt
from glasshouse.cli.bisect import add_arguments
from glasshouse.ir.printer import print_graph
from glasshouse.passes.base import PASSES, PIPELINE
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
    assert "smallest graph, 1 op of 4:" in said
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


@pytest.mark.parametrize("name", ["bisect", "some/folder/random.py"])
def test_a_script_that_would_hide_a_module_of_python_is_not_written(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        cli.main(["bisect", f"{MODELS}:spread", "-o", name])
    assert "is a module of Python, which" in capsys.readouterr().err


def test_what_is_written_without_a_name_hides_no_module_of_python() -> None:
    parser = ArgumentParser()
    add_arguments(parser)
    assert parser.parse_args(["m.py:f"]).output == Path("fault.py")


OWN_PASS = """
from dataclasses import dataclass
import numpy as np
import glasshouse as gh

@gh.register_pass(after="fold_constant")
@dataclass(frozen=True)
class Swaps(gh.Pass):
    "Believe that subtraction commutes."
    def run(self, graph, rw):
        for node in graph.nodes:
            if node.op.name == "subtract":
                a, b = node.inputs
                rw.replace(node, lambda: rw.expr(b) - rw.expr(a), rule="swap", why="symmetric")

def model():
    return (lambda x, y: gh.exp(x - y)), (np.ones(4, np.float32), np.zeros(4, np.float32))
"""


def test_the_script_loads_the_pass_that_is_to_blame(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = list(PIPELINE)
    (tmp_path / "own_pass.py").write_text(OWN_PASS)
    try:
        call = ["bisect", f"{tmp_path}/own_pass.py:model", "--target", "interp"]
        assert cli.main([*call, "-o", f"{tmp_path}/small"]) == 1
    finally:
        PIPELINE[:] = kept
        PASSES.pop("swaps", None)
        sys.modules.pop("own_pass", None)
    assert "pass: SwapsPass changes what the model computes" in capsys.readouterr().out
    done = subprocess.run(
        [sys.executable, str(tmp_path / "small.py")], check=False, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "wrong"), done.stderr
