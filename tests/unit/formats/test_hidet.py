"""Hidet flow graphs: both generations, fused insides, and a folder of passes as stages."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import DATA, shared
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.formats.hidet.inside import parse_graph, parse_task, split_arguments
from glasshouse.record import GraphView
from glasshouse.record.schema import NodeRow, RewriteRow


def ops(graph: GraphView, stage: int = -1) -> list[str]:
    return [n for n in graph.stage(stage).nodes.pylist("op") if n not in ("Input", "Constant")]


def test_a_file_is_one_stage_with_inputs_and_constants_as_nodes() -> None:
    recording = formats.read(DATA / "hidet" / "attention-graph.json")
    graph = recording.graphs[0]
    nodes = graph.stage(0).nodes
    assert len(ops(graph)) == 24
    assert nodes.pylist("op").count("Input") == 2
    assert nodes.pylist("op").count("Constant") == 6
    assert nodes.row(0).outputs == ["float32[1, 128, 768]"]
    matmul = next(n for n in nodes if n.name == "0_Matmul")
    assert [nodes.row(graph.stage(0).row_of[i]).name for i in matmul.input_nodes] == [
        "input:0",
        "const:0",
    ]
    assert dict(zip(matmul.attr_keys, matmul.attr_values, strict=True))["transpose_b"] == "False"
    last = graph.info.stages[0].output_nodes
    assert [n.name for n in nodes if n.id in last] == ["23_Rearrange"]


def test_fused_nodes_have_their_inside_as_a_graph() -> None:
    recording = formats.read(DATA / "hidet" / "6_FuseOperatorPass.json")
    fused = next(n for n in recording.graphs[0].stage(0).nodes if n.name == "0_FusedMatmul")
    inside = recording.graphs[fused.bodies[0]]
    assert inside.info.parent == 0
    assert ops(inside) == ["Reshape", "Matmul", "Add", "Reshape", "Reshape", "Rearrange"]
    matmul = next(n for n in inside.stage(0).nodes if n.op == "Matmul")
    names = {n.id: n.name for n in inside.stage(0).nodes}
    assert [names[i] for i in matmul.input_nodes] == ["x_3", "x"]


def test_a_folder_is_a_recording_of_stages() -> None:
    graph = formats.read(DATA / "hidet").graphs[0]
    assert [s.name for s in graph.info.stages] == [
        "attention-graph",
        "SubgraphRewritePass",
        "FuseOperatorPass",
    ]
    assert [len(ops(graph, s)) for s in range(3)] == [24, 30, 8]
    # What the pass did not touch is the same node in both stages.
    first, second = graph.stage(0), graph.stage(1)
    kept = set(first.nodes.array("id")) & set(second.nodes.array("id"))
    assert "16_Divide" in {n.name for n in first.nodes if n.id in kept}


def rewrites(graph: GraphView, stage: int) -> dict[tuple[str, ...], list[str]]:
    ops = {n.id: n.op for n in graph.table(NodeRow)}
    names: dict[int, str] = {}
    for node in graph.table(NodeRow):
        names.setdefault(node.id, node.name)
    return {
        tuple(names[i] for i in r.after): [ops[i] for i in r.before]
        for r in graph.table(RewriteRow)
        if r.stage == stage
    }


def test_fusions_are_traced_to_the_ops_they_replace() -> None:
    found = rewrites(formats.read(DATA / "hidet").graphs[0], 2)
    assert found[("3_FusedMatmul",)] == ["Matmul", "DivideScalar", "Add"]
    assert found[("5_FusedExp",)] == ["Subtract", "Exp"]
    assert found[("7_FusedMatmul",)] == ["Divide", "Matmul", "Reshape", "Rearrange"]
    assert sorted(found[("2_FusedMatmul",)]) == sorted(
        ["Reshape", "Matmul", "Add", "Reshape", "Reshape", "Rearrange", "PermuteDims"]
    )


def test_the_older_generation() -> None:
    graph = formats.read(shared("hidet/v0.2")).graphs[0]
    assert [len(ops(graph, s)) for s in range(5)] == [20, 20, 19, 35, 7]
    assert graph.stage(1).added.rows == 0  # nothing to fold
    found = rewrites(graph, 4)
    assert found[("FusedReduceSum2",)] == ["Add", "ReduceSum", "DivideScalar"] or sorted(
        found[("FusedReduceSum2",)]
    ) == ["Add", "DivideScalar", "ReduceSum"]
    assert len(found) == 7
    merged = rewrites(graph, 2)
    assert [before.count("Matmul") for before in merged.values()] == [3]  # Q, K, V into one


def test_files_are_ordered_by_number(tmp_path: Path) -> None:
    source = DATA / "hidet" / "attention-graph.json"
    for name in ("10_Late.json", "2_Early.json", "traced.json"):
        shutil.copy(source, tmp_path / name)
    graph = formats.read(tmp_path).graphs[0]
    assert [s.name for s in graph.info.stages] == ["traced", "Early", "Late"]
    assert graph.table(NodeRow).rows == 32  # three stages, nothing changed


def test_printed_graphs() -> None:
    assert split_arguments("x, shape=[1, 2], f=(a, {b: c})") == [
        "x",
        "shape=[1, 2]",
        "f=(a, {b: c})",
    ]
    assert parse_graph("nothing") is None
    assert parse_task(["Task(", "  name: add"]) is None
    task = parse_task(
        [
            "  parameters: ",
            "    a: tensor(float32, [4])",
            "  task_graph: TaskGraph(a) {",
            "    b = exp(x=a, fast=True) [anchor]",
            "      b: float32[4] where b[i] = exp(x[i])",
            "    return b",
        ]
    )
    assert task is not None
    assert task.parameters == [("a", "float32[4]")]
    assert (task.ops[0].op, task.ops[0].inputs, task.ops[0].type) == ("exp", ["a"], "float32[4]")
    assert task.ops[0].attrs == {"fast": "True", "anchor": "True"}


def flow(**graph: Any) -> bytes:
    return json.dumps({"graphs": [graph], "format": "netron", "source": "Hidet"}).encode()


def test_sparse_files_are_tolerated() -> None:
    node = {"name": "a", "type": {"name": "Add"}, "inputs": [{"arguments": [{"name": "gone"}]}]}
    recording = formats.read(flow(inputs=[], outputs=[], nodes=[node, {}]), "f.json")
    nodes = recording.graphs[0].stage(0).nodes
    assert nodes.pylist("op") == ["Add", "op"]
    assert nodes.row(0).input_nodes == [-1]


def test_a_cycle_survives() -> None:
    def node(name: str, reads: str) -> dict[str, Any]:
        return {
            "name": name,
            "type": {"name": "Add"},
            "inputs": [{"arguments": [{"name": reads}]}],
            "outputs": [{"arguments": [{"name": f"{name}:0"}]}],
        }

    data = flow(inputs=[], outputs=[], nodes=[node("a", "b:0"), node("b", "a:0")])
    nodes = formats.read(data, "f.json").graphs[0].stage(0).nodes
    assert nodes.pylist("input_nodes") == [[1], [0]]


@pytest.mark.parametrize(
    "value", [b'{"graphs": [], "format": "netron"}', b'{"graphs": [1], "format": ""}']
)
def test_files_without_a_graph_are_refused(value: bytes) -> None:
    with pytest.raises(FormatError):
        formats.read(value, "f.json")


scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "type", "inputs", "outputs", "arguments", "attributes", "value",
                         "description", "initializer", "shape", "dimensions", "nodes"]),
        inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(scraps, scraps)
def test_any_flow_graph_is_read_or_refused(graph: Any, node: Any) -> None:
    base = graph if isinstance(graph, dict) else {}
    for raw in (
        graph,
        {**base, "nodes": [node, {"attributes": [{"name": "fusion", "value": "A"}]}]},
    ):
        value = {"graphs": [raw], "format": "netron"}
        with contextlib.suppress(FormatError):
            formats.read(json.dumps(value).encode(), "f.json").to_bytes()


@settings(max_examples=100, deadline=None)
@given(st.text("Graph(){}[]=:, x1\nreturnA", max_size=80))
def test_any_inside_is_read_or_left_out(text: str) -> None:
    parse_graph(f"Graph(x: float32[1]){{{text}")
    parse_task(["task_graph: TaskGraph(x) {", *text.splitlines()])


def test_a_folder_without_flow_graphs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="a folder, and none of a format"):
        formats.read(tmp_path)
