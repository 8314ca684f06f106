"""ONNX: read as it stands, also when broken; written so that `onnx` reads it back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import DATA, group_paths, same_graphs
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.formats.onnx.write import parse_type

onnx = pytest.importorskip("onnx", reason="needs the onnx package")
helper: Any = pytest.importorskip("onnx.helper")
FLOAT, INT64 = 1, 7


def info(name: str, *dims: Any) -> Any:
    return helper.make_tensor_value_info(name, FLOAT, list(dims))


def model(nodes: list[Any], inputs: list[Any], outputs: list[Any], **more: Any) -> bytes:
    graph = helper.make_graph(nodes, "net", inputs, outputs, **more)
    data: bytes = helper.make_model(graph, producer_name="test").SerializeToString()
    return data


def branch(name: str, op: str) -> Any:
    return helper.make_graph([helper.make_node(op, ["h"], [name])], name, [], [info(name)])


def sample() -> bytes:
    nodes = [
        helper.make_node("Gemm", ["x", "enc.fc.weight", "", ""], ["h"], name="/enc/fc/Gemm",
                         alpha=1.0, transB=1),
        helper.make_node("If", ["flag"], ["y"], name="/If", then_branch=branch("a", "Relu"),
                         else_branch=branch("b", "Neg")),
        helper.make_node("FancyNorm", ["y", "y"], ["z"], domain="com.example", axes=[0, 1],
                         mode="fast", scales=[0.5, 2.0]),
    ]  # fmt: skip
    weights = [
        helper.make_tensor("enc.fc.weight", FLOAT, [2, 2], [1.0, 2.0, 3.0, 0.1]),
        helper.make_tensor("flag", 9, [], [True]),
    ]
    shapes = [info("h", "batch", 2)]
    return model(nodes, [info("x", "batch", 2)], [info("z", None, 2)], initializer=weights,
                 value_info=shapes)  # fmt: skip


def test_a_model_is_read() -> None:
    recording = formats.read(sample(), "m.onnx")
    graph = recording.graphs[0]
    nodes = {n.name or n.op: n for n in graph.stage(0).nodes}
    assert list(nodes) == [
        "x",
        "enc.fc.weight",
        "flag",
        "/enc/fc/Gemm",
        "/If",
        "com.example.FancyNorm",
    ]
    gemm = nodes["/enc/fc/Gemm"]
    assert gemm.input_nodes == [0, 1, -1, -1]
    assert gemm.outputs == ["float32[batch, 2]"]
    assert dict(zip(gemm.attr_keys, gemm.attr_values, strict=True)) == {
        "alpha": "1.0",
        "transB": "1",
    }
    fancy = nodes["com.example.FancyNorm"]
    assert fancy.input_nodes == [nodes["/If"].id] * 2
    assert fancy.attr_values == ["[0, 1]", "fast", "[0.5, 2.0]"]
    assert nodes["enc.fc.weight"].attr_values == ["[1, 2, 3, 0.1]"]
    # A weight lies with the module that its name says.
    assert [group_paths(graph)[g] for g in nodes["enc.fc.weight"].groups] == [
        ("module", "enc", "fc")
    ]
    assert graph.info.stages[0].output_nodes == [fancy.id]


def test_branches_are_graphs_that_name_what_they_capture() -> None:
    recording = formats.read(sample(), "m.onnx")
    node = next(n for n in recording.graphs[0].stage(0).nodes if n.op == "If")
    bodies = [recording.graphs[b] for b in node.bodies]
    assert sorted(b.stage(0).nodes.pylist("op")[-1] for b in bodies) == ["Neg", "Relu"]
    assert bodies[0].stage(0).nodes.row(0).op == "Captured"
    assert bodies[0].stage(0).nodes.row(0).name == "h"
    assert {b.info.parent for b in bodies} == {0}


def test_scopes_of_the_exporter_give_groups_classes_and_lines() -> None:
    node = helper.make_node("MatMul", ["x", "x"], ["y"], name="node_1")
    for key, value in {
        "pkg.torch.onnx.name_scopes": "['', 'layers.0', 'layers.0.fc', 'linear']",
        "pkg.torch.onnx.class_hierarchy": "['m.Model', 'm.Block', 'torch.nn.Linear', 'linear']",
        "pkg.torch.onnx.stack_trace": 'File "/u/model.py", line 12, in forward',
        "other": "kept",
    }.items():
        entry = node.metadata_props.add()
        entry.key, entry.value = key, value
    graph = formats.read(model([node], [info("x", 2)], [info("y", 2)]), "m.onnx").graphs[0]
    made = list(graph.stage(0).nodes)[-1]
    assert (made.file, made.line) == ("/u/model.py", 12)
    assert [group_paths(graph)[g] for g in made.groups] == [("module", "layers", "0", "fc")]
    assert graph.groups.pylist("cls") == ["", "Block", "Linear"]
    assert made.attr_keys == ["other"]


def test_functions_are_bodies_of_the_nodes_that_call_them() -> None:
    inner = helper.make_node("Relu", ["a"], ["b"])
    opset = helper.make_opsetid("", 18)
    function = helper.make_function("my", "F", ["a"], ["b"], [inner], [opset])
    graph = helper.make_graph(
        [helper.make_node("F", ["x"], ["y"], domain="my")], "g", [info("x", 1)], [info("y", 1)]
    )
    data = helper.make_model(graph, functions=[function]).SerializeToString()
    recording = formats.read(data, "m.onnx")
    call = list(recording.graphs[0].stage(0).nodes)[-1]
    assert recording.graphs[call.bodies[0]].stage(0).nodes.pylist("op") == ["Input", "Relu"]


def test_broken_models_are_shown_as_they_are(tmp_path: Path) -> None:
    weight = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4, -3])
    weight.data_location = 1
    entry = weight.external_data.add()
    entry.key, entry.value = "location", "gone.bin"
    nodes = [
        helper.make_node("Add", ["later", "nobody"], ["first"]),
        helper.make_node("Add", ["first", "w"], ["later"]),  # a cycle
        helper.make_node("Add", ["w", "w"], ["later"]),  # a second producer
    ]
    path = tmp_path / "m.onnx"
    path.write_bytes(model(nodes, [], [info("absent", 3)], initializer=[weight]))
    nodes_read = list(formats.read(path).graphs[0].stage(0).nodes)
    assert [n.input_nodes for n in nodes_read[1:]] == [[2, -1], [1, 0], [0, 0]]
    attrs = dict(zip(nodes_read[0].attr_keys, nodes_read[0].attr_values, strict=True))
    assert attrs == {"external location": "gone.bin", "external file": "missing"}
    (tmp_path / "gone.bin").write_bytes(b"")
    again = list(formats.read(path).graphs[0].stage(0).nodes)
    assert again[0].attr_keys == ["external location"]


def test_reading_needs_no_package_and_writing_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    recording = formats.read(sample(), "m.onnx")
    with pytest.raises(FormatError, match=r"pip install 'glasshouse\[onnx\]'"):
        formats.dump(recording, "onnx")


@pytest.mark.parametrize("name", ["jittor/simple_model_train.pkl", "hidet/6_FuseOperatorPass.json"])
def test_any_recording_becomes_onnx(name: str) -> None:
    recording = formats.read(DATA / name)
    data = formats.dump(recording, "onnx")
    loaded = onnx.load_from_string(data)
    assert {o.domain for o in loaded.opset_import} == {"", "glasshouse"}
    assert {n.domain for n in loaded.graph.node} == {"glasshouse"}
    back = formats.read(data, "m.onnx")
    assert back.graphs[0].stage(0).nodes.rows == recording.graphs[0].stage(-1).nodes.rows
    assert len(back.graphs) == len(recording.graphs)

    def edges(r: Any) -> int:
        return sum(len(n.input_nodes) for n in r.graphs[0].stage(-1).nodes)

    assert edges(back) == edges(recording)


def test_onnx_goes_there_and_back() -> None:
    recording = formats.read(sample(), "m.onnx")
    data = formats.dump(recording, "onnx")
    loaded = onnx.load_from_string(data)
    assert [(n.domain, n.op_type) for n in loaded.graph.node] == [
        ("", "Gemm"),
        ("", "If"),
        ("com.example", "FancyNorm"),
    ]
    gemm = {a.name: helper.get_attribute_value(a) for a in loaded.graph.node[0].attribute}
    assert gemm == {"alpha": 1.0, "transB": 1}
    fancy = {a.name: helper.get_attribute_value(a) for a in loaded.graph.node[2].attribute}
    assert fancy == {"axes": [0, 1], "mode": b"fast", "scales": [0.5, 2.0]}
    assert [
        d.dim_param or d.dim_value for d in loaded.graph.input[0].type.tensor_type.shape.dim
    ] == [
        "batch",
        2,
    ]
    written = formats.dump(recording, "model_explorer")
    same_graphs(formats.read(written, "m.json"), recording)


def test_what_is_written_passes_the_checker_when_no_weight_is_missing() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["y"]),
        helper.make_node("Odd", ["y"], ["z"], domain="q"),
    ]
    data = formats.dump(
        formats.read(model(nodes, [info("x", 2)], [info("z", 2)]), "m.onnx"), "onnx"
    )
    onnx.checker.check_model(onnx.load_from_string(data))


def test_types_are_parsed() -> None:
    assert parse_type("float32[s0, 8]") == (1, ["s0", 8])
    assert parse_type("int64[]") == (7, [])
    assert parse_type("strange") == (None, None)


@pytest.mark.parametrize("data", [b"", b"\x08", b"\x08\x07\x12\x50", b"hello", b"\x08\x07"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(data, "m.onnx")
    assert "\n" not in str(caught.value)


def test_every_prefix_is_read_or_refused() -> None:
    data = sample()
    for length in range(len(data)):
        try:
            formats.read(data[:length], "m.onnx")
        except FormatError:
            continue


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_models_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(sample())
    for place, value in changes:
        data[place % len(data)] = value
    try:
        recording = formats.read(bytes(data), "m.onnx")
    except FormatError:
        return
    recording.to_bytes()
