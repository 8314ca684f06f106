"""Nothing overlaps at any width, idle passes fold, search is docked, repairs are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from browser.kernels import LAYERS, SLOW, compiled

# Visible things of a bar, as boxes; what lies inside of another of them is part of it.
BOXES = """(selector) => [...document.querySelectorAll(selector)].filter(e => e.checkVisibility())
  .map(e => { const r = e.getBoundingClientRect();
              const name = e.innerText || e.ariaLabel || e.className;
              return [name, r.left, r.top, r.right, r.bottom]; })
  .filter(b => b[3] > b[1])"""


@pytest.mark.parametrize("width", [390, 768, 1024, 1180, 1280, 1440, 2560])
def test_nothing_in_a_toolbar_overlaps(viewer, width: int) -> None:
    v = viewer(compiled(), size=(width, 720), color="time")
    v.settle()
    assert_nothing_overlaps(v, width)


@pytest.mark.parametrize("width", [390, 1181, 1280, 1600])
def test_nothing_overlaps_beside_long_names_of_two_files(viewer, width: int) -> None:
    names = [f"A decoder of twelve layers ({where} 2.13.0)" for where in ("glasshouse", "inductor")]
    v = viewer([compiled(n) for n in names], size=(width, 720), compare=True, color="time")
    v.settle()
    assert_nothing_overlaps(v, width)


def assert_nothing_overlaps(v, width: int) -> None:
    for name, left, _, right, _ in v.page.evaluate(BOXES, ".toolbar select"):
        assert right - left >= 40, f"{name!r} is too narrow to read or hit: {right - left}"
    for bar in (".toolbar > *, .toolbar > .slot > *", ".passes > *"):
        boxes = v.page.evaluate(BOXES, bar)
        boxes = [b for b in boxes if not str(b[0]).startswith(("spring", "slot"))]
        slots = v.page.evaluate(BOXES, ".toolbar > .slot")
        boxes = [b for b in boxes if b not in slots]
        for name, left, _, right, _ in boxes:
            assert left >= -0.5, (name, left)
            assert right <= width + 0.5, (name, right)
        for i, a in enumerate(boxes):
            for b in boxes[i + 1 :]:
                apart = a[3] <= b[1] + 1 or b[3] <= a[1] + 1 or a[4] <= b[2] or b[4] <= a[2]
                assert apart, (a, b)


# Where the drawing begins and ends on the page, and what floats over it.
FLOATING = """() => { const { view } = window.glasshouse;
  const top = document.querySelector("main.stage").getBoundingClientRect().top;
  const box = (s) => document.querySelector(s).getBoundingClientRect();
  return { from: top + view.camera.y,
           to: top + view.camera.y + view.scene.extent().h * view.camera.scale,
           crumbs: box(".crumbs").bottom, legend: box(".legend").top }; }"""


def test_nothing_floats_over_the_drawing_of_a_narrow_window(viewer) -> None:
    v = viewer(compiled(), size=(390, 720), color="time")
    v.key("ArrowDown")
    v.page.wait_for_selector(".crumbs")
    v.key("f")
    v.settle()
    at = v.page.evaluate(FLOATING)
    assert at["crumbs"] <= at["from"] + 1, at
    assert at["to"] <= at["legend"] + 1, at


def test_passes_without_changes_are_one_sign(viewer) -> None:
    v = viewer(compiled(), size=(1440, 900))
    v.page.wait_for_selector(".stage-tab.gap")
    assert v.page.get_attribute(".stage-tab.gap", "aria-label") == (
        "1 pass without changes: Nothing"
    )
    assert v.page.locator(".stage-tab:has-text('Nothing')").count() == 0
    v.page.click(".stage-tab.gap")
    v.page.wait_for_selector(".stage-tab:has-text('Nothing')")


def test_search_is_docked_sorted_and_names_what_it_does_not_know(viewer) -> None:
    v = viewer(compiled(), size=(1440, 900))
    v.search("time>1us op:Fused")
    v.page.wait_for_selector(f".palette-told:has-text('{LAYERS} of')")
    assert "Time, largest first" in v.text(".palette-told")
    v.page.wait_for_selector(".palette .hit")
    first = v.text(".palette .hit >> nth=0").replace("\u2009", " ")
    assert "1 ms" in first
    v.key("Enter")
    v.page.wait_for_selector(f".details h2:has-text('layer.{SLOW}')")
    box = v.page.locator(".palette").bounding_box()
    stage = v.page.locator("main.stage").bounding_box()
    assert (box["x"], box["height"]) == (stage["x"], stage["height"])
    at = v.page.evaluate(
        """() => { const v = window.glasshouse.view, p = v.scene.place(window.glasshouse.selected);
                   return v.camera.x + p.x * v.camera.scale; }"""
    )
    assert at >= box["width"], "what is gone to stands clear of the list"
    v.page.fill(".palette-input", "wrong:3")
    v.page.wait_for_selector(".palette-told.trouble:has-text('No node has an attribute \"wrong\"')")
    v.page.fill(".palette-input", "wrong>3")
    v.page.wait_for_selector(".palette-told.trouble:has-text('It has time, limit, error')")


def test_repairs_are_told_in_the_page(viewer, tmp_path: Path) -> None:
    def node(id: str, *reads: str) -> dict[str, object]:
        edges = [{"sourceNodeId": r} for r in reads]
        return {"id": id, "label": f"op{id}", "namespace": "", "incomingEdges": edges}

    nodes = [node("1", "2"), node("1"), node("2", "1", "77")]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps({"graphs": [{"id": "g", "nodes": nodes}]}))
    v = viewer(str(path), size=(1440, 900))
    v.page.wait_for_selector(".notice:visible")
    told = v.text(".notice")
    assert "1 node(s) with the id of another" in told
    assert "1 edge(s) from a node that the file does not have" in told
    assert "1 edge closes a cycle" in told
    v.page.click(".notice button:has-text('cycle')")
    v.page.wait_for_function("() => window.glasshouse.selected >= 0")
