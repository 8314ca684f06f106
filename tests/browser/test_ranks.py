"""Ranks over time: a lane for each, collectives lined up, the one that is waited for in sight."""

from __future__ import annotations

from browser.kernels import compiled
from glasshouse.distributed.ranks import RankGraph, merged
from glasshouse.record import RecordingBuilder
from glasshouse.record.schema import KernelRow

WAIT = {"target": "_c10d_functional.wait_tensor.default", "group": "0: ranks 0 1"}


def rank_graph(seconds):
    """Two linears around a collective, as one rank measured them."""
    builder = RecordingBuilder("forward")
    graph = builder.graph("forward")
    graph.stage("compiled")
    at = graph.node("Input", name="x", kind="source", outputs=["float32[4]"])
    for number, (name, attrs) in enumerate((("up", {}), ("sum", WAIT), ("down", {}))):
        at = graph.node(
            "Linear" if not attrs else "Opaque", name=name, inputs=[at], outputs=["float32[4]"],
            attrs=attrs,
        )  # fmt: skip
        graph.add(KernelRow(number, f"kernel_{name}", at, [at], "cpu", "", name))
    graph.set_io([0], [(at, 0)])
    return RankGraph("forward 0", builder.finish().to_bytes(), seconds)


def tables(v) -> None:
    v.page.click("button:has-text('Tables')")
    v.page.wait_for_selector(".drawer [role=tab]")


def test_a_straggler_is_seen_and_found(viewer) -> None:
    fast, slow = rank_graph([1e-3, 4e-3, 1e-3]), rank_graph([4e-3, 1e-3, 1e-3])
    recording, _ = merged([[fast], [slow]])
    v = viewer(recording, size=(1600, 900))
    tables(v)
    v.page.click(".drawer [role=tab]:has-text('Ranks')")
    v.page.wait_for_selector(".rank-bar")
    assert v.page.locator(".rank-name").all_inner_texts() == ["rank 0", "rank 1"]
    waits = [bar.bounding_box() for bar in v.page.locator(".rank-bar.waits").all()]
    ends = [b["x"] + b["width"] for b in waits]
    assert abs(ends[0] - ends[1]) < 1
    assert abs(waits[0]["width"] / waits[1]["width"] - 4) < 0.05
    meeting = v.page.locator(".rank-meeting").bounding_box()
    assert abs(meeting["x"] - ends[0]) < 3
    told = v.text(".drawer-part:not([hidden]) [role=status]").replace("\u2009", " ")
    assert "6 ms from the beginning" in told
    assert "for rank 1" in told
    assert "kept by kernel_up" in told

    v.page.click(".rank-bar[title^='rank 1: kernel_up, 4']")  # in the graph of the other rank
    v.page.wait_for_selector(".details dd:has-text('up')")
    v.page.wait_for_selector(".rank-bar.chosen[title^='rank 1: kernel_up']")
    assert "rank 1" in v.text(".crumbs")


def test_a_file_of_one_process_has_no_such_tab(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900))
    tables(v)
    assert v.page.locator(".drawer [role=tab]:visible").all_inner_texts() == [
        "Kernels", "Time by module", "Memory",
    ]  # fmt: skip
