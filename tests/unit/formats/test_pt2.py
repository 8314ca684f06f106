"""Exported programs: read from the archive's JSON without torch; modules, lines, bodies."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import group_paths, same_graphs
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.formats.pt2.read import module_path, user_line
from glasshouse.formats.pt2.symbols import readable
from glasshouse.record import Recording


def meta(*sizes: Any) -> dict[str, Any]:
    shown = [
        {"as_int": s} if isinstance(s, int) else {"as_expr": {"expr_str": s, "hint": None}}
        for s in sizes
    ]
    return {"dtype": 7, "sizes": shown, "requires_grad": False}


def tensor(name: str) -> dict[str, Any]:
    return {"as_tensor": {"name": name}}


def argument(name: str, arg: Any) -> dict[str, Any]:
    return {"name": name, "arg": arg, "kind": 1}


BODY = {
    "inputs": [tensor("a")],
    "outputs": [tensor("neg")],
    "nodes": [
        {"target": "torch.ops.aten.neg.default", "inputs": [argument("self", tensor("a"))],
         "outputs": [tensor("neg")], "metadata": {}}
    ],
    "tensor_values": {"a": meta(4), "neg": meta(4)},
}  # fmt: skip
STACK = """File "/u/train.py", line 9, in <module>
    m(x)
  File "/u/model.py", line 21, in forward
  File "/env/lib/site-packages/torch/nn/modules/linear.py", line 134, in forward"""
PROGRAM: dict[str, Any] = {
    "graph_module": {
        "graph": {
            "inputs": [tensor("p_w"), tensor("x")],
            "outputs": [tensor("cond"), tensor("b")],
            "nodes": [
                {
                    "target": "torch.ops.aten.mm.default",
                    "inputs": [argument("self", tensor("x")), argument("mat2", tensor("p_w"))],
                    "outputs": [tensor("mm")],
                    "metadata": {
                        "stack_trace": STACK,
                        "nn_module_stack": "k,,m.Model;k,enc.0,m.Block;k,enc.0.fc,torch.nn.Linear",
                    },
                    "name": "mm",
                },
                {
                    "target": "torch.ops.aten.split.Tensor",
                    "inputs": [argument("self", tensor("mm")), argument("dim", {"as_int": -1})],
                    "outputs": [{"as_tensors": [{"name": "a"}, {"name": "b"}]}],
                    "metadata": {},
                },
                {
                    "target": "torch.ops.higher_order.cond",
                    "inputs": [
                        argument("", tensor("a")),
                        argument("", {"as_graph": {"name": "yes", "graph": BODY}}),
                        argument("", {"as_graph": {"name": "no", "graph": BODY}}),
                    ],
                    "outputs": [tensor("cond")],
                    "metadata": {},
                },
            ],
            "tensor_values": {
                "p_w": meta(8, 8),
                "x": meta("Symbol('s0', positive=True)", 8),
                "mm": meta("Symbol('s0')", 8),
            },
        },
        "signature": {
            "input_specs": [
                {"parameter": {"arg": {"name": "p_w"}, "parameter_name": "enc.0.fc.weight"}},
                {"user_input": {"arg": tensor("x")}},
            ],
            "output_specs": [
                {"buffer_mutation": {"arg": {"name": "cond"}, "buffer_name": "state"}}
            ],
        },
    },
    "range_constraints": {"s0": {"min_val": 2, "max_val": 64}},
    "schema_version": {"major": 8, "minor": 20},
    "torch_version": "2.13.0",
}


def archive(program: Any, name: str = "m/models/model.json", **more: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr(name, json.dumps(program))
        for other, data in more.items():
            target.writestr(other, data)
    return out.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        archive(PROGRAM),
        archive(PROGRAM, "serialized_exported_program.json"),
        json.dumps(PROGRAM).encode(),
    ],
)
def test_a_program_is_read(data: bytes) -> None:
    recording = formats.read(data, "net.pt2")
    graph = recording.graphs[0]
    nodes = {n.name: n for n in graph.stage(0).nodes}
    assert list(nodes) == ["p_w", "x", "mm", "a", "cond"]
    assert (nodes["p_w"].op, nodes["p_w"].attr_values) == ("Parameter", ["enc.0.fc.weight"])
    assert nodes["x"].outputs == ["float32[s0, 8]"]
    assert (nodes["mm"].file, nodes["mm"].line) == ("/u/model.py", 21)
    assert nodes["mm"].frames[0] == "/u/train.py:9 <module>"
    assert nodes["mm"].input_names == ["self", "mat2"]
    assert (nodes["cond"].input_nodes, nodes["cond"].input_ports) == ([nodes["a"].id], [0])
    assert dict(zip(nodes["a"].attr_keys, nodes["a"].attr_values, strict=True)) == {"dim": "-1"}
    assert graph.info.stages[0].output_ports == [0, 1]
    paths = group_paths(graph)
    assert [paths[g] for g in nodes["mm"].groups] == [("module", "enc", "0", "fc")]
    assert nodes["p_w"].groups == nodes["mm"].groups  # a parameter lies with its module
    assert graph.groups.pylist("cls") == ["", "Block", "Linear"]
    assert graph.info.attrs == {"range s0": "2..64", "output 0": "buffer mutation state"}
    bodies = [recording.graphs[b] for b in nodes["cond"].bodies]
    assert [(b.name, b.info.parent) for b in bodies] == [("yes", 0), ("no", 0)]
    assert bodies[0].stage(0).nodes.pylist("op") == ["Input", "aten.neg.default"]


def test_modules_with_equal_last_names_stay_apart() -> None:
    assert module_path("k,,M;k,enc.0,B")[0] == ["enc", "0"]
    assert module_path("k,,M;k,dec.0,B;k,dec.0.fc,L")[0] == ["dec", "0", "fc"]
    assert module_path("k,enc,E;k,enc.layers.3,B")[1] == ["E", "", "B"]
    assert module_path("") == ([], [])


def test_the_line_is_the_users() -> None:
    inner = ("/x/site-packages/torch/nn/functional.py", 3, "f")
    assert user_line([("/u/a.py", 1, "f"), inner]) == ("/u/a.py", 1)
    assert user_line([inner]) == inner[:2]
    assert user_line([]) == ("", 0)


def test_symbolic_sizes_are_readable() -> None:
    assert readable("Mul(Integer(2), Symbol('s0', positive=True, integer=True))") == "2*s0"
    assert readable("FloorDiv(Add(Symbol('s0'), Integer(1)), Integer(2))") == "(s0 + 1)//2"
    assert readable("Max(Integer(1), Symbol('u0'))") == "Max(1, u0)"
    assert readable("s0*2") == "s0*2"
    assert readable("Broken(Symbol('s0'") == "Broken(Symbol('s0'"


def test_several_programs_are_several_graphs() -> None:
    data = archive(PROGRAM, **{"m/models/second.json": json.dumps(PROGRAM).encode()})
    assert [g.name for g in formats.read(data, "n.pt2").graphs if g.info.parent < 0] == [
        "model",
        "second",
    ]


def test_no_pickle_is_opened_and_torch_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    bomb = b"cos\nsystem\n(S'false'\ntR."
    data = archive(PROGRAM, **{"m/data/sample_inputs/model.pt": bomb, "../../evil": b"x"})
    assert formats.read(data, "n.pt2").graphs[0].stage(0).nodes.rows == 5


@pytest.mark.parametrize(
    "data, says",
    [
        (archive({}), "without graph_module.graph"),
        (archive([1]), "without graph_module.graph"),
        (archive({"graph_module": {"graph": 3}}), "without graph_module.graph"),
        (archive(PROGRAM)[:-30], "cut off or damaged"),
        (archive(PROGRAM, "x/data.pkl"), "the pickle"),
        (archive(PROGRAM, "x/readme"), "none of a model that Glasshouse knows"),
    ],
)
def test_other_archives_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(data, "n.pt2")
    assert "\n" not in str(caught.value)


def test_deep_nesting_and_bombs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("m/models/model.json", b"[" * 500_000)
    with pytest.raises(FormatError, match="nested too deeply"):
        formats.read(out.getvalue(), "n.pt2")
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target,
        target.open("m/models/model.json", "w") as member,
    ):
        for _ in range(100):
            member.write(b" " * (1 << 20))
    monkeypatch.setenv("GLASSHOUSE_LIMITS", f"decoded_bytes={64 << 20}")
    with pytest.raises(FormatError, match="asks for 104,857,600 bytes when decoded"):
        formats.read(out.getvalue(), "n.pt2")


def test_nested_bodies_cost_no_recursion() -> None:
    body = copy.deepcopy(BODY)
    for _ in range(60):
        outer = copy.deepcopy(BODY)
        outer["nodes"][0]["inputs"].append(
            argument("f", {"as_graph": {"name": "g", "graph": body}})
        )
        body = outer
    program = {"graph_module": {"graph": body}, "schema_version": {}}
    assert len(formats.read(archive(program), "n.pt2").graphs) == 61


scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["graph", "nodes", "inputs", "outputs", "name", "arg", "as_tensor",
                         "as_tensors", "as_graph", "as_sym_int", "metadata", "target",
                         "tensor_values", "dtype", "sizes", "as_int", "as_expr", "signature",
                         "input_specs", "parameter", "stack_trace", "nn_module_stack"]),
        inner, max_size=4),
    max_leaves=25,
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(scraps, scraps, scraps)
def test_any_program_is_read_or_refused(graph: Any, node: Any, arg: Any) -> None:
    nodes = [node, {"target": "t", "inputs": [{"name": "n", "arg": arg}], "outputs": [arg]}]
    base = graph if isinstance(graph, dict) else {}
    for raw in (graph, {"nodes": nodes, "inputs": [arg], **base}):
        program = {"graph_module": {"graph": raw}, "schema_version": graph}
        with contextlib.suppress(FormatError):
            formats.read(json.dumps(program).encode(), "n.pt2").to_bytes()


@pytest.mark.filterwarnings("ignore")  # torch warns about itself while exporting
def test_a_real_export(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs torch to export")

    class Block(torch.nn.Module):  # type: ignore[misc, name-defined]  # torch may be absent
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            return torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (self.fc(x),))

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enc = torch.nn.ModuleList([Block(), Block()])

        def forward(self, x: Any, n: int) -> Any:
            for block in self.enc:
                x = block(x)
            return x * x + n

    batch = torch.export.Dim("batch", min=2, max=64)
    shapes = {"x": {0: batch}, "n": None}
    program = torch.export.export(Model(), (torch.ones(3, 8), 4), dynamic_shapes=shapes)
    path = tmp_path / "m.pt2"
    torch.export.save(program, path)
    recording = formats.read(path)
    graph = recording.graphs[0]
    nodes = {n.name: n for n in graph.stage(0).nodes}
    exported = [n for n in program.graph.nodes if n.op in ("call_function", "placeholder")]
    ours = {n for node in nodes.values() for n in (node.name, *node.output_names)}
    assert {n.name for n in exported if "getitem" not in n.name} <= ours
    assert len(recording.graphs) == 5  # the model, and two branches of each condition
    mul = next(n for n in nodes.values() if n.op == "aten.mul.Tensor")
    assert mul.input_nodes[0] == mul.input_nodes[1]  # x*x reads x twice
    assert Path(mul.file).name == Path(__file__).name
    assert mul.outputs[0].startswith("float32[s")
    assert ("module", "enc", "1", "fc") in group_paths(graph)
    written = formats.dump(recording, "model_explorer")
    same_graphs(formats.read(written, "m.json"), recording)
    same_graphs(Recording.open(recording.to_bytes()), recording)
