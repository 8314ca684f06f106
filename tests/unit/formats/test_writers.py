"""Every writer: what it writes says the same when read back, as far as the format can."""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from format_files import DATA, same_graphs
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.ir.op import REGISTRY
from glasshouse.ir.parser import parse_graph
from glasshouse.record import RecordingBuilder
from glasshouse.record.schema import KernelRow, NodeRow
from record_strategies import builders

WRITTEN = [f.name for f in formats.FORMATS if f.writer]


def model() -> RecordingBuilder:
    """A small compiled model with a fused node, a body and a kernel."""
    made = RecordingBuilder("net")
    graph = made.graph("main", attrs={"range n": "1..64"})
    body = made.graph("inside", parent=0)
    group = graph.group_path("module", ["enc", "0"], ["Encoder", "Layer"])
    x = graph.node("Input", name="x", kind="source", outputs=["float32[n, 8]"])
    w = graph.node("Constant", name="w", kind="source", outputs=["float32[8, 8]"], groups=[group])
    y = graph.node("Matmul", kind="matmul", inputs=[x, w], outputs=["float32[n, 8]"],
                   attrs={"transpose_b": "True", "note": 'a "b", c'}, groups=[group],
                   file="m.py", line=7)  # fmt: skip
    z = graph.node("FusedRelu*", kind="elementwise", inputs=[y], outputs=["float32[n, 8]"],
                   bodies=[body.index], groups=[group])  # fmt: skip
    a, b = "float32[n, 4]", "float32[n, 4]"
    split = graph.node("Split", kind="move", inputs=[z], outputs=[a, b], attrs={"axis": "1"})
    g = graph.node("Mul", kind="elementwise", inputs=[(split, 1), (split, 1)], outputs=[b],
                   grad_of=y)  # fmt: skip
    graph.set_io([x], [(g, 0), (split, 0)])
    i = body.node("Input", kind="source", outputs=["float32[n, 8]"])
    r = body.node("Relu", kind="elementwise", inputs=[i], outputs=["float32[n, 8]"])
    body.set_io([i], [(r, 0)])
    graph.add(KernelRow(0, "k", z, [z], "cpu", "loops", "code", key="k0"))  # type: ignore[arg-type]  # Text
    return made


@settings(max_examples=25, deadline=None)
@given(builders())
def test_every_writer_takes_any_recording(made: RecordingBuilder) -> None:
    recording = made.finish()
    for name in WRITTEN:
        if not recording.graphs and name in ("hidet", "sync"):
            continue
        if name == "onnx":
            pytest.importorskip("onnx", reason="needs the onnx package")
        formats.dump(recording, name)


def test_unknown_formats_are_named(tmp_path: Path) -> None:
    recording = model().finish()
    with pytest.raises(FormatError, match="no format is written with this extension"):
        formats.write(recording, tmp_path / "x.docx")
    with pytest.raises(FormatError, match="no format is called"):
        formats.dump(recording, "docx")
    with pytest.raises(FormatError, match="read, not written"):
        formats.dump(recording, "tflite")
    with pytest.raises(FormatError, match="written, not read"):
        formats.read(b"digraph {}", "x.dot", format="dot")


