"""Jittor traces: every node, phase, module, gradient link and executed group arrives."""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import DATA, group_paths, shared
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.formats.jittor.jit_key import decode
from glasshouse.formats.jittor.trace import StackEntry
from glasshouse.record import Recording
from glasshouse.record.schema import DataRow, KernelRow, NodeRow, SummaryRow

COUNTS = {
    "simple_model": (74, 14), "simple_model_train": (246, 41), "second_order": (44, 2),
    "simple_model_trace1": (0, 0), "simple_model_vardata": (74, 14),
}  # fmt: skip


def phases(recording: Recording) -> Counter[str]:
    graph = recording.graphs[0]
    paths = group_paths(graph)
    return Counter(
        paths[g][1] for node in graph.table(NodeRow) for g in node.groups if paths[g][0] == "phase"
    )


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    recording = formats.read(DATA / "jittor" / f"{name}.pkl")
    graph = recording.graphs[0]
    assert (graph.table(NodeRow).rows, graph.table(KernelRow).rows) == COUNTS[name]


@pytest.mark.parametrize("name", [n for n, (nodes, _) in COUNTS.items() if nodes])
def test_edges_and_ids_are_those_of_the_file(name: str) -> None:
    path = DATA / "jittor" / f"{name}.pkl"
    raw = pickle.loads(path.read_bytes())["node_data"]
    nodes = {n.id: n for n in formats.read(path).graphs[0].table(NodeRow)}
    assert nodes.keys() == raw.keys()
    for id, node in nodes.items():
        assert node.input_nodes == raw[id]["inputs"]
        assert dict(zip(node.attr_keys, node.attr_values, strict=True)) == raw[id]["attrs"]
        assert [StackEntry.parse(f).name for f in node.frames] == [
            s["name"] for s in raw[id]["stacks"]
        ]


def test_phases_stand_side_by_side_with_the_hierarchy_inside() -> None:
    recording = formats.read(shared("jittor/resnet_train.pkl"))
    graph = recording.graphs[0]
    assert graph.table(NodeRow).rows == 7004
    assert graph.table(KernelRow).rows == 797
    found = phases(recording)
    assert found == {"initialisation": 1240, "forward": 1640, "backward": 2024, "optimiser": 2100}
    modules = [p for p in group_paths(graph) if p[0] == "module"]
    assert sorted(p[1] for p in modules if len(p) == 2) == sorted(found)
    assert ("module", "backward", "resnet18", "layer1", "0", "conv1") in modules
    assert ("module", "forward", "resnet18", "layer1", "0", "conv1") in modules


def test_backward_nodes_name_their_forward_node() -> None:
    recording = formats.read(DATA / "jittor" / "simple_model_train.pkl")
    nodes = {n.id: n for n in recording.graphs[0].table(NodeRow)}
    linked = [n for n in nodes.values() if n.grad_of in nodes]
    assert len(linked) > 20
    paths = group_paths(recording.graphs[0])
    for node in linked:
        assert any(paths[g][:2] == ("phase", "backward") for g in node.groups)
        # A gradient has the user's line of the op that it is the gradient of.
        if nodes[node.grad_of].file:
            assert (node.file, node.line) == (nodes[node.grad_of].file, nodes[node.grad_of].line)


def test_gradients_of_gradients() -> None:
    # Constants outside any scope belong to the one phase that reads them.
    recording = formats.read(DATA / "jittor" / "second_order.pkl")
    assert phases(recording) == {"forward": 10, "backward": 20, "backward (order 2)": 14}


def test_executed_groups_in_order_with_readable_keys() -> None:
    recording = formats.read(DATA / "jittor" / "simple_model.pkl")
    graph = recording.graphs[0]
    kernels = list(graph.table(KernelRow))
    assert [k.id for k in kernels] == sorted(k.id for k in kernels)
    relayed = [k for k in kernels if k.variant == "library call"]
    assert [k.name for k in relayed].count("broadcast_to+broadcast_to+binary.multiply+reduce.add")
    group = next(g for g in graph.groups if g.grouping == "kernel" and g.name.startswith("13 "))
    attrs = dict(zip(group.attr_keys, group.attr_values, strict=True))
    assert attrs["op 1"] == "binary.add(Tx=float32, Ty=float32, Tz=float32)"
    assert attrs["choice split1"] == "1000"


def test_recomputed_ops_are_counted() -> None:
    recording = formats.read(DATA / "jittor" / "simple_model_train.pkl")
    graph = recording.graphs[0]
    executed = Counter(op for k in graph.table(KernelRow) for op in k.ops)
    again = {d.node: d.number for d in graph.table(DataRow) if d.name == "recomputed"}
    assert again == {op: n - 1 for op, n in executed.items() if n > 1}


