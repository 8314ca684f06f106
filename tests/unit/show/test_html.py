"""What a page holds: the recording itself, nothing from the network, names only as text."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import glasshouse as gh
from glasshouse.cli import main
from glasshouse.errors import FormatError, GlasshouseError, Unsupported
from glasshouse.record import Recording
from glasshouse.record.schema import DataRow
from glasshouse.show import page as page_module
from glasshouse.show.styling import rule
from glasshouse.show.subject import recording_of

Make = Callable[..., Recording]


def embedded(path: Path) -> Recording:
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="text/plain" id="glass-data">([^<]*)</script>', text)
    assert found, "the page holds no recording"
    return Recording.open(base64.b64decode(found[1]))


def test_page_holds_the_recording(tmp_path: Path, recording: Make) -> None:
    path = gh.plot_graph(recording(), tmp_path / "out.html")
    assert embedded(path).graphs[0].stage(0).nodes.pylist("op") == ["Input", "Relu"]
    assert "<title>tiny – Glasshouse</title>" in path.read_text(encoding="utf-8")


def test_graph_and_what_carries_a_recording(tmp_path: Path, recording: Make) -> None:
    graph = gh.trace(lambda x: gh.relu(x) + 1, np.zeros(3, np.float32))
    ops = recording_of(graph).graphs[0].stage(0).nodes.pylist("op")
    assert "Relu" in ops
    assert recording_of(SimpleNamespace(graph=graph)).graphs[0].stage(0).nodes.rows == len(ops)
    kept = recording()
    assert recording_of(SimpleNamespace(recording=kept)) is kept
    with gh.PassContext() as ctx:
        watched = ctx.record()
        gh.optimize(graph)
    assert recording_of(watched) is watched.recording


def test_the_page_of_an_aitemplate_script(tmp_path: Path) -> None:
    from glasshouse.compat.aitemplate.compiler.transform import toposort
    from glasshouse.compat.aitemplate.frontend import Tensor
    from glasshouse.compat.aitemplate.utils.visualization import plot_graph

    x = Tensor(shape=[2, 3], name="X", dtype="float32", is_input=True)
    y = gh.relu(x)
    for shown in (y, [y], toposort(y)):
        plot_graph(shown, file_path=tmp_path / "graph.html", network_name="small")
        held = embedded(tmp_path / "graph.html")
        assert held.graphs[0].stage(0).nodes.pylist("op") == ["Input", "Relu"]
        assert "<title>small" in (tmp_path / "graph.html").read_text(encoding="utf-8")


def test_names_stay_text(tmp_path: Path, recording: Make) -> None:
    hostile = '</script><script>alert(1)</script><title>"&'
    path = gh.plot_graph(recording(hostile), tmp_path / "out.html", hint=hostile)
    text = path.read_text(encoding="utf-8")
    assert "<script>alert(1)" not in text
    assert text.count("</script>") == 2  # data and options
    assert embedded(path).header.title == hostile


def test_rules_and_data_from_python(tmp_path: Path, recording: Make) -> None:
    path = gh.plot_graph(
        recording(),
        tmp_path / "out.html",
        rules=[rule("op:relu", fill="#ffd")],
        data={"heat": {"act": 3.5, 0: 1}},
    )
    shown = embedded(path)
    (style,) = shown.styles
    assert style.kind == "rule"
    assert "op:relu" in style.json
    rows = {(r.name, r.node, r.number) for r in shown.graphs[0].table(DataRow)}
    assert rows == {("heat", 1, 3.5), ("heat", 0, 1.0)}
    with pytest.raises(FormatError, match="'nobody'"):
        gh.plot_graph(recording(), tmp_path / "no.html", data={"heat": {"nobody": 1}})
    assert not (tmp_path / "no.html").exists()


def test_several_recordings_become_one(tmp_path: Path, recording: Make) -> None:
    one, two = recording("one"), recording("two")
    joined = recording_of([one, two])
    assert [g.name for g in joined.graphs] == ["one: tiny", "two: tiny"]
    for view in joined.graphs:
        assert view.stage(0).nodes.pylist("name") == ["x", "act"]
        assert view.stage(0).nodes.pylist("input_nodes") == [[], [0]]


def test_command_writes_a_page_and_lays_data_over_it(
    tmp_path: Path, recording: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    recording().save(tmp_path / "tiny.glass")
    data = tmp_path / "heat.json"
    data.write_text('{"tiny": {"name": "heat", "results": {"act": {"value": 2}}}}')
    out = tmp_path / "tiny.html"
    assert main(["html", str(tmp_path / "tiny.glass"), str(data), "-o", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    assert [r.number for r in embedded(out).graphs[0].table(DataRow)] == [2.0]


def test_what_cannot_be_shown_says_what_can(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="trace"):
        gh.plot_graph(object(), tmp_path / "out.html")
    with pytest.raises(FormatError, match=r"missing\.glass"):
        gh.plot_graph(tmp_path / "missing.glass", tmp_path / "out.html")


def test_without_a_built_viewer_the_message_says_how(
    tmp_path: Path, recording: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "TEMPLATE", tmp_path / "none.html")
    with pytest.raises(GlasshouseError, match="make viewer"):
        gh.plot_graph(recording(), tmp_path / "out.html")