def test_extensions_choose_the_format(tmp_path: Path) -> None:
    recording = model().finish()
    for name, starts in {
        "a.glass": b"PK", "a.json": b'{"label"', "a.hidet.json": b'{"graphs"', "a.pkl": b"\x80\x04",
        "a.dot": b"digraph", "a.svg": b"<svg", "a.txt": b"Graph(",
    }.items():  # fmt: skip
        formats.write(recording, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(starts), name
    assert formats.write(recording, tmp_path / "a.glass") == []


# ------------------------------------------------------------------------------------- Jittor
@pytest.mark.parametrize("name", ["simple_model", "simple_model_train", "second_order"])
def test_a_trace_comes_back_as_it_was(name: str) -> None:
    path = DATA / "jittor" / f"{name}.pkl"
    original = pickle.loads(path.read_bytes())
    written = pickle.loads(formats.dump(formats.read(path), "jittor"))
    assert written["node_data"].keys() == original["node_data"].keys()
    for id, node in original["node_data"].items():
        mine = written["node_data"][id]
        assert (mine["id"], mine["inputs"], mine["attrs"]) == (id, node["inputs"], node["attrs"])
        assert sorted(mine["outputs"]) == sorted(node["outputs"])
        assert mine["stacks"] == node["stacks"]
    for key, info in original["execute_op_info"].items():
        assert written["execute_op_info"][key] == info
    again = formats.read(formats.dump(formats.read(path), "jittor"), f"{name}.pkl")
    same_graphs(again, formats.read(path))


def test_our_own_model_becomes_a_trace_with_variables() -> None:
    data = formats.dump(model().finish(), "jittor")
    nodes = pickle.loads(data)["node_data"]
    assert sum(n["attrs"]["is_var"] == "1" for n in nodes.values()) == 7
    back = formats.read(data, "t.pkl")
    found = {n.op: n for n in back.graphs[0].table(NodeRow) if n.op != "Var"}
    assert found["Mul"].grad_of == 2
    split = {n.id: n for n in back.graphs[0].table(NodeRow)}[found["Mul"].input_nodes[0]]
    assert (split.input_nodes, split.input_ports) == ([found["Split"].id], [1])
    assert split.outputs == ["float32[n, 4]"]
    assert back.graphs[0].table(KernelRow).pylist("key") == ["k0"]
    assert "Layer" in back.graphs[0].groups.pylist("cls")


# ------------------------------------------------------------------------------------- Hidet
@pytest.mark.parametrize("name", ["attention-graph", "6_FuseOperatorPass"])
def test_a_flow_graph_comes_back_as_it_was(name: str) -> None:
    path = DATA / "hidet" / f"{name}.json"
    assert json.loads(formats.dump(formats.read(path), "hidet")) == json.loads(path.read_text())


def test_our_own_model_becomes_a_flow_graph() -> None:
    recording = model().finish()
    value = json.loads(formats.dump(recording, "hidet"))
    graph = value["graphs"][0]
    assert [n["name"] for n in graph["nodes"]] == ["0_Matmul", "1_FusedRelu*", "2_Split", "3_Mul"]
    reads = [a["name"] for p in graph["nodes"][0]["inputs"] for a in p["arguments"]]
    assert reads == ["input:0", "const:0"]
    assert "initializer" in graph["nodes"][0]["inputs"][1]["arguments"][0]
    assert [p["arguments"][0]["name"] for p in graph["outputs"]] == ["3_Mul:0", "2_Split:0"]
    back = formats.read(json.dumps(value).encode(), "f.json")
    assert back.graphs[0].stage(0).nodes.pylist("op") == [
        "Input", "Constant", "Matmul", "FusedRelu*", "Split", "Mul"]  # fmt: skip


# ------------------------------------------------------------------------------------- text
def test_text_is_read_back() -> None:
    recording = model().finish()
    text = formats.dump(recording, "text")
    assert text.decode().splitlines()[:4] == [
        "Graph(x: float32[n, 8]){",
        "  n in 1..64",
        "  c = Constant(float32[8, 8])",
        '  x_1: float32[n, 8] = Matmul(x, c, transpose_b=True, note="a \\"b\\", c")',
    ]
    back = formats.read(text, "m.txt")
    assert back.graphs[0].info.attrs == {"range n": "1..64"}
    ours, theirs = (r.graphs[0].stage(-1).nodes for r in (recording, back))
    for column in ("op", "input_nodes", "input_ports", "outputs"):
        assert theirs.pylist(column) == ours.pylist(column)
    assert theirs.row(3).bodies == [1]
    assert back.graphs[1].stage(0).nodes.pylist("op") == ["Input", "Relu"]
    assert formats.dump(back, "text") == text


def test_text_is_what_the_compiler_reads() -> None:
    text = """Graph(x: float32[4, 8]){
  c = Constant(float32[8, 8])
  x_1: float32[4, 8] = Matmul(x, c)
  x_2: float32[4, 8] = Relu(x_1)
  return x_2
}
"""
    recording = formats.read(text.encode(), "m.txt")
    assert formats.dump(recording, "text").decode() == text
    import_module("glasshouse.ops")  # the compiler reads ops that are registered
    assert "matmul" in REGISTRY
    assert [n.op.label for n in parse_graph(text).nodes][-1] == "Relu"


@pytest.mark.parametrize(
    "text, says",
    [
        ("Graph(){", "ends inside a graph"),
        ("Graph(){\n  hello\n}", "line 2: not a statement"),
        ("Graph(){\n}\nx = y()", "line 3: a statement outside"),
    ],
)
def test_broken_text_is_refused(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        formats.read(text.encode(), "m.txt")


# ------------------------------------------------------------------------------------- drawings
def test_dot_has_clusters_nodes_and_edges() -> None:
    text = formats.dump(model().finish(), "dot").decode()
    assert text.count("digraph") == 2
    assert 'label="0 (Layer)"' in text
    assert "n0 -> n2;" in text
    assert 'n4 -> n5 [taillabel="1"];' in text
    assert text.count("{") == text.count("}")
    program = shutil.which("dot")
    if program:
        subprocess.run([program, "-Tsvg"], input=text.encode(), check=True, capture_output=True)


def test_svg_is_a_drawing_of_every_node() -> None:
    root = ElementTree.fromstring(formats.dump(model().finish(), "svg"))
    space = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{space}g")) == 6
    assert len(root.findall(f"{space}path")) == 5  # x*x is one line
    boxes = {(r.get("x"), r.get("y")) for r in root.iter(f"{space}rect")}
    assert len(boxes) == 7  # no two nodes in one place, and the background


def test_drawings_escape_what_a_file_says() -> None:
    made = RecordingBuilder()
    evil = '<script>alert(1)</script>"\\'
    made.graph(evil).node(evil, name=evil, outputs=[evil])
    svg = formats.dump(made.finish(), "svg").decode()
    assert "<script" not in svg
    ElementTree.fromstring(svg)
    # A quote and a backslash are escaped, so neither ends the string that they stand in.
    assert '</script>\\"\\\\" {' in formats.dump(made.finish(), "dot").decode()


def test_a_cycle_can_be_drawn() -> None:
    made = RecordingBuilder()
    graph = made.graph("g")
    graph.node("A", inputs=[1])
    graph.node("B", inputs=[0])
    ElementTree.fromstring(formats.dump(made.finish(), "svg"))


def test_losses_are_named() -> None:
    def lost(name: str) -> Any:
        chosen = next(f for f in formats.FORMATS if f.name == name)
        return chosen.function(chosen.lost)(formats.read(DATA / "hidet"))

    assert lost("hidet") == ["stages before the last", "graphs after the first", "rewrites"]
    assert "rewrites" in lost("jittor")
    assert "stages before the last" in lost("svg")
