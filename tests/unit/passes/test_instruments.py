"""Time, saved graphs, recordings and numeric checks of a run."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

import primitive_models
from glasshouse.errors import NumericsError
from glasshouse.ir import Graph, GraphBuilder, Rewriter, op_named, parse_graph
from glasshouse.passes import Pass, PassContext, PassSequence, optimize
from glasshouse.passes.fold_constant import FoldConstant
from glasshouse.passes.subgraph_rewrite import RULES
from glasshouse.passes.subgraph_rewrite.rule import Match, Rule
from glasshouse.record import Recording
from glasshouse.record.schema import ErrorRow, RejectRow, RewriteRow


@dataclass(frozen=True)
class WrongAdd(Pass):
    """Rewrite several nodes, one of them wrongly."""

    def run(self, graph: Graph, rw: Rewriter) -> None:
        for node in graph.nodes:
            if node.op is op_named("negative"):
                rw.replace(
                    node, lambda n=node: rw.expr(n.inputs[0]) * -1.0, rule="right", why="same"
                )
            elif node.op is op_named("subtract"):
                x, y = node.inputs
                rw.replace(
                    node, lambda x=x, y=y: rw.expr(y) - rw.expr(x), rule="swapped-difference",
                    why="it looked symmetric",
                )  # fmt: skip


def negatives(count: int = 20) -> Graph:
    b = GraphBuilder()
    x, y = b.input("float32", (4,)), b.input("float32", (4,))
    out = x
    for i in range(count):
        out = -out
        if i == count // 2:
            out = out - y
    return b.finish(out)


# ------------------------------------------------------------------------------------------- time
def test_profile_prints_each_pass_once(small, capsys, tmp_path) -> None:
    log = tmp_path / "log.txt"
    ctx = PassContext(passes=[PassSequence((FoldConstant(),), "Both"), "subgraph_rewrite"])
    profile = ctx.profile_pass_instrument(print_stdout=True, log_file=log)
    optimize(small, ctx)
    lines = capsys.readouterr().out.splitlines()
    assert log.read_text(encoding="utf-8").splitlines() == lines
    ends = [
        line.split(" seconds")[0].rsplit(" ", 1)[0].strip() for line in lines if "seconds" in line
    ]
    assert ends == ["FoldConstantPass", "Both", "SubgraphRewritePass"]
    assert set(profile.seconds) == set(ends)


# ---------------------------------------------------------------------------------------- graphs
def test_each_graph_is_saved_as_text_and_json(small, tmp_path) -> None:
    ctx = PassContext(passes=["fold_constant", "subgraph_rewrite", "fuse_operator"])
    ctx.save_graph_instrument(tmp_path / "outs")
    after = optimize(small, ctx)
    names = sorted(p.name for p in (tmp_path / "outs").glob("*.json"))
    assert names == [
        "0_Input.json", "1_FoldConstantPass.json", "2_SubgraphRewritePass.json",
        "3_FuseOperatorPass.json",
    ]  # fmt: skip
    text = (tmp_path / "outs" / "3_FuseOperatorPass.txt").read_text(encoding="utf-8")
    assert [n.op for n in parse_graph(text).nodes] == [n.op for n in after.nodes]
    data = json.loads((tmp_path / "outs" / "3_FuseOperatorPass.json").read_text(encoding="utf-8"))
    (node,) = data["graphs"][0]["nodes"]
    assert data["format"] == "netron"
    assert node["type"]["name"].startswith("FusedMatmul")
    assert {"name": "fusion", "value": "Matmul Relu"}.items() <= node["attributes"][0].items()
    assert node["inputs"][0]["arguments"][0]["name"] == "input:0"
    constant = node["inputs"][1]["arguments"][0]
    assert constant["type"]["dataType"] == "float32"
    assert list(map(int, constant["type"]["shape"]["dimensions"])) == [3, 2]
    assert "initializer" in constant


# ------------------------------------------------------------------------------------- recording
def test_a_recording_has_stages_rewrites_rejects_and_bodies(tmp_path) -> None:
    path = tmp_path / "run.glass"
    graph = primitive_models.bert(layers=1)
    ctx = PassContext()
    ctx.record(path)
    after = optimize(graph, ctx)
    recording = Recording.open(path)
    main = recording.graphs[0]
    stages = [s.name for s in main.info.stages]
    assert stages[0] == "traced"
    assert stages[1:] == [type(p).__name__ for p in ctx.graph_passes()]
    assert main.info.stages[2].doc.startswith("Simplify")
    last = main.stage(len(stages) - 1)
    assert {row.id for row in last.nodes} == {n.id for n in after.nodes}
    assert {row.id for row in main.stage(0).nodes} == {n.id for n in graph.nodes}
    by_id = {n.id: n for n in after.nodes}
    for row in last.nodes:
        assert list(row.input_nodes) == [v.node.id for v in by_id[row.id].inputs]
    rules = {row.rule for row in main.table(RewriteRow)}
    assert {"recognise-attention", "merge-siblings", "fuse"} <= rules
    rejects = [row for row in main.table(RejectRow) if row.rule == "fuse"]
    assert rejects
    assert all(json.loads(row.numbers)["bytes"] > 0 for row in rejects)
    fused = [row for row in last.nodes if row.op.startswith("Fused")]
    inner = [recording.graphs[row.bodies[0]] for row in fused]
    assert all(view.info.parent == 0 for view in inner)
    original = {n.id for n in graph.nodes if n.op is op_named("matmul")}
    assert any(row.id in original for view in inner for row in view.stage(0).nodes)
    known = list(main.groups)
    groups = [known[g] for row in main.stage(0).nodes for g in row.groups]
    assert {(g.name, g.cls) for g in groups} >= {("attention", "SelfAttention")}


def test_a_recording_survives_a_failing_pass(tmp_path) -> None:
    ctx = PassContext(passes=[WrongAdd()])
    ctx.check_numerics_instrument()
    ctx.record(tmp_path / "run.glass")
    with pytest.raises(NumericsError):
        optimize(negatives(), ctx)
    recording = Recording.open(tmp_path / "run.glass")
    assert recording.header.facts["failed"].startswith("WrongAddPass: ")
    assert recording.graphs[0].info.stages[-1].name == "WrongAdd"


# -------------------------------------------------------------------------------------- numerics
def test_a_wrong_rule_is_found_and_named() -> None:
    ctx = PassContext(passes=["fold_constant", WrongAdd()])
    check = ctx.check_numerics_instrument()
    with pytest.raises(NumericsError, match="WrongAddPass changed the numbers") as caught:
        optimize(negatives(), ctx)
    assert [s.rule for s in check.blame] == ["swapped-difference"]
    assert "rule swapped-difference" in str(caught.value)
    assert "it looked symmetric" in str(caught.value)


def test_random_inputs_that_do_not_suit_the_graph() -> None:
    """Whole numbers are drawn from 0 and 1, and nothing is divided by 0."""
    b = GraphBuilder()
    x, y = b.input("int32", [64]), b.input("int32", [64])
    graph = b.finish(x // y)
    ctx = PassContext()
    ctx.check_numerics_instrument()
    with pytest.raises(NumericsError, match=r"on random inputs: .*\n.*inputs=\["):
        optimize(graph, ctx)
    ctx = PassContext()
    ctx.check_numerics_instrument([np.arange(64, dtype=np.int32), np.full(64, 3, np.int32)])
    optimize(graph, ctx)


def test_a_wrong_rule_among_a_hundred_right_rewrites_is_named(monkeypatch) -> None:
    def find(node, rw):
        x, y = node.inputs
        twice = x.type.shape == y.type.shape and node.output.type.rank == 3
        return Match(lambda: rw.expr(x) + rw.expr(x)) if twice and x is not y else None

    wrong = Rule("forgets-the-residual", ("add",), "both operands looked alike", find)
    monkeypatch.setitem(RULES, wrong.name, wrong)
    ctx = PassContext(passes=["fold_constant", "subgraph_rewrite"])
    check = ctx.check_numerics_instrument()
    with pytest.raises(NumericsError, match="rule forgets-the-residual on %"):
        optimize(primitive_models.bert(layers=2), ctx)
    assert check.broken_pass == "SubgraphRewritePass"
    assert check.blame[-1].rule == "forgets-the-residual"
    assert len(check.blame) <= 3


@dataclass(frozen=True)
class WrongInTheMiddle(Pass):
    """Three rewrites: the second is wrong, the third expects the first."""

    def run(self, graph: Graph, rw: Rewriter) -> None:
        for n, node in enumerate(graph.nodes_of(op_named("add"))):
            if n == 2 and not graph.nodes_of(op_named("multiply")):
                raise KeyError("what the first rewrite makes")
            a, b = node.inputs
            factor = 2.0 if n == 1 else 1.0
            rw.replace(
                node, lambda a=a, b=b, f=factor: rw.expr(b) * f + rw.expr(a),
                rule=f"sum {n}", why="sums commute",
            )  # fmt: skip


def test_a_pass_that_cannot_go_on_without_a_rewrite_is_still_bisected() -> None:
    b = GraphBuilder()
    x, y = b.input("float32", [4]), b.input("float32", [4])
    ctx = PassContext(passes=[WrongInTheMiddle()])
    check = ctx.check_numerics_instrument()
    with pytest.raises(NumericsError, match="this rewrite breaks it: rule sum 1"):
        optimize(b.finish(x + y, x.apply("exp") + y, x.apply("tanh") + y), ctx)
    assert [s.rule for s in check.blame][-1:] == ["sum 1"]


def test_without_raising_the_run_goes_on() -> None:
    ctx = PassContext(passes=[WrongAdd(), "subgraph_rewrite"])
    check = ctx.check_numerics_instrument(raise_error=False)
    optimize(negatives(), ctx)
    assert check.broken_pass == "WrongAddPass"
    assert len(check.blame) == 1


def test_right_passes_pass_on_given_inputs() -> None:
    inputs = [np.ones((2, 8, 32), np.float32), np.zeros((2, 1, 1, 8), np.float32)]
    ctx = PassContext()
    check = ctx.check_numerics_instrument(inputs)
    record = ctx.record()
    optimize(primitive_models.bert(layers=1), ctx)
    assert len(check.errors) == len(ctx.graph_passes())
    assert max(error.scaled for error, _ in check.errors) < 1e-5
    assert record.recording is not None
    errors = record.recording.graphs[0].table(ErrorRow)
    assert len(errors) == len(check.errors)


def test_updates_of_variables_are_compared_too() -> None:
    b = GraphBuilder()
    x = b.input("float32", (4,))
    v = b.variable(np.ones(4, np.float32), name="state")
    b.update(v, v - x)
    ctx = PassContext(passes=[WrongAdd()])
    ctx.check_numerics_instrument()
    with pytest.raises(NumericsError, match="swapped-difference"):
        optimize(b.finish(x), ctx)
