"""Core ML: programs, neural networks, pipelines and packages."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import group_paths, same_graphs
from fuzz.seeds import coreml_features, coreml_network, coreml_pipeline, coreml_program, message
from glasshouse import formats
from glasshouse.errors import FormatError, GlasshouseError


def test_a_program_is_read() -> None:
    recording = formats.read(coreml_program(), "m")
    graph = recording.graphs[0]
    nodes = list(graph.stage(0).nodes)
    assert [n.op for n in nodes] == ["Input", "const", "matmul", "cond"]
    weight, dot, branch = nodes[1:]
    assert (weight.outputs, weight.attr_values) == (["float32[8, 16]"], ["w.bin at byte 64"])
    assert (dot.input_nodes, dot.input_names) == ([0, 1], ["x", "y"])
    # The flag is an op of its own in the file.
    assert dict(zip(dot.attr_keys, dot.attr_values, strict=True)) == {"transpose_y": "True"}
    assert [group_paths(graph)[g] for g in dot.groups] == [("module", "net")]
    assert graph.info.attrs == {"opset": "CoreML7"}
    stage = graph.info.stages[0]
    assert (stage.inputs, stage.output_nodes) == ([0], [3])
    bodies = [recording.graphs[b] for b in branch.bodies]
    assert [b.stage(0).nodes.pylist("op") for b in bodies] == [
        ["Captured", "relu"], ["Captured", "exp"],
    ]  # fmt: skip
    assert [b.info.parent for b in bodies] == [0, 0]
    assert recording.header.facts == {
        "specification version": "8", "description": "a test", "tool": "none",
    }  # fmt: skip


def test_a_network_is_read() -> None:
    recording = formats.read(coreml_network(), "m.mlmodel")
    nodes = list(recording.graphs[0].stage(0).nodes)
    assert [(n.op, n.input_nodes) for n in nodes] == [
        ("Input", []), ("convolution", [0]), ("activation", [1]), ("branch", [2]),
    ]  # fmt: skip
    assert nodes[0].outputs == ["float32[1, 16]"]
    assert nodes[1].outputs == ["[1, 8]"]
    assert dict(zip(nodes[1].attr_keys, nodes[1].attr_values, strict=True)) == {
        "outputChannels": "4", "kernelChannels": "3", "nGroups": "1", "kernelSize": "[3, 3]",
        "weights": "64 bytes",
    }  # fmt: skip
    assert nodes[2].attr_values == ["ReLU"]
    # What both branches write is what the branch gives.
    assert nodes[3].output_names == ["y"]
    assert recording.graphs[0].info.stages[0].output_nodes == [3]
    assert [recording.graphs[b].name for b in nodes[3].bodies] == ["ifBranch", "elseBranch"]


def test_the_models_of_a_pipeline_are_bodies() -> None:
    recording = formats.read(coreml_pipeline(), "m.mlmodel")
    nodes = list(recording.graphs[0].stage(0).nodes)
    assert [(n.op, n.name) for n in nodes] == [
        ("Input", "x"), ("scaler", "scale"), ("neuralNetwork", "net"),
    ]  # fmt: skip
    network = recording.graphs[nodes[2].bodies[0]]
    assert network.stage(0).nodes.pylist("op")[1] == "convolution"


def package(folder: Path, path: str) -> Path:
    (folder / "Data" / "com.apple.CoreML").mkdir(parents=True)
    (folder / "Data" / "com.apple.CoreML" / "model.mlmodel").write_bytes(coreml_program())
    manifest = {"itemInfoEntries": {"a": {"path": path}}, "rootModelIdentifier": "a"}
    (folder / "Manifest.json").write_text(json.dumps(manifest))
    return folder


def test_a_package_is_read(tmp_path: Path) -> None:
    folder = package(tmp_path / "net.mlpackage", "com.apple.CoreML/model.mlmodel")
    recording = formats.read(folder)
    assert recording.header.title == "net"
    assert len(recording.graphs) == 3


@pytest.mark.parametrize("path", ["../../secret", "/etc/passwd", "", "none", "."])
def test_a_package_names_files_of_its_own_alone(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_bytes(coreml_program())
    with pytest.raises(FormatError, match="names no model that is there"):
        formats.read(package(tmp_path / "net.mlpackage", path))


def test_models_go_to_model_explorer_and_back() -> None:
    for data in (coreml_program(), coreml_network(), coreml_pipeline()):
        recording = formats.read(data, "m.mlmodel")
        same_graphs(formats.read(formats.dump(recording, "model_explorer"), "m.json"), recording)


@pytest.mark.parametrize(
    "data, says",
    [
        (message((1, 4), (2, coreml_features())), "of a kind that is not known, or cut off"),
        (b"\x08\x04\x12\x7f\x0a", "a field that does not fit"),
        (b"\x0b" * 50, "a field of no known kind"),
    ],
)
def test_broken_models_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(data, "m.mlmodel")
    assert "\n" not in str(caught.value)


def test_a_model_cut_off_anywhere_is_read_or_refused() -> None:
    data = coreml_program()
    for length in range(1, len(data), 3):
        with pytest.raises(FormatError):
            formats.read(data[:length], "m.mlmodel")


SAMPLES = [coreml_program(), coreml_network(), coreml_pipeline()]


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(SAMPLES),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_damaged_models_are_read_or_refused(data: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(data)
    for place, value in changes:
        changed[place % len(changed)] = value
    with contextlib.suppress(GlasshouseError):
        formats.read(bytes(changed), "m.mlmodel").to_bytes()
