"""Files that ask for far more than they are: refused within the budget, or read in linear time."""

from __future__ import annotations

import contextlib
import json
import os
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from fuzz.bombs import BOMBS, glass, table
from glasshouse import formats
from glasshouse.errors import FormatError, GlasshouseError, LimitExceeded, Unsupported
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.budget import Budget, ReadLimits
from glasshouse.record.schema import GroupRow
from glasshouse.show.report import report


@contextmanager
def memory_below(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes << 20
    finally:
        tracemalloc.stop()


def read(name: str) -> Recording:
    file, data = BOMBS[name]()
    return formats.read(data, file)


# ---------------------------------------------------------------------------------- crafted files
def test_a_pickle_of_shared_lists_is_refused_without_printing_it() -> None:
    for name in ("pickle_of_shared_lists", "pickle_key_of_shared_tuples"):
        assert len(BOMBS[name]()[1]) < 400
        with pytest.raises(FormatError, match=r"where an id should stand|is not a number"):
            read(name)


@pytest.mark.parametrize("name", ["glass_of_rows_without_bytes", "glass_of_overlapping_members"])
def test_a_recording_has_no_more_rows_than_bytes_for_them(name: str) -> None:
    with memory_below(700), pytest.raises(LimitExceeded, match=r"rows|bytes when decoded"):
        read(name).to_bytes()


def test_rows_need_their_columns() -> None:
    data = glass({"g0/nodes.0": table(1000, [])})
    with pytest.raises(FormatError, match=r"g0/nodes\.0: 1000 rows and no column id"):
        _ = formats.read(data, "x.glass").stage(0, 0).nodes


def test_a_small_recording_does_not_decode_to_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    # A thousand rows whose lists hold a hundred million entries, each one byte in the file.
    monkeypatch.setenv("GLASSHOUSE_LIMITS", f"decoded_bytes={32 << 20}")
    rows, entries = 1000, 8_000_000
    lengths = (entries // rows).to_bytes(2, "little") * rows
    lists = {"name": "nodes", "type": "list<int>",
             "parts": [[0, 2 * rows, "i16"], [2000, entries, "i8"]]}  # fmt: skip
    data = glass({"g0/rejects": table(rows, [lists], lengths + bytes(entries))})
    assert len(data) < 20_000
    with memory_below(24), pytest.raises(LimitExceeded, match="bytes when decoded"):
        formats.read(data, "x.glass").to_bytes()


def test_a_header_of_brackets_or_stages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = glass({}, [{"name": "g", "stages": [{"name": ""}] * 30_000}])
    with pytest.raises(LimitExceeded, match="30,001 graphs and stages"):
        formats.read(data, "x.glass")
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "objects=1000")
    with pytest.raises(LimitExceeded, match="lists and objects"):
        formats.read(data, "x.glass")


LONG_NAMES = ["safetensors_of_a_long_name", "json_of_a_long_namespace", "onnx_of_a_long_name"]


@pytest.mark.parametrize("name", LONG_NAMES)
def test_a_name_of_a_hundred_thousand_parts_is_too_deep(name: str) -> None:
    if "onnx" in name:
        pytest.importorskip("onnx")
    with pytest.raises(LimitExceeded, match="levels of nesting") as caught:
        read(name)
    assert "GLASSHOUSE_LIMITS=depth=0" in caught.value.hint


@pytest.mark.parametrize("name", LONG_NAMES)
def test_a_long_name_costs_its_length(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path kept whole for each of its parts would take 400 MB here."""
    if "onnx" in name:
        pytest.importorskip("onnx")
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "depth=0")
    monkeypatch.setattr("fuzz.bombs.LONG", "a." * 10_000 + "a")
    with memory_below(100):
        groups = read(name).graphs[0].table(GroupRow)
    assert groups.rows in (10_000, 10_001)


def test_bodies_of_bodies_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.ModelProto(ir_version=8)
    model.opset_import.append(onnx.helper.make_opsetid("", 17))
    body = onnx.GraphProto(name="b")
    for _ in range(8):
        outer = onnx.GraphProto(name="b")
        node = outer.node.add(op_type="If", input=["c"], output=["y"])
        for branch in ("then_branch", "else_branch"):
            node.attribute.add(name=branch, type=5).g.CopyFrom(body)
        body = outer
    model.graph.CopyFrom(body)
    data = model.SerializeToString()
    assert len(formats.read(data, "x.onnx").graphs) == 511
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "graphs=100")
    with pytest.raises(LimitExceeded, match="graphs and stages"):
        formats.read(data, "x.onnx")


@pytest.mark.slow
def test_sixteen_nested_ifs_are_refused() -> None:
    pytest.importorskip("onnx")
    with pytest.raises(LimitExceeded, match="20,001 graphs and stages"):
        read("onnx_of_nested_ifs")


@pytest.mark.parametrize(
    "name", ["json_of_a_wide_node", "pickle_of_a_wide_op", "pte_of_a_wide_call"]
)
def test_wide_nodes_are_read(name: str) -> None:
    """Ten thousand outputs or more, each looked up among all of them."""
    nodes = read(name).graphs[0].stage(0).nodes
    assert max(map(len, nodes.pylist("outputs"))) >= 10_000


@pytest.mark.parametrize(
    "name",
    ["json_of_deep_lists", "json_of_long_integers", "json_in_utf16", "safetensors_of_nan_sizes",
     "mlir_of_brackets"],
)  # fmt: skip
def test_odd_documents_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(FormatError) as caught:
        read(name)
    assert "\n" not in caught.value.message
    assert caught.value.message.startswith(BOMBS[name]()[0])


@pytest.mark.parametrize(
    "name", ["json_of_huge_exponents", "json_of_duplicate_keys", "strings_that_break_lines"]
)
def test_odd_values_are_read_and_written(name: str) -> None:
    recording = read(name)
    recording.to_bytes()
    for format in formats.FORMATS:
        if format.writer:
            with contextlib.suppress(Unsupported):
                formats.dump(recording, format.name)
    shown = report(recording)
    assert all(c.isprintable() or c == "\n" for c in shown)


# ---------------------------------------------------------------------------------- honest files
@pytest.mark.slow
def test_six_hundred_thousand_tensors_are_read() -> None:
    entry = {"dtype": "F32", "shape": [16, 16], "data_offsets": [0, 0]}
    text = json.dumps({f"layers.{i // 9}.mlp.experts.w{i % 9}": entry for i in range(600_000)})
    data = len(text).to_bytes(8, "little") + text.encode()
    assert formats.read(data, "x.safetensors").graphs[0].stage(0).nodes.rows == 600_000


def test_a_regular_recording_is_no_bomb() -> None:
    """A million equal nodes pack to almost nothing; what we write, we read."""
    made = RecordingBuilder("regular")
    graph = made.graph("g")
    count = 2_100_000
    graph.nodes({"id": np.arange(count), "op": np.full(count, made.strings.index("Relu"))})
    again = Recording.open(made.finish().to_bytes(1))
    assert again.stage(0, 0).nodes.rows == count


# ------------------------------------------------------------------------------------- the limits
def test_limits_are_lifted_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "rows=10, depth=0")
    budget = Budget("x", 0)
    budget.within("depth", 1e12)
    budget.spend("rows", 10)
    with pytest.raises(LimitExceeded, match="x: asks for 11 rows") as caught:
        budget.spend("rows")
    assert "GLASSHOUSE_LIMITS=rows=0" in caught.value.hint
    for wrong in ("rows", "rows=many", "rows=-1", "rows=nan", "lines=3"):
        monkeypatch.setenv("GLASSHOUSE_LIMITS", wrong)
        with pytest.raises(GlasshouseError, match="is no limit"):
            Budget("x", 0)


def test_limits_grow_with_the_file() -> None:
    Budget("x", 10_000_000).spend("rows", 9_000_000)
    with pytest.raises(LimitExceeded):
        Budget("x", 1000).spend("rows", 9_000_000)


def test_reading_has_a_deadline() -> None:
    now = [0.0]
    budget = Budget("x", 0, ReadLimits(seconds=60), lambda: now[0])
    budget.place = lambda: "byte 7"
    for _ in range(10_000):
        budget.spend("names")
    now[0] = 61.0
    with pytest.raises(LimitExceeded, match="more than 60 seconds") as caught:
        all(budget.spend("names") is None for _ in range(10_000))
    assert caught.value.where == "byte 7"


# ------------------------------------------------------------------------------- names of files
def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(FormatError, match="a pipe or a device"):
            formats.read(path)
        with pytest.raises(FormatError, match="a pipe or a device"):
            Recording.open(path)


def test_a_model_to_compile_is_no_pipe_either(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from glasshouse.frontend.onnx.load import load

    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    with pytest.raises(FormatError, match="a pipe or a device"):
        load(pipe)


@pytest.mark.parametrize("name", ["a\0b.onnx", "a" * 5000, "\ud800.glass", "x" * 300 + ".json"])
def test_names_that_no_file_can_have(name: str) -> None:
    for attempt in (formats.read, formats.detect, Recording.open):
        with pytest.raises(FormatError, match="cannot be read") as caught:
            attempt(name)
        assert caught.value.message.isprintable()


def test_links_that_go_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a.json").symlink_to(tmp_path / "b.json")
    (tmp_path / "b.json").symlink_to(tmp_path / "a.json")
    with pytest.raises(FormatError, match="symbolic links"):
        formats.read(tmp_path / "a.json")


def test_what_cannot_be_written_says_so(tmp_path: Path) -> None:
    recording = read("json_of_duplicate_keys")
    for path in (tmp_path / "none" / "x.json", tmp_path / ("x" * 300 + ".json")):
        with pytest.raises(FormatError, match="cannot be written"):
            formats.write(recording, path)
    longest = tmp_path / ("x" * 250 + ".json")
    formats.write(recording, longest)
    assert formats.read(longest).graphs


def test_a_writer_meets_a_graph_that_is_not_there() -> None:
    made = RecordingBuilder("x")
    made.graph("g").node("Call", bodies=[7])
    data = made.finish().to_bytes()
    recording = formats.read(data, "x.glass")
    for format in ("onnx", "model_explorer", "text"):
        with pytest.raises(FormatError, match="a graph that does not exist"):
            formats.dump(recording, format)


def test_graphs_that_hold_each_other_are_written_once() -> None:
    """Found by mutation: two branches that are the graph itself doubled at every level."""
    pytest.importorskip("onnx")
    made = RecordingBuilder("x")
    graphs = [made.graph(f"g{i}", parent=i - 1) for i in range(3)]
    for graph in graphs:
        graph.node("If", bodies=[1, 2, 2])
    data = formats.dump(made.finish(), "onnx")
    assert len(formats.read(data, "x.onnx").graphs) == 3


@pytest.mark.parametrize("format", ["hidet", "sync"])
def test_a_recording_without_a_graph_says_so(format: str) -> None:
    with pytest.raises(FormatError, match="there is no graph in it to be written"):
        formats.dump(RecordingBuilder("rules").finish(), format)