def test_values_become_summaries() -> None:
    recording = formats.read(DATA / "jittor" / "simple_model_vardata.pkl")
    summary = next(s for s in recording.graphs[0].table(SummaryRow) if s.node == 90)
    assert summary.minimum == pytest.approx(0.428430)
    assert summary.maximum == pytest.approx(0.450358)
    assert summary.sample.startswith("0.437196, 0.446203")


def test_jit_keys() -> None:
    key = decode(
        "«opkey0:broadcast_to«Tx:float32«DIM=3«BCAST=5«opkey1:reduce«OP:add«REDUCE=4«JIT:1"
        "«JIT_cuda:1«index_t:int32«choices:relay0:1,order1:2,"
    )
    assert [str(op) for op in key.ops] == [
        "broadcast_to(Tx=float32, DIM=3, broadcast axes=[0, 2])",
        "reduce.add(reduced axes=[2])",
    ]
    assert key.choices == {"relay0": "1", "order1": "2"}
    assert (key.relayed, key.target) == (True, "cuda")
    assert decode("").ops == []
    assert [str(op) for op in decode("random«T:float32«R:uniform«JIT:1").ops] == [
        "random(T=float32, R=uniform)"
    ]


@settings(max_examples=100, deadline=None)
@given(st.text("«:=,opkeyJIT0a choices", max_size=60))
def test_any_jit_key_is_read(key: str) -> None:
    decode(key)


def trace(**nodes: Any) -> bytes:
    return pickle.dumps({"node_data": {int(k[1:]): v for k, v in nodes.items()}})


def test_sparse_nodes_are_tolerated() -> None:
    data = trace(
        n5={"id": 5, "inputs": [9, 9], "attrs": {"is_var": "0", "name": "x", "grad_op_id": "77"}},
        n9={},
        n2={"id": 2, "outputs": (5,), "stacks": None, "attrs": {"a": 1, "b": [1]}},
    )
    nodes = {n.id: n for n in formats.read(data, "t.pkl").graphs[0].table(NodeRow)}
    assert nodes[5].input_nodes == [9, 9]
    assert nodes[5].grad_of == 77  # an op that is not in the file
    assert nodes[2].attr_values == ["1", "<list>"]


@pytest.mark.parametrize(
    "data, says",
    [
        (pickle.dumps([1, 2]), "not a Jittor trace"),
        (pickle.dumps({"node_data": 3}), "not a Jittor trace"),
        (trace(n1=7), "is no dict"),
        (trace(n1={"id": -1}), "not a number from 0"),
        (trace(n1={"id": 3}, n2={"id": 3}), "two nodes have the id 3"),
        (trace(n1={"inputs": ["x"]}), "where an id should stand"),
        (pickle.dumps({"node_data": {}, "execute_op_info": {"a": {}}}), "is not readable"),
    ],
)
def test_other_pickles_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError, match=says):
        formats.read(data, "t.pkl")


scraps = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.text(max_size=4) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(
        st.sampled_from(["id", "inputs", "outputs", "stacks", "attrs", "name", "type", "is_var",
                         "file_path", "lineno", "grad_op_id", "fused_ops", "jit_key", "shape"]),
        inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=250, deadline=None)
@given(st.dictionaries(st.integers(0, 9), scraps), st.dictionaries(st.integers(0, 3), scraps))
def test_any_trace_is_read_or_refused(nodes: Any, groups: Any) -> None:
    data = pickle.dumps({"node_data": nodes, "execute_op_info": groups})
    with contextlib.suppress(FormatError):
        formats.dump(formats.read(data, "t.pkl"), "jittor")


def test_a_list_that_is_shared_without_end_is_refused() -> None:
    shared_list = [1] * 20_000
    data = pickle.dumps({"node_data": {i: {"inputs": shared_list} for i in range(2000)}})
    assert len(data) < 200_000
    with pytest.raises(FormatError, match="entries, counting those that it refers to again"):
        formats.read(data, "t.pkl")


def test_code_is_read_only_from_where_jittor_writes_it(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere" / "secret.cc"
    secret.parent.mkdir()
    secret.write_text("secret")
    cached = tmp_path / ".jittor" / "jit" / "k_op.cc"
    cached.parent.mkdir(parents=True)
    cached.write_text("int generated;")
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "beside_op.cc").write_text("int beside;")
    info = {
        i: {"fused_ops": [], "jit_key": "", "file_path": str(p)}
        for i, p in enumerate(
            [secret, cached, "/gone/beside_op.cc", tmp_path / ".jittor/../elsewhere/secret.cc"]
        )
    }
    data = pickle.dumps({"node_data": {}, "execute_op_info": info})
    (folder / "t.pkl").write_bytes(data)
    kernels = formats.read(folder / "t.pkl").graphs[0].table(KernelRow)
    assert kernels.pylist("code") == ["", "int generated;", "int beside;", ""]
    # Bytes that somebody uploaded never make this machine's files be read.
    assert formats.read(data, "t.pkl").graphs[0].table(KernelRow).pylist("code") == [""] * 4
