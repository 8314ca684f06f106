"""OpenVINO IR: layers, ports, edges, bodies and modules of the XML; no entity is ever resolved."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import group_paths, same_graphs
from fuzz.seeds import OPENVINO
from glasshouse import formats
from glasshouse.errors import FormatError, LimitExceeded


def test_a_model_is_read() -> None:
    recording = formats.read(OPENVINO.encode(), "tiny.xml")
    graph = recording.graphs[0]
    nodes = list(graph.stage(0).nodes)
    assert [n.op for n in nodes] == ["Parameter", "Const", "MatMul", "If", "Result"]
    matmul = nodes[2]
    assert matmul.input_nodes == [0, 1]
    assert matmul.outputs == ["float32[?, 8]"]
    assert dict(zip(matmul.attr_keys, matmul.attr_values, strict=True)) == {
        "version": "opset1", "transpose_a": "false", "transpose_b": "false", "fused_names_0": "fc",
    }  # fmt: skip
    paths = group_paths(graph)
    assert [paths[g] for n in nodes for g in n.groups] == [("module", "fc")] * 2
    assert [n.kind for n in nodes[:3]] == ["source", "source", "matmul"]
    stage = graph.info.stages[0]
    assert (stage.inputs, stage.output_nodes) == ([0], [3])
    assert recording.header.facts == {
        "IR version": "11", "Runtime version": "2026", "framework": "pytorch",
    }  # fmt: skip


def test_bodies_are_graphs() -> None:
    recording = formats.read(OPENVINO.encode(), "tiny.xml")
    branch = recording.graphs[list(recording.graphs[0].stage(0).nodes)[3].bodies[0]]
    assert (branch.name, branch.info.parent) == ("then_body", 0)
    assert branch.stage(0).nodes.pylist("input_nodes") == [[], [0]]


def test_modules_of_other_names() -> None:
    text = OPENVINO.replace("__module.fc/aten::linear/MatMul", "/enc/layer.0/MatMul")
    graph = formats.read(text.encode(), "m.xml").graphs[0]
    matmul = list(graph.stage(0).nodes)[2]
    assert [group_paths(graph)[g] for g in matmul.groups] == [("module", "enc", "layer.0")]


def test_models_go_to_model_explorer_and_back() -> None:
    recording = formats.read(OPENVINO.encode(), "m.xml")
    same_graphs(formats.read(formats.dump(recording, "model_explorer"), "m.json"), recording)


LAUGHS = '<!DOCTYPE net [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]><net name="&b;"></net>'
FILE = '<!DOCTYPE net [<!ENTITY a SYSTEM "file:///etc/passwd">]><net name="x">&a;</net>'


@pytest.mark.parametrize(
    "text, says",
    [
        (LAUGHS, "document type"),
        (FILE, "document type"),
        ('<!DOCTYPE net SYSTEM "http://127.0.0.1/x.dtd"><net/>', "document type"),
        ("<html><net/></html>", "its outermost element is <html>"),
        ("<net><layers>", "cut off or damaged at line 1"),
        ("<net>&a;</net>", "undefined entity"),
    ],
)
def test_hostile_and_broken_files_are_refused(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(text.encode(), "m.xml")
    assert "\n" not in str(caught.value)
    assert "root:" not in str(caught.value)


def test_elements_in_elements_are_counted() -> None:
    with pytest.raises(LimitExceeded, match="levels of nesting"):
        formats.read(b"<net>" + b"<a>" * 2000, "m.xml")


def test_a_file_cut_off_anywhere_is_refused() -> None:
    data = OPENVINO.rstrip().encode()
    for length in range(1, len(data), 7):
        with pytest.raises(FormatError):
            formats.read(data[:length], "m.xml")


def test_edges_from_nowhere_and_twice_the_same_id_are_told() -> None:
    text = OPENVINO.replace('from-layer="1"', 'from-layer="77"').replace('id="4"', 'id="3"')
    recording = formats.read(text.encode(), "m.xml")
    assert list(recording.graphs[0].stage(0).nodes)[2].input_nodes == [0, -1]
    repairs = recording.header.facts["repairs"]
    assert "edge(s) from a node" in repairs
    assert "id of another" in repairs


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(b'<>/"= a0')), max_size=6))
def test_damaged_files_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(OPENVINO.encode())
    for place, value in changes:
        data[place % len(data)] = value
    with contextlib.suppress(FormatError):
        formats.read(bytes(data), "m.xml").to_bytes()
