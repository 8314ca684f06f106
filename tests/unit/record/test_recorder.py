"""Graphs of the compiler as rows of a recording."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import Frame, GraphBuilder, Origin, Rewriter, Scope, Source
from glasshouse.record.recorder import Recorder
from glasshouse.record.schema import NEVER
from glasshouse.record.seen import kind_of
from glasshouse.record.writer import RecordingBuilder


def make():
    b = GraphBuilder("model")
    with b.at(
        Origin(Source((Scope("block", "Block"), Scope("act", "Act")), (Frame(__file__, 7),)))
    ):
        x = b.input("float32", (2, 3), "x")
        y = x.apply("exp")
    with b.at(Origin(name="head", labels=(("phase", "backward"),), grad_of=1)):
        z = y.apply("sum", axes=[1])
    return b.finish(z)


def test_rows_say_what_a_node_is_and_where_it_comes_from() -> None:
    recorder = Recorder("title")
    recorder.begin(make())
    recording = recorder.finish()
    main = recording.graphs[0]
    x, exp, total = main.stage(0).nodes
    assert (x.name, x.op, x.kind) == ("x", "Input", "source")
    assert (exp.op, exp.kind, list(exp.outputs)) == ("Exp", "elementwise", ["float32[2, 3]"])
    assert (exp.file, exp.line) == (__file__, 7)
    assert (total.name, total.kind, total.grad_of) == ("head", "reduction", 1)
    assert dict(zip(total.attr_keys, total.attr_values, strict=True)) == {"axes": "[1]"}
    groups = list(main.groups)
    inner = groups[exp.groups[0]]
    assert (inner.name, inner.cls, groups[inner.parent].name) == ("act", "Act", "block")
    assert groups[total.groups[0]].grouping == "phase"
    assert list(main.info.stages[0].output_nodes) == [total.id]
    (source,) = recording.sources
    assert source.path == __file__
    assert "def make" in source.text


def test_sources_are_left_out_on_request() -> None:
    recorder = Recorder(sources=False)
    recorder.begin(make())
    assert len(list(recorder.finish().sources)) == 0


def test_a_stage_holds_what_changed_even_if_nobody_told() -> None:
    graph = make()
    recorder = Recorder()
    recorder.begin(graph)
    recorder.open_stage("Quiet")
    node = next(n for n in graph.nodes if n.op.name == "exp")
    rw = Rewriter(graph)  # without listeners
    rw.replace(node, lambda: rw.expr(node.inputs[0]).apply("tanh").apply("tanh"), why="x")
    recorder.close_stage(graph, 0.5)
    main = recorder.finish().graphs[0]
    stage = main.stage(1)
    assert sorted(row.op for row in stage.added) == ["Sum", "Tanh", "Tanh"]
    assert [row.op for row in stage.removed if row.op != "Sum"] == ["Exp"]
    assert main.info.stages[1].seconds == 0.5
    assert {row.id for row in stage.nodes} == {n.id for n in graph.nodes}


def test_a_stage_that_is_written_late_shows_what_was_read_then() -> None:
    graph = make()
    recorder = Recorder()
    recorder.begin(graph)
    node = next(n for n in graph.nodes if n.op.name == "exp")
    rw = Rewriter(graph)
    rw.replace(node, lambda: rw.expr(node.inputs[0]).apply("tanh"), why="x")
    total = next(row for row in recorder.finish().graphs[0].stage(0).nodes if row.op == "Sum")
    assert list(total.input_nodes) == [node.id]


def test_what_is_noted_keeps_no_data_and_no_node_alive() -> None:
    inner = GraphBuilder()
    held = np.ones(2, np.float32)
    body = inner.finish(inner.input("float32", (2,)) + inner.weight(held))
    b = GraphBuilder()
    x, flag = b.input("float32", (2,)), b.input("bool", ())
    weight = np.ones(2, np.float32)
    graph = b.finish(b.apply("cond", flag, x * b.weight(weight), then=body, other=body))
    gone = [weakref.ref(a) for a in (held, weight, graph, body)]
    recorder = Recorder()
    recorder.begin(graph)
    del inner, held, body, b, x, flag, weight, graph
    gc.collect()
    assert [g() for g in gone] == [None] * len(gone)
    cond = next(r for r in recorder.finish().graphs[0].stage(0).nodes if r.op == "Cond")
    assert dict(zip(cond.attr_keys, cond.attr_values, strict=True)) == {
        "then": "graph(3)",
        "other": "graph(3)",
    }


def _recorder_of(files: Iterable[Path]) -> Recorder:
    """Of a graph with a node from each file."""
    b = GraphBuilder()
    x = b.input("float32", (2,))
    for file in files:
        with b.at(Origin(Source((), (Frame(str(file), 1),)))):
            x = x.apply("exp")
    recorder = Recorder()
    recorder.begin(b.finish(x))
    return recorder


def test_sources_are_those_of_the_end_of_the_passes(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("before")
    recorder = _recorder_of([file])
    recorder.read_sources()
    file.write_text("after")
    (source,) = recorder.finish().sources
    assert source.text == "before"


def test_sources_are_texts_and_what_is_none_is_left_out(tmp_path: Path) -> None:
    texts = {"emoji.py": "# \N{SMILING FACE WITH SUNGLASSES}\r\nx = 1\r\n", "latin.py": "# \xe9"}
    files = [tmp_path / name for name in texts]
    for file, coding in zip(files, ("utf-8", "latin-1"), strict=True):
        file.write_bytes(texts[file.name].encode(coding))
    (source,) = _recorder_of(files).finish().sources
    assert source.text == "# \N{SMILING FACE WITH SUNGLASSES}\nx = 1\n"


def test_graphs_inside_nodes_are_graphs_of_the_recording() -> None:
    inner = GraphBuilder()
    body = inner.finish(inner.input("float32", (2,)).apply("exp"))
    b = GraphBuilder()
    x, flag = b.input("float32", (2,)), b.input("bool", ())
    graph = b.finish(b.apply("cond", flag, x, then=body, other=body))
    recorder = Recorder()
    recorder.begin(graph)
    recording = recorder.finish()
    cond = next(row for row in recording.graphs[0].stage(0).nodes if row.op == "Cond")
    assert len(cond.bodies) == 2
    assert recording.graphs[0].info.parent == NEVER
    for index in cond.bodies:
        assert recording.graphs[index].info.parent == 0
        assert [row.op for row in recording.graphs[index].stage(0).nodes] == ["Input", "Exp"]
    again = recorder.finish()
    assert [g.name for g in again.graphs] == [g.name for g in recording.graphs]
    assert [row.op for row in again.graphs[cond.bodies[1]].stage(0).nodes] == ["Input", "Exp"]


def test_a_graph_that_was_closed_gets_no_more_rows() -> None:
    builder = RecordingBuilder()
    graph = builder.graph("body")
    graph.group_path("module", ["layer"])
    graph.node("Exp")
    graph.close()
    with pytest.raises(ValueError, match="'body' was closed"):
        graph.node("Tanh")
    with pytest.raises(ValueError, match="'body' was closed"):
        graph.group_path("module", ["other"])
    view = builder.finish().graphs[0]
    assert [row.op for row in view.stage(0).nodes] == ["Exp"]


def test_every_op_has_a_colour() -> None:
    b = GraphBuilder()
    x = b.input("float32", (1, 2, 4, 4))
    w = b.weight(np.ones((2, 2, 1, 1), np.float32))
    made = {
        "conv": x.apply("conv", w), "shape": x.apply("reshape", shape=(32,)),
        "move": x.apply("flip", axes=[0]), "reduction": x.apply("softmax"),
        "norm": x.apply("rms_norm"), "matmul": x @ x, "opaque": x.apply("barrier"),
    }  # fmt: skip
    for kind, expr in made.items():
        assert kind_of(expr.value.node) == kind
