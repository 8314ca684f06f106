"""What a builder was told is what a reader says, whatever it was."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import os
import stat
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glasshouse.record import Recording, RecordingBuilder, reader
from glasshouse.record.budget import ReadLimits
from glasshouse.record.columns import Column
from glasshouse.record.container import write_atomic
from glasshouse.record.schema import GRAPH_TABLES, KernelRow, NodeRow, Text, TimeRow
from glasshouse.record.table_bytes import decode_table, encode_table
from record_strategies import builders, ints


def contents(recording: Recording) -> Any:
    graphs = []
    for graph in recording.graphs:
        tables = {n: list(graph.table(c)) for n, c in GRAPH_TABLES.items()}
        stages = [
            (list(v.nodes), list(v.added), list(v.removed))
            for v in map(graph.stage, range(len(graph.info.stages)))
        ]
        graphs.append((graph.info, tables, stages))
    header = dataclasses.replace(recording.header, tables={})
    return header, graphs, list(recording.sources), list(recording.styles)


@settings(max_examples=30, deadline=None)
@given(builders())
def test_bytes_hold_everything(made: RecordingBuilder) -> None:
    fresh = made.finish()
    data = fresh.to_bytes()
    read = Recording.open(data)
    assert contents(read) == contents(fresh)
    assert read.to_bytes() == data  # the same recording gives the same file


@settings(max_examples=80, deadline=None)
@given(st.lists(ints), st.lists(st.floats()), st.lists(st.lists(ints)))
def test_numbers_are_exact(whole: list[int], real: list[float], ragged: list[list[int]]) -> None:
    lengths = np.array([len(r) for r in ragged], np.int64)
    flat = np.array([v for r in ragged for v in r], np.int64)
    for column in (
        Column("int", np.array(whole, np.int64)),
        Column("float", np.array(real, np.float64)),
        Column("list<int>", flat, lengths),
    ):
        rows, columns = decode_table("t", encode_table(column.rows, {"c": column}), 1)
        back = columns["c"]
        assert rows == column.rows
        np.testing.assert_array_equal(back.values, column.values)
        if column.type == "float":  # also the sign of zero
            assert [math.copysign(1, v) for v in back.values if v == v] == [
                math.copysign(1, v) for v in real if v == v
            ]
        if column.lengths is not None:
            np.testing.assert_array_equal(back.lengths, column.lengths)


def small() -> RecordingBuilder:
    made = RecordingBuilder("small")
    graph = made.graph("main")
    graph.stage("traced")
    x = graph.node("Input", name="x", outputs=["float32[n, 8]"])
    inner = graph.group_path("module", ["encoder", "0"], ["Encoder", "Layer"])
    a = graph.node("Relu", inputs=[x], groups=[inner], file="m.py", line=3)
    b = graph.node("Exp", inputs=[a], groups=[inner])
    graph.set_io([x], [(b, 0)])
    graph.stage("fused", pass_name="FuseOperator", doc="Merge.", options={"max_inputs": "8"})
    graph.end(a)
    graph.end(b)
    fused = graph.node("FusedRelu", inputs=[x], groups=[inner], replaces=[a, b], rule="chain")
    graph.set_io([x], [(fused, 0)])
    graph.add(KernelRow(0, "k", fused, [a, b], "cpu", "loops", Text("for (;;) {}")))
    return made


def test_stages_are_intervals() -> None:
    recording = Recording.open(small().finish().to_bytes())
    first, second = recording.stage(0, 0), recording.stage(0, -1)
    assert first.nodes.pylist("op") == ["Input", "Relu", "Exp"]
    assert second.nodes.pylist("op") == ["Input", "FusedRelu"]
    assert second.added.pylist("op") == ["FusedRelu"]
    assert second.removed.pylist("op") == ["Relu", "Exp"]
    assert second.info.output_nodes == [3]
    assert second.nodes.row(second.row_of[3]).replaces == [1, 2]
    groups = recording.graphs[0].groups
    assert groups.pylist("name") == ["encoder", "0"]
    assert groups.pylist("parent") == [-1, 0]


def test_a_changed_node_is_two_rows_with_one_id() -> None:
    made = RecordingBuilder()
    graph = made.graph("g")
    graph.stage("a")
    node = graph.node("Add", inputs=[7])
    graph.stage("b")
    graph.node("Add", id=node, inputs=[8])
    recording = made.finish()
    assert recording.stage(0, 0).nodes.row(0).input_nodes == [7]
    assert recording.stage(0, 1).nodes.row(0).input_nodes == [8]
    assert len(recording.stage(0, 1).nodes) == 1
    with pytest.raises(ValueError, match="two nodes with id"):
        graph.node("Add", id=node)


def test_columns_given_whole_equal_rows_given_singly() -> None:
    by_rows, by_columns = RecordingBuilder(), RecordingBuilder()
    graph = by_rows.graph("g")
    for i in range(5):
        graph.node(f"op{i % 2}", id=i + 10, inputs=[(i + 9, 1)] if i else [], attrs={"k": str(i)})
        graph.add(TimeRow("run", i + 10, i / 2))
    graph = by_columns.graph("g")
    one = np.array([0, 1, 1, 1, 1])
    graph.nodes(
        {
            "id": np.arange(10, 15),
            "op": by_columns.indices(f"op{i % 2}" for i in range(5)),
            "input_nodes": (one, np.arange(10, 14)),
            "input_ports": (one, np.ones(4, np.int64)),
            "attr_keys": [["k"]] * 5,
            "attr_values": (np.ones(5, np.int64), ["0", "1", "2", "3", "4"]),
        }
    )
    graph.extend(
        TimeRow, 5, {"run": ["run"] * 5, "node": range(10, 15), "seconds": np.arange(5) / 2}
    )
    assert contents(by_columns.finish()) == contents(by_rows.finish())


def test_columns_of_wrong_length_are_refused() -> None:
    graph = RecordingBuilder().graph("g")
    with pytest.raises(ValueError, match="op has 1 rows, not 2"):
        graph.nodes({"id": [0, 1], "op": ["a"]})
    with pytest.raises(ValueError, match="no such column: opp"):
        RecordingBuilder().graph("g").nodes({"id": [0], "opp": ["a"]})


def test_opening_reads_only_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    original = zipfile.ZipFile.open

    def spy(self: zipfile.ZipFile, name: Any, *rest: Any, **named: Any) -> Any:
        asked.append(getattr(name, "filename", name))
        return original(self, name, *rest, **named)

    data = small().finish().to_bytes()
    monkeypatch.setattr(zipfile.ZipFile, "open", spy)
    recording = Recording.open(data)
    assert asked == ["glass.json"]
    recording.stage(0, 0).nodes.pylist("op")
    assert sorted(asked) == ["g0/groups", "g0/nodes.0", "glass.json", "strings"]


def test_unknown_members_columns_and_fields_are_ignored() -> None:
    source = zipfile.ZipFile(io.BytesIO(small().finish().to_bytes()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name == "glass.json":
                head = json.loads(data)
                head["version"] = [1, 99]
                head["mood"] = {"x": [1]}
                head["graphs"][0]["stages"][0]["later"] = True
                data = json.dumps(head).encode()
            if name == "g0/kernels":
                rows, columns = decode_table(name, data, 99)
                columns["novel"] = Column("int", np.array([5]))
                data = encode_table(rows, columns)
                data = data.replace(b'"novel","type":"int"', b'"novel","type":"odd"')
                assert b'"odd"' in data
            target.writestr(name, data)
        target.writestr("g0/novelties", b"whatever")
    read = Recording.open(out.getvalue())
    assert list(read.graphs[0].table(KernelRow)) == list(
        small().finish().graphs[0].table(KernelRow)
    )
    assert read.stage(0, 1).nodes.pylist("op") == ["Input", "FusedRelu"]


def test_saving_replaces_the_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.glass"
    small().save(path)
    before = path.read_bytes()
    with Recording.open(path) as recording:
        recording.save(path)  # onto itself, while open
    assert path.read_bytes() == before

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", stop)
    with pytest.raises(KeyboardInterrupt):
        RecordingBuilder("other").save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.glass"]


def test_defaults_cost_nothing() -> None:
    made = RecordingBuilder()
    graph = made.graph("g")
    for i in range(1000):
        graph.node("Relu", inputs=[i - 1] if i else [])
    recording = made.finish()
    assert len(recording.to_bytes()) < 3000
    nodes = Recording.open(recording.to_bytes()).stage(0, 0).nodes
    assert set(nodes.array("grad_of")) == {-1}
    assert isinstance(nodes.row(-1), NodeRow)


def test_equal_columns_of_a_recording_are_held_once() -> None:
    builder = RecordingBuilder()
    for name in ("k0", "k1"):
        graph = builder.graph(name)
        for stage in range(3):
            graph.stage(f"stage {stage}")
            graph.node("relu" if name == "k1" and stage == 2 else "add", inputs=[stage])
    made = builder.finish()
    first, second = (made.member(f"g{i}/nodes.2", NodeRow) for i in range(2))
    assert first["kind"] is second["kind"]
    assert first["outputs"] is second["outputs"]
    assert first["op"] is not second["op"]
    assert [made.strings[t.array("op")[0]] for t in (first, second)] == ["add", "relu"]
    with pytest.raises(ValueError, match="read-only"):
        first.array("line")[0] = 1


def test_taking_a_row_costs_no_more_in_a_long_column() -> None:
    rows = 1_000_000
    column = Column("list<int>", np.arange(2 * rows), np.full(rows, 2))
    assert column.ends[-1] == 2 * rows  # kept: all rows are taken by it
    tracemalloc.start()
    try:
        taken = column.take(np.array([7, rows - 1]))
        assert taken.tolist([]) == [[14, 15], [2 * rows - 2, 2 * rows - 1]]
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_more_stages_than_a_file_so_small_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed they would pass for a bomb, so they are stored as they are."""
    monkeypatch.setattr(reader, "ReadLimits", lambda: ReadLimits(graphs=100))
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "graphs=100")
    made = RecordingBuilder()
    made.source("model.py", "x = x + 1\n" * 100_000)
    graph = made.graph("model")
    for _ in range(1_000):
        graph.stage("once more")
    again = Recording.open(made.finish().to_bytes())
    assert len(again.graphs[0].info.stages) == 1_000


def test_a_pipe_is_written_into_and_stays_one(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomic(pipe, b"a page")
        assert os.read(reader, 100) == b"a page"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_that_is_full_says_so(tmp_path) -> None:
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        write_atomic(link, b"a page")
    assert link.is_symlink()
