"""ExecuTorch's calls: every node kept, groupings side by side, clusters found, a style applied."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import pytest
import torch
import torch.ao.quantization.fx._decomposed  # registers quantized_decomposed

from glasshouse import formats
from glasshouse.compat.executorch import (
    highlight_rules,
    recording_of,
    visualize,
    visualize_graph,
    visualize_with_clusters,
)
from glasshouse.errors import Unsupported


def quantize(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.quantized_decomposed.quantize_per_tensor.default(
        x, 0.1, 0, -128, 127, torch.int8
    )


def dequantize(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.quantized_decomposed.dequantize_per_tensor.default(
        x, 0.1, 0, -128, 127, torch.int8
    )


class Block(torch.nn.Module):
    """What PT2E leaves of a linear layer: dequantize, op, activation, quantize."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.ones(4, 4, dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.linear(dequantize(x), dequantize(self.weight))
        return quantize(y.relu())


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc = torch.nn.Sequential(Block())
        self.dec = torch.nn.Sequential(Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return dequantize(self.dec(self.enc(quantize(x)))) + 1.0


@pytest.fixture
def program() -> torch.export.ExportedProgram:
    rows = torch.export.Dim("rows", min=2, max=64)
    return torch.export.export(Two(), (torch.ones(3, 4),), dynamic_shapes=({0: rows},))


def nodes_of(recording):
    return {n.name: n for n in recording.graphs[0].stage(-1).nodes}


def groups_of(recording, node, graph: int = 0) -> dict[str, str]:
    """The path of a node in each grouping."""
    table = list(recording.graphs[graph].groups)
    out = {}
    for row in node.groups:
        path, at = [], row
        while at >= 0:
            path.append(table[at].name)
            at = table[at].parent
        out[table[row].grouping] = "/".join(reversed(path))
    return out


def test_every_node_is_there_with_types_arguments_and_the_users_line(program) -> None:
    recording = recording_of(program)
    nodes = nodes_of(recording)
    assert set(nodes) == {n.name for n in program.graph.nodes if n.op != "output"}
    linear = nodes["linear"]
    assert linear.op == "aten.linear.default"
    assert linear.kind == "matmul"
    assert re.fullmatch(r"float32\[s\d+, 4\]", linear.outputs[0])
    assert linear.input_names == ["input", "weight"]
    producers = [n.name for i in linear.input_nodes for n in nodes.values() if n.id == i]
    assert producers == [a.name for a in next(
        n for n in program.graph.nodes if n.name == "linear").all_input_nodes]  # fmt: skip
    first = nodes["quantize_per_tensor"]
    said = dict(zip(first.attr_keys, first.attr_values, strict=True))
    assert (said["scale"], said["quant_min"], said["dtype"]) == ("0.1", "-128", "int8")
    assert linear.file.endswith("test_executorch.py")
    assert linear.line > 0
    assert nodes["b_enc_0_weight"].op == "Buffer"
    assert recording.header.title == "Two"
    assert any(v == "2..64" for v in recording.graphs[0].info.attrs.values())


def test_modules_keep_their_full_path(program) -> None:
    recording = recording_of(program)
    nodes = nodes_of(recording)
    assert groups_of(recording, nodes["linear"])["module"] == "enc/0"
    assert groups_of(recording, nodes["linear_1"])["module"] == "dec/0"
    assert groups_of(recording, nodes["b_enc_0_weight"])["module"] == "enc/0"
    classes = {g.name: g.cls for g in recording.graphs[0].groups if g.grouping == "module"}
    assert classes["0"] == "Block"


def test_what_a_quantiser_put_in_stands_with_the_op_it_serves(program) -> None:
    for node in program.graph.nodes:
        if "quantize" in node.name:
            node.meta["nn_module_stack"] = {"": ("", "torch.export._trace.Wrapper")}
    recording = recording_of(program)
    nodes = nodes_of(recording)
    where = {name: groups_of(recording, row).get("module") for name, row in nodes.items()}
    q, dq = "quantize_per_tensor", "dequantize_per_tensor"
    assert [where[dq], where[f"{dq}_1"], where[f"{q}_1"]] == ["enc/0"] * 3
    assert [where[f"{dq}_2"], where[f"{dq}_3"], where[f"{q}_2"]] == ["dec/0"] * 3
    assert [where[q], where[f"{dq}_4"]] == [None, None]
    row = nodes[f"{q}_1"]
    said = dict(zip(row.attr_keys, row.attr_values, strict=True))
    assert said["module of"] == "relu"
    assert recording.header.title == "Two"


def test_clusters_are_found_where_nobody_marked_them(program) -> None:
    recording = recording_of(program)
    found = {n: groups_of(recording, row).get("cluster") for n, row in nodes_of(recording).items()}
    assert Counter(v for v in found.values() if v) == {
        "cluster (linear)": 5, "cluster (linear_1)": 5,
    }  # fmt: skip
    assert found["relu"] == "cluster (linear)"
    # The model's own first quantize and last dequantize surround no op.
    assert found["quantize_per_tensor"] is None
    assert found["add"] is None


def test_a_long_stretch_in_float_is_no_cluster() -> None:
    class Float(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return quantize(dequantize(x).sin().cos().tan().exp().sqrt())

    given = (torch.ones(4, dtype=torch.int8),)
    recording = recording_of(torch.export.export(Float(), given))
    assert {g.grouping for g in recording.graphs[0].groups} <= {"module"}


def test_results_taken_apart_stay_in_their_cluster() -> None:
    class Split(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            a, b = dequantize(x).split(2)
            return quantize(a), quantize(b)

    given = (torch.ones(4, dtype=torch.int8),)
    recording = recording_of(torch.export.export(Split(), given))
    nodes = nodes_of(recording)
    assert sum("cluster" in groups_of(recording, n) for n in nodes.values()) == 6
    assert nodes["split"].outputs == ["float32[2]", "float32[2]"]
    assert nodes["getitem_1"].input_ports == [1]


def test_marks_win_over_what_is_found_and_stand_beside_the_modules(program) -> None:
    for node in program.graph.nodes:
        if node.name in ("linear", "relu"):
            node.meta["cluster"] = "mine"
        if node.op == "call_function":
            node.meta["delegation_tag"] = "npu" if "linear" in node.name else "dsp"
    recording = recording_of(program)
    nodes = nodes_of(recording)
    assert groups_of(recording, nodes["linear"]) == {
        "module": "enc/0",
        "cluster": "cluster (mine)",
        "partition": "partition 1 (npu)/cluster (mine)",
    }
    assert groups_of(recording, nodes["quantize_per_tensor"])["partition"] == "partition 0 (dsp)"
    # One marked node of a cluster: nothing is guessed about its neighbours.
    assert "cluster" not in groups_of(recording, nodes["dequantize_per_tensor"])
    assert groups_of(recording, nodes["linear_1"])["cluster"] == "cluster (linear_1)"
    said = dict(zip(nodes["linear"].attr_keys, nodes["linear"].attr_values, strict=True))
    assert said["delegation_tag"] == "npu"


def test_the_style_is_in_the_recording_and_tells_partition_1_from_10(program) -> None:
    for i, node in enumerate(program.graph.nodes):
        node.meta["delegation_tag"] = f"tag{i}"
    recording = recording_of(program)
    rules = [json.loads(s.json) for s in recording.styles if s.kind == "rule"]
    titles = sorted({g.name for g in recording.graphs[0].groups if g.grouping == "partition"})
    assert len(titles) > 11
    fitting = {
        title: [r for r in rules if re.search(r["queries"][1]["queryRegex"], title)]
        for title in titles if title.startswith("partition")
    }  # fmt: skip
    assert all(len(found) == 1 for found in fitting.values())
    colour = {int(t.split()[1]): f[0]["styles"]["node_bg_color"]["value"]
              for t, f in fitting.items()}  # fmt: skip
    assert colour[1] != colour[10]
    assert len(highlight_rules(1000)) == 12
    ops = {n.op for n in recording.graphs[0].stage(-1).nodes if n.op.startswith("quantized")}
    for op in ops:
        first = next(r for r in rules if re.search(r["queries"][1]["queryRegex"], op))
        wanted = "dequantize" if ".dequantize" in op else "quantize"
        assert wanted in first["queries"][1]["queryRegex"]
        assert ("de" in first["queries"][1]["queryRegex"]) == (wanted == "dequantize")


def test_rules_of_the_peer_can_be_laid_over(program) -> None:
    rule = {
        "queries": [{"type": "regex", "queryRegex": "partition 0", "matchTypes": ["title"]}],
        "nodeType": "layer_nodes",
        "styles": {"node_bg_color": {"id": "node_bg_color", "value": "#123456"}},
        "version": "v2",
    }
    recording = recording_of(program)
    before = len(list(recording.styles))
    after = formats.attach(recording, json.dumps([rule]).encode(), "peer.json")
    assert [json.loads(s.json) for s in after.styles][before:] == [rule]


def test_a_file_is_written_and_nothing_started(program, tmp_path, monkeypatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a server was started")

    monkeypatch.setattr("glasshouse.view", refuse, raising=False)
    path = tmp_path / "program.json"
    shown = visualize_with_clusters(
        program, str(path), get_node_partition_name=lambda n: "p" if n.name == "relu" else None
    )
    assert shown is None
    assert formats.detect(path) == "model_explorer"
    back, made = formats.read(path), recording_of(program)
    nodes = nodes_of(back)
    assert set(nodes) == set(nodes_of(made))
    assert groups_of(back, nodes["relu"]) == {
        "module": "enc/0",
        "cluster": "cluster (linear)",
        "partition": "partition 0 (p)/cluster (linear)",
    }
    written = json.loads(path.read_text())
    raw = {n["id"]: n for n in written["graphs"][0]["nodes"]}
    assert raw["relu"]["namespace"] == "enc/0"
    builder = pytest.importorskip("model_explorer.graph_builder", reason="needs model_explorer")
    dacite = pytest.importorskip("dacite", reason="comes with model_explorer")
    accepted = dacite.from_dict(builder.GraphCollection, written, dacite.Config(strict=True))
    assert {n.id for n in accepted.graphs[0].nodes} == set(raw)


def test_calls_share_a_server_and_pages_start_at_the_partitions(program) -> None:
    first = visualize(program, no_open_in_browser=True, cors_host=None, colab_height=500)
    try:
        second = visualize_graph(program.graph_module, program, no_open_in_browser=True)
        third = visualize_with_clusters(program, no_open_in_browser=True, reuse_server=True)
        assert first.server is second.server is third.server
        assert len({first.url, second.url, third.url}) == 3
        assert [s.options.get("grouping") for s in first.server.all()][-1] == "cluster"
        with urlopen(third.url) as answer:
            assert answer.status == 200
    finally:
        first.close()


def test_bodies_of_branches_are_graphs() -> None:
    class Branch(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))

    recording = recording_of(torch.export.export(Branch(), (torch.ones(3),)))
    cond = next(n for n in nodes_of(recording).values() if n.op == "cond")
    inside = [{n.op for n in recording.graphs[b].stage(-1).nodes} for b in cond.bodies]
    assert [("aten.sin.default" in s, "aten.cos.default" in s) for s in inside] == [
        (True, False), (False, True),
    ]  # fmt: skip


class Delegate(torch.nn.Module):
    """As far as this goes, what executorch's LoweredBackendModule is."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__()
        self.backend_id = "NpuBackend"
        self.processed_bytes = b"12345"
        self.original_module = program


def test_delegates_can_be_opened_and_managers_give_their_methods(program) -> None:
    class Small(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    small = torch.export.export(Small(), (torch.ones(2),))
    graph = small.graph_module.graph
    small.graph_module.lowered_module_0 = Delegate(program)
    add = next(n for n in graph.nodes if n.op == "call_function")
    with graph.inserting_before(add):
        lowered = graph.get_attr("lowered_module_0")

    def executorch_call_delegate(*args: object) -> None: ...

    with graph.inserting_after(add):
        call = graph.call_function(executorch_call_delegate, (lowered, add))
    manager = SimpleNamespace(
        methods={"forward", "prefill"},
        exported_program=lambda name: small if name == "forward" else program,
    )
    recording = recording_of(manager)
    assert [g.name for g in recording.graphs] == ["forward", "lowered_module_0", "prefill"]
    node = nodes_of(recording)[call.name]
    said = dict(zip(node.attr_keys, node.attr_values, strict=True))
    assert (said["delegate"], said["delegate bytes"]) == ("NpuBackend", "5")
    assert node.bodies == [1]
    inside = {n.name for n in recording.graphs[1].stage(-1).nodes}
    assert "linear_1" in inside


def test_what_is_no_program_is_refused_in_one_line() -> None:
    with pytest.raises(Unsupported, match="Linear is no exported program"):
        visualize(torch.nn.Linear(2, 2))


def test_the_guide_runs(tmp_path, monkeypatch) -> None:
    guide = Path(__file__).parents[3] / "docs" / "guides" / "executorch.md"
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", guide.read_text(), re.M | re.S))
    shown = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("glasshouse.view", lambda x, **given: shown.append(given), raising=False)
    monkeypatch.setattr(
        "glasshouse.plot_graph", lambda x, path, **given: shown.append(path), raising=False
    )
    exec(code, {})
    assert len(shown) == 3
    assert "program.html" in shown
    assert shown[-1]["rules"] == "my_rules.json"
    assert formats.detect("program.json") == "model_explorer"
