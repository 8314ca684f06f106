"""Keras: functional and sequential models, models in models, and the same text inside of HDF5."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import zipfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import group_paths, same_graphs
from fuzz.seeds import keras, keras_config, keras_h5
from glasshouse import formats
from glasshouse.errors import FormatError, LimitExceeded


def archive(config: Any) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("metadata.json", "{}")
        made.writestr("config.json", config if isinstance(config, str) else json.dumps(config))
    return out.getvalue()


def layer(cls: str, name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": cls, "config": {"name": name, **config}}


def sequential(*layers: Any, **config: Any) -> dict[str, Any]:
    return {"class_name": "Sequential", "config": {"name": "s", "layers": layers, **config}}


@pytest.mark.parametrize(("data", "name"), [(keras(), "m.keras"), (keras_h5(), "m.h5")])
def test_a_functional_model_is_read(data: bytes, name: str) -> None:
    recording = formats.read(data, name)
    graph = recording.graphs[0]
    nodes = list(graph.stage(0).nodes)
    # The encoder is called twice; layers are listed in any order in the file.
    assert [(n.op, n.name) for n in nodes] == [
        ("Input", "a"), ("Input", "b"), ("Dense", "dense"), ("Dense", "dense"),
        ("Concatenate", "join"), ("GRU", "gru"),
    ]  # fmt: skip
    assert [n.input_nodes for n in nodes] == [[], [], [0], [1], [2, 3], [4]]
    assert nodes[0].outputs == ["float32[?, 16]"]
    assert nodes[4].outputs == ["float32[?, 1, 16]"]
    paths = group_paths(graph)
    assert [[paths[g] for g in n.groups] for n in nodes[2:5]] == [
        [("module", "encoder")], [("module", "encoder")], [],
    ]  # fmt: skip
    attrs = dict(zip(nodes[2].attr_keys, nodes[2].attr_values, strict=True))
    assert attrs == {"dtype": "float32", "units": "8", "activation": "relu"}
    stage = graph.info.stages[0]
    assert (stage.inputs, stage.output_nodes, stage.output_ports) == ([0, 1], [5, 5], [0, 1])
    facts = recording.header.facts
    assert (facts["class"], facts["optimizer"], facts["loss"]) == ("Functional", "Adam", "mse")


def test_a_sequential_model_is_read() -> None:
    conv = layer("Conv2D", "conv", filters=8)
    flat = layer("Flatten", "flat") | {"build_config": {"input_shape": [None, 26, 26, 8]}}
    config = sequential(conv, flat, build_input_shape=[None, 28, 28, 1])
    nodes = list(formats.read(archive(config), "m.keras").graphs[0].stage(0).nodes)
    assert [(n.op, n.outputs[0]) for n in nodes] == [
        ("Input", "float32[?, 28, 28, 1]"), ("Conv2D", "float32[?, 26, 26, 8]"), ("Flatten", ""),
    ]  # fmt: skip


def test_the_edges_of_keras_2() -> None:
    dense = layer("Dense", "d") | {"name": "d", "inbound_nodes": [[["x", 0, 0, {}]]]}
    inputs = layer("InputLayer", "x", batch_input_shape=[None, 4]) | {"name": "x"}
    config = {"name": "m", "layers": [inputs, dense], "output_layers": [["d", 0, 0]]}
    data = archive({"class_name": "Model", "config": config})
    graph = formats.read(data, "m.keras").graphs[0]
    assert graph.stage(0).nodes.pylist("input_nodes") == [[], [0]]
    assert graph.info.stages[0].output_nodes == [1]


def test_models_go_to_model_explorer_and_back() -> None:
    recording = formats.read(keras(), "m.keras")
    same_graphs(formats.read(formats.dump(recording, "model_explorer"), "m.json"), recording)


@pytest.mark.parametrize(
    "data, says",
    [
        (archive({"class_name": "MyModel", "config": {}}), "called by Python code"),
        (archive("[]"), "called by Python code"),
        (archive("{"), "cut off"),
        (keras()[:-30], "cut off or damaged"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "HDF5 file without a Keras model"),
        (keras_h5()[:900], "HDF5 file without a Keras model"),
    ],
)
def test_broken_files_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(data, "m.keras")
    assert "\n" not in str(caught.value)


def test_models_that_unfold_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: dict[str, Any] = layer("Dense", "d")
    for _ in range(70):
        deep = sequential(deep)
    with pytest.raises(FormatError, match="more than 60 deep"):
        formats.read(archive(deep), "m.keras")
    wide: dict[str, Any] = layer("Dense", "d")
    for _ in range(40):  # 2 ** 40 layers
        wide = sequential(wide, wide) if wide["class_name"] == "Dense" else doubled(wide)
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "rows=1000")
    with pytest.raises(LimitExceeded, match="rows"):
        formats.read(archive(wide), "m.keras")


def doubled(model: dict[str, Any]) -> dict[str, Any]:
    """A model whose only layer is `model`, called twice in a row."""
    inner = model | {
        "name": "m", "inbound_nodes": [[["x", 0, 0, {}]], [["m", 0, 0, {}]]],
    }  # fmt: skip
    inputs = layer("InputLayer", "x") | {"name": "x"}
    config = {
        "name": "m", "layers": [inputs, inner], "input_layers": [["x", 0, 0]],
        "output_layers": [["m", 1, 0]],
    }  # fmt: skip
    return {"class_name": "Functional", "config": config}


def test_layers_that_read_each_other_are_survived() -> None:
    one = layer("Dense", "a") | {"name": "a", "inbound_nodes": [[["b", 0, 0, {}]]]}
    two = layer("Dense", "b") | {"name": "b", "inbound_nodes": [[["a", 0, 0, {}]]]}
    config = {"layers": [one, two], "output_layers": [["b", 0, 0]]}
    recording = formats.read(archive({"class_name": "Functional", "config": config}), "m.keras")
    assert recording.graphs[0].stage(0).nodes.pylist("input_nodes") == [[-1], [0]]
    assert "edge(s) from a node" in recording.header.facts["repairs"]


def places(value: Any) -> list[tuple[Any, Any]]:
    out, waiting = [], [value]
    for here in waiting:
        if isinstance(here, (dict, list)):
            keys = list(here) if isinstance(here, dict) else range(len(here))
            out += [(here, k) for k in keys]
            waiting += [here[k] for k in keys]
    return out


odd: Any = st.sampled_from([None, -1, 2**70, "", "x", [], {}, [[]], ["a", -1, 2**40], True, 0.5])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1000), odd), min_size=1, max_size=4))
def test_any_configuration_is_read_or_refused(changes: list[tuple[int, Any]]) -> None:
    config = keras_config()
    for number, value in changes:
        known = places(config)
        holder, key = known[number % len(known)]
        holder[key] = copy.deepcopy(value)  # itself, it could end up inside of itself
    with contextlib.suppress(FormatError):
        formats.read(archive(config), "m.keras").to_bytes()
