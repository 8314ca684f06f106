"""TFLite models: operators with options, weights, quantisation and subgraphs."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatbuffer_writer import write
from format_files import group_paths, same_graphs
from glasshouse import formats
from glasshouse.errors import FormatError


def tensor(name: str, *dims: int, buffer: int = 0, dtype: int = 0, **more: Any) -> dict[int, Any]:
    fields = {0: ("i32", list(dims)), 1: ("i8", dtype), 2: ("u32", buffer), 3: name}
    return fields | {int(k[1:]): v for k, v in more.items()}


def model(subgraphs: list[Any], codes: list[Any], buffers: list[Any]) -> bytes:
    return write({0: ("u32", 3), 1: codes, 2: subgraphs, 3: "made here", 4: buffers}, b"TFL3")


def sample() -> bytes:
    quantized = {2: ("f32", [0.5]), 3: ("i64", [-3])}
    main = {
        0: [
            tensor("in", 1, 8, 8, 3, _7=("i32", [-1, 8, 8, 3])),
            tensor("net/conv/kernel", 4, 3, 3, 3, buffer=1, dtype=9, _4=quantized),
            tensor("net/conv/BiasAdd;net/conv/Relu", 1, 8, 8, 4),
            tensor("flag", dtype=6),
            tensor("out", 1, 8, 8, 4),
        ],
        1: ("i32", [0, 3]),
        2: ("i32", [4]),
        3: [
            {0: ("u32", 0), 1: ("i32", [0, 1, -1]), 2: ("i32", [2]), 3: ("u8", 1),
             4: {0: ("i8", 1), 1: ("i32", 2), 2: ("i32", 2), 3: ("i8", 3)}},
            {0: ("u32", 1), 1: ("i32", [3, 2]), 2: ("i32", [4]), 3: ("u8", 92),
             4: {0: ("i32", 1), 1: ("i32", 2)}},
        ],
        4: "main",
    }  # fmt: skip

    def branch(code: int) -> dict[int, Any]:
        return {0: [tensor("a", 1), tensor("b", 1)], 1: ("i32", [0]), 2: ("i32", [1]),
                3: [{0: ("u32", code), 1: ("i32", [0]), 2: ("i32", [1])}]}  # fmt: skip

    codes = [
        {0: ("i8", 3), 3: ("i32", 3)}, {0: ("i8", 118), 3: ("i32", 118)},
        {0: ("i8", 127), 3: ("i32", 150)}, {0: ("i8", 32), 1: "MyOp"},
    ]  # fmt: skip
    return model([main, branch(2), branch(3)], codes, [{}, {0: ("u8", [0] * 108)}])


def test_a_model_is_read() -> None:
    recording = formats.read(sample(), "m.tflite")
    graph = recording.graphs[0]
    found = {n.op: n for n in graph.stage(0).nodes}
    assert graph.stage(0).nodes.pylist("op") == ["Input", "Input", "Constant", "CONV_2D", "IF"]
    conv = found["CONV_2D"]
    assert conv.input_nodes == [0, 2, -1]
    attrs = dict(zip(conv.attr_keys, conv.attr_values, strict=True))
    assert attrs == {
        "padding": "VALID", "stride_w": "2", "stride_h": "2", "activation": "RELU6",
        "dilation_w": "1", "dilation_h": "1",
    }  # fmt: skip
    assert conv.kind == "conv"
    assert next(iter(graph.stage(0).nodes)).outputs == ["float32[?, 8, 8, 3]"]
    constant = found["Constant"]
    assert constant.outputs == ["int8[4, 3, 3, 3]"]
    assert dict(zip(constant.attr_keys, constant.attr_values, strict=True)) == {
        "bytes": "108",
        "output:0:quantization": "scale 0.5, zero point -3",
    }
    assert [group_paths(graph)[g] for g in conv.groups] == [("module", "net", "conv")]
    assert graph.info.stages[0].output_nodes == [found["IF"].id]


def test_branches_are_bodies() -> None:
    recording = formats.read(sample(), "m.tflite")
    bodies = list(recording.graphs[0].stage(0).nodes)[-1].bodies
    assert bodies == [1, 2]
    assert [recording.graphs[b].stage(0).nodes.pylist("op")[-1] for b in bodies] == ["GELU", "MyOp"]
    assert [recording.graphs[b].info.parent for b in bodies] == [0, 0]


def test_models_go_to_model_explorer_and_back() -> None:
    recording = formats.read(sample(), "m.tflite")
    same_graphs(formats.read(formats.dump(recording, "model_explorer"), "m.json"), recording)


@pytest.mark.parametrize("data", [write({}, b"TFL3"), b"\0\0\0\0TFL3", sample()[:60]])
def test_broken_models_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(data, "m.tflite")
    assert "\n" not in str(caught.value)


def test_subgraphs_that_call_themselves_are_survived() -> None:
    call = {0: ("u32", 0), 1: ("i32", []), 2: ("i32", []), 3: ("u8", 93),
            4: {0: ("i32", 0), 1: ("i32", 77)}}  # fmt: skip
    data = model([{3: [call]}], [{0: ("i8", 119)}], [])
    assert formats.read(data, "m.tflite").graphs[0].stage(0).nodes.pylist("op") == ["WHILE"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_models_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(sample())
    for place, value in changes:
        data[place % len(data)] = value
    with contextlib.suppress(FormatError):
        formats.read(bytes(data), "m.tflite").to_bytes()
