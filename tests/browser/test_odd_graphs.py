"""Graphs that nobody expects: nothing in them, times that no clock gives, names of no letters."""

from __future__ import annotations

from math import inf, nan

import pytest

from browser.recordings import Maker
from glasshouse.record.schema import TimeRow


def test_an_empty_graph_says_so(viewer) -> None:
    v = viewer(Maker("nothing").finish())
    v.page.wait_for_selector("text=This graph has no nodes.")
    assert v.text(".counts") == "0 nodes · 0 edges"


@pytest.mark.parametrize(
    ("times", "legend"),
    [((nan, 1e-3, inf, -1e-3, 0, 2e-3), "3\u2009ms in all"), ((nan,) * 6, "no op has a figure")],
)
def test_times_that_no_clock_gives_are_not_measured(viewer, times, legend: str) -> None:
    m = Maker("times")
    at = m.op("Input", "x", kind="source")
    for i, seconds in enumerate(times):
        at = m.op("Relu", f"r{i}", at, path=["layer", str(i // 2)])
        m.graph.add(TimeRow("run", at, seconds))
    v = viewer(m.finish(), size=(1600, 900), color="time")
    v.page.wait_for_selector(f".legend:has-text('{legend}')")
    for word in ("NaN", "Infinity", "-1"):
        assert word not in v.text("body")
    v.key("e")
    v.see("layer.1")
    assert v.words().count("Relu") == 6


def test_names_are_one_line(viewer) -> None:
    m = Maker("names")
    at = m.op("Input", "x", kind="source")
    for name in ("one\ntwo\tthree", "bell\x07", " ", "\x00"):
        at = m.op(name, name, at, path=["part", name])
    v = viewer(m.finish())
    v.key("e")
    v.see("one two three")
    v.see("bell")
    assert not [w for w in v.words() if not w.strip()], "every box says something"
