"""Model Explorer files: all they say survives, here and back, and the real one accepts it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import DATA, SHARED, group_paths, same_graphs, shared
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.formats.model_explorer import namespace
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.schema import DataRow, NodeRow
from record_strategies import builders

FULL: dict[str, Any] = {
    "label": "m",
    "graphs": [
        {
            "id": "g",
            "nodes": [
                {
                    "id": "x",
                    "label": "Input",
                    "namespace": "",
                    "style": {"backgroundColor": "#fff"},
                },
                {
                    "id": "add",
                    "label": "aten.add",
                    "namespace": "M/blk",
                    "subgraphIds": ["inner", "missing"],
                    "attrs": [
                        {"key": "alpha", "value": "1"},
                        {"key": "ref", "value": {"type": "node_ids", "nodeIds": ["x"]}},
                        {"key": "output:0:odd", "value": "really of the node"},
                    ],
                    "incomingEdges": [
                        {"sourceNodeId": "x", "sourceNodeOutputId": "0", "targetNodeInputId": "0"},
                        {"sourceNodeId": "x", "sourceNodeOutputId": "0", "targetNodeInputId": "1"},
                    ],
                    "inputsMetadata": [
                        {"id": "0", "attrs": [{"key": "__tensor_tag", "value": "a"}]},
                        {"id": "1", "attrs": [{"key": "quantization", "value": "q"}]},
                    ],
                    "outputsMetadata": [
                        {
                            "id": "0",
                            "attrs": [
                                {"key": "tensor_shape", "value": "float32[2, 8]"},
                                {"key": "tensor_name", "value": "sum"},
                                {"key": "scale", "value": "0.5"},
                            ],
                        }
                    ],
                    "style": {"borderColor": "red", "borderWidth": 1.2},
                    "config": {"pinToGroupTop": True},
                },
            ],
            "groupNodeAttributes": {"M/blk": {"k": "v"}, "": {"graph-level": "v"}},
            "groupNodeConfigs": [{"namespaceRegex": "M.*", "layoutDirection": 1}],
            "nodeLabelsToHide": ["Const"],
            "layoutConfigs": {"nodeSep": 20},
            "tasksData": {"edgeOverlaysDataListLeftPane": [{"type": "edge_overlays", "name": "o"}]},
        },
        {"id": "inner", "nodes": [{"id": "n", "label": "Relu", "namespace": ""}]},
    ],
}


def read(value: Any) -> Recording:
    return formats.read(json.dumps(value).encode(), "f.json")


def back(recording: Recording) -> Any:
    return json.loads(formats.dump(recording, "model_explorer"))


def strip(value: Any) -> Any:
    """Without empty lists, which mean the same as absent ones."""
    if isinstance(value, dict):
        return {k: strip(v) for k, v in value.items() if v != []}
    return [strip(v) for v in value] if isinstance(value, list) else value


def test_everything_comes_back_as_it_was() -> None:
    assert strip(back(read(FULL))) == FULL
    # Also through a .glass file.
    assert strip(back(Recording.open(read(FULL).to_bytes()))) == FULL


def test_columns_are_filled() -> None:
    recording = read(FULL)
    graph = recording.graphs[0]
    add = list(graph.stage(0).nodes)[1]
    assert (add.op, add.name, add.kind) == ("aten.add", "add", "elementwise")
    assert (add.input_nodes, add.outputs, add.output_names) == ([0, 0], ["float32[2, 8]"], ["sum"])
    assert (add.input_names, add.bodies) == (["a", ""], [1])
    attrs = dict(zip(add.attr_keys, add.attr_values, strict=True))
    assert attrs["output:0:scale"] == "0.5"
    assert attrs["input:1:quantization"] == "q"
    assert attrs["ref"] == "x"
    assert group_paths(graph) == [("module", "M"), ("module", "M", "blk")]
    assert graph.groups.row(1).attr_values == ["v"]
    assert graph.info.attrs == {"graph-level": "v"}


def node(id: str, *sources: str, **more: Any) -> dict[str, Any]:
    edges = [
        {"sourceNodeId": s, "sourceNodeOutputId": "0", "targetNodeInputId": str(i)}
        for i, s in enumerate(sources)
    ]
    made = {"id": id, "label": "op", "namespace": "", "incomingEdges": edges, **more}
    return {k: v for k, v in made.items() if v != []}


ODD: list[list[dict[str, Any]]] = [
    [node("a", "b"), node("b", "a")],  # a cycle
    [node("", ""), node("a", "")],  # an empty id
    [node("a"), node("a", "a")],  # equal ids
    [node("a", "nowhere")],  # an edge from nothing
    [node("b", namespace="x\\/y/z"), node("c", namespace="a;b/c"), node("d", namespace="//q/")],
    [node("7"), node("5", "7"), node("1000000", "5", "7")],  # numbers as ids
    [node("07"), node("7", "07")],
    [node("a", attrs=[{"key": "k", "value": "1"}, {"key": "k", "value": "2"}])],
    [node("a", attrs=[{"key": "k", "value": 3}, {"key": "gone", "value": True}])],
    [node("a", outputsMetadata=[{"id": "out", "attrs": []}, {"id": "7", "attrs": []}]),
     {**node("b"), "incomingEdges": [
         {"sourceNodeId": "a", "sourceNodeOutputId": "7", "targetNodeInputId": "3"}]}],
    [node("a", inputsMetadata=[{"id": "x", "attrs": [{"key": "k", "value": "v"}]}])],
    [node("a", novelty={"of": ["later", "versions"]})],
    [node("\U0001f600 é\n\"", attrs=[{"key": "\x00", "value": "\u2028"}])],
    [],
]  # fmt: skip


@pytest.mark.parametrize("nodes", ODD)
def test_odd_graphs_survive(nodes: list[dict[str, Any]]) -> None:
    value = {"label": "l", "graphs": [{"id": "g", "nodes": nodes}]}
    recording = read(value)
    assert recording.graphs[0].stage(0).nodes.rows == len(nodes)
    assert strip(back(recording)) == strip(value)


def test_numbers_as_ids_are_node_ids() -> None:
    recording = read([{"id": "g", "nodes": [node("7"), node("5", "7")]}])
    assert recording.graphs[0].stage(0).nodes.array("id").tolist() == [7, 5]
    assert recording.graphs[0].stage(0).nodes.row(1).input_nodes == [7]


@pytest.mark.parametrize(
    "value",
    [
        {"label": "m", "graphs": [{"id": "g", "nodes": [node("a")]}]},
        [{"id": "g", "nodes": [node("a")]}],
        [{"label": "m", "subgraphs": [{"id": "g", "nodes": [node("a")]}]}],
        {"id": "g", "nodes": [node("a")]},
        {"nodes": [node("a")], "id": "g"},
    ],
)
def test_every_form_of_file(value: Any) -> None:
    graph = read(value).graphs[0]
    assert (graph.name, graph.stage(0).nodes.pylist("name")) == ("g", ["a"])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("ab/\\;é", min_size=1, max_size=4), max_size=4))
def test_namespaces_can_be_taken_apart(path: list[str]) -> None:
    clean = [p.replace(";", ",") for p in path]
    # A backslash at the end of a name would escape the separator; no file can say that.
    if not any(p.endswith("\\") for p in clean):
        assert namespace.split(namespace.join(path)) == tuple(clean)


FILES = [
    "jittor/simple_model.pkl", "jittor/simple_model_train.pkl", "jittor/second_order.pkl",
    "jittor/simple_model_trace1.pkl", "jittor/simple_model_vardata.pkl",
    "hidet/attention-graph.json", "hidet/2_SubgraphRewritePass.json",
    "hidet/6_FuseOperatorPass.json", "hidet",
]  # fmt: skip
ALL_SHARED = sorted(str(p.relative_to(SHARED)) for p in SHARED.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", FILES)
def test_files_go_there_and_back(name: str) -> None:
    recording = formats.read(DATA / name)
    same_graphs(read(back(recording)), recording)


@pytest.mark.parametrize("name", ALL_SHARED or ["no shared data"])
def test_shared_files_go_there_and_back(name: str) -> None:
    recording = formats.read(shared(name))
    same_graphs(read(back(recording)), recording)


@settings(max_examples=40, deadline=None)
@given(builders())
def test_any_recording_can_be_written(made: RecordingBuilder) -> None:
    recording = made.finish()
    written = back(recording)
    assert len(written["graphs"]) == sum(len(g.info.stages) for g in recording.graphs)


def test_what_cannot_be_held_is_named(tmp_path: Path) -> None:
    recording = formats.read(DATA / "jittor" / "simple_model.pkl")
    assert formats.write(recording, tmp_path / "m.json") == ["kernels", "data"]


def test_the_real_model_explorer_accepts_what_we_write() -> None:
    builder = pytest.importorskip("model_explorer.graph_builder", reason="needs model_explorer")
    dacite = pytest.importorskip("dacite", reason="comes with model_explorer")
    for name in FILES:
        written = back(formats.read(DATA / name))
        made = dacite.from_dict(builder.GraphCollection, written, dacite.Config(strict=True))
        assert [g.id for g in made.graphs] == [g["id"] for g in written["graphs"]]
        for graph, raw in zip(made.graphs, written["graphs"], strict=True):
            assert len({n.id for n in graph.nodes}) == len(raw["nodes"])
            known = {n.id for n in graph.nodes}
            assert {e.sourceNodeId for n in graph.nodes for e in n.incomingEdges} <= known


# ------------------------------------------------------------------------------------- overlays
DATA_JSON = {
    "g": {
        "name": "us",
        "results": {
            "add": {"value": 12, "bgColor": "red", "textColor": "#000"},
            "x": {"value": "cold"},
            "gone": {"value": 1.5},
        },
        "thresholds": [{"value": 10, "bgColor": "green"}],
    }
}


def test_node_data_is_laid_over_a_graph_and_written() -> None:
    over = formats.attach(read(FULL), json.dumps(DATA_JSON).encode(), "us.json")
    rows = list(over.graphs[0].table(DataRow))
    assert [(r.name, r.node, r.number) for r in rows if r.node == 1] == [("us", 1, 12.0)]
    assert [r.label for r in rows if r.node == 0] == ["cold"]
    assert [(r.background, r.text_color) for r in rows if r.node == 1] == [("red", "#000")]
    written = json.loads(formats.dump(over, "node_data"))
    expected = json.loads(json.dumps(DATA_JSON))
    del expected["g"]["results"]["gone"]
    assert written == expected
    same_graphs(over, read(FULL))


def test_node_data_may_name_output_tensors() -> None:
    value = {"g": {"results": {"sum": {"value": 3}}}}
    over = formats.attach(read(FULL), json.dumps(value).encode(), "us.json")
    assert [r.node for r in over.graphs[0].table(DataRow)] == [1]


def test_node_data_alone_opens() -> None:
    recording = formats.read(json.dumps(DATA_JSON).encode(), "us.json")
    assert recording.graphs[0].stage(0).nodes.pylist("name") == ["add", "x", "gone"]
    assert recording.graphs[0].table(DataRow).rows == 3


def test_node_data_for_another_model_is_refused() -> None:
    value = {"other": {"results": {"a": {"value": 1}}}}
    with pytest.raises(FormatError, match="node data for other; the graphs are g, inner"):
        formats.attach(read(FULL), json.dumps(value).encode(), "us.json")


RULES = [
    {
        "queries": [{"type": "regex", "queryRegex": "partition 0", "matchTypes": ["title"]}],
        "nodeType": "op_nodes",
        "styles": {"node_bg_color": {"id": "node_bg_color", "value": "#fff1d5"}},
        "version": "v2",
    },
    {"queries": [], "styles": {}},
]


def test_rules_and_mappings_are_kept_word_for_word() -> None:
    over = formats.attach(read(FULL), json.dumps(RULES).encode(), "rules.json")
    assert json.loads(formats.dump(over, "styler")) == RULES
    mapping = {
        "type": "sync_navigation",
        "mappingEntries": [{"leftNodeIds": ["a"], "rightNodeIds": []}],
    }
    over = formats.attach(over, json.dumps(mapping).encode(), "sync.json")
    assert json.loads(formats.dump(over, "sync")) == mapping
    assert strip(back(over)) == FULL
    assert [s.kind for s in formats.read(json.dumps(RULES).encode(), "r.json").styles] == [
        "rule"
    ] * 2


def test_a_mapping_is_made_from_rewrites() -> None:
    recording = formats.read(DATA / "hidet")
    entries = json.loads(formats.dump(recording, "sync"))["mappingEntries"]
    right = {e["leftNodeIds"][0]: e["rightNodeIds"] for e in entries}
    assert right["13_Subtract"] == ["5_FusedExp"]
    assert right["input:0"] == ["input:0"]


# ------------------------------------------------------------------------------------- damage
@pytest.mark.parametrize(
    "data, says",
    [
        (b"", "empty"),
        (b"{", "cut off: it ends after 1"),
        (b"[" * 5_000_000, "a graph was expected"),
        (
            b'{"graphs":[{"id":"g","nodes":[{"id":"a","attrs":' + b"[" * 5_000_000,
            "nested too deeply",
        ),
        (b'{"hello": "world"}', "neither a graph nor a list of graphs"),
        (b'[{"foo": 1}, 2, null]', "neither a graph"),
        (b'[{"id": "g", "nodes": [{"name": "x"}]}]', "node 0 is no object with an id"),
        (b'[{"id": "g", "nodes": [3]}]', "node 0 is no object"),
        (b'[{"id": "g", "nodes": []}] x', "follows the end"),
        (b'[{"id": "g", "nodes": [', "cut off: it ends after 23"),
        (b'[{"id": "g", "nodes": []', "cut off: it ends after 24"),
        (b'[{"id": "g" "nodes": []}]', "a comma or }"),
        (b"[]", "without a graph"),
        (b'{"label": "x", "graphs": []}', "without a graph"),
        (b'{"g": {"results": 3}}', "without results"),
        (b'{"mappingEntries": [1]}', "mapping entry 0"),
        (b'[{"queries": 1}]', "style rule 0"),
        (b'{"id": "\xff"}', "not UTF-8"),
    ],
)
def test_broken_files_say_so_in_one_line(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(data, "f.json")
    assert str(caught.value).startswith("f.json: ")
    assert "\n" not in str(caught.value)


def test_every_prefix_is_refused_cleanly() -> None:
    data = json.dumps(FULL).encode()
    for length in range(1, len(data)):
        with pytest.raises(FormatError):
            formats.read(data[:length], "f.json")


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["id", "label", "namespace", "attrs", "key", "value", "incomingEdges",
                         "sourceNodeId", "outputsMetadata", "inputsMetadata", "nodes", "graphs",
                         "subgraphIds", "groupNodeAttributes", "results", "queries", "type"]),
        inner, max_size=4),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(any_json)
def test_any_json_is_read_or_refused(value: Any) -> None:
    try:
        recording = read(value)
    except FormatError:
        return
    for graph in recording.graphs:
        graph.table(NodeRow)
    back(recording)


@settings(max_examples=200, deadline=None)
@given(st.lists(any_json, max_size=4))
def test_any_nodes_are_read_or_refused(nodes: list[Any]) -> None:
    value = {"graphs": [{"id": "g", "nodes": [{"id": "a", "x": n} for n in nodes] + nodes}]}
    try:
        recording = read(value)
    except FormatError:
        return
    assert strip(back(recording))["graphs"][0]["id"] == "g"
