"""One file from disk: it opens without a network and survives bad and hostile data."""

from __future__ import annotations

import base64
import gzip
import io
import itertools
import re
import zipfile
from pathlib import Path

import pytest

import glasshouse as gh
from browser.recordings import chain, hostile, rich
from glasshouse.show.page import with_data, with_options


def test_opens_offline_and_asks_for_nothing(viewer) -> None:
    v = viewer(rich())
    v.see("block0")
    v.see("FusedMatmul")
    assert [u for u in v.requests if not u.startswith(("file:", "blob:", "data:"))] == []
    assert "rich" in v.page.title()


def test_first_view_and_totals(viewer) -> None:
    v = viewer(rich())
    shown = v.text(".details")
    assert "Ops\n4" in shown
    assert "Parameters\n8.19k" in shown
    assert "FusedMatmul" in shown
    assert "FLOPs" in shown
    assert "Largest tensors" in shown


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080), (1024, 600), (640, 360)])
def test_nothing_is_cut_off(viewer, size: tuple[int, int]) -> None:
    """No part of the page sticks out of the window, and no toolbar button covers another.

    The last size is that of a window of 1280x720 at 200 % zoom.
    """
    v = viewer(rich(), size=size)
    width, height = size
    assert v.page.evaluate("() => document.documentElement.scrollWidth") <= width
    boxes = []
    for e in v.page.query_selector_all(".toolbar > *, .toolbar .slot > *"):
        box = e.bounding_box()
        if box and box["width"] > 0 and "slot" not in (e.get_attribute("class") or ""):
            boxes.append(box)
    assert len(boxes) > 6
    for box in boxes:
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width + 0.5
        assert box["y"] + box["height"] <= height
    boxes.sort(key=lambda b: b["x"])
    for left, right in itertools.pairwise(boxes):
        assert left["x"] + left["width"] <= right["x"] + 1.5, (left, right)
    stage = v.page.locator(".stage").bounding_box()
    assert stage["width"] >= 0.6 * width
    if height < 600:
        return  # words at a readable size go before seeing all of them at once
    # Every drawn word of the first view lies inside the graph's part of the window.
    svg = v.page.evaluate("() => window.glasshouse.view.toSvg(false)")
    for x, y in re.findall(r'<text[^>]*? x="([\d.-]+)" y="([\d.-]+)"', svg):
        assert 0 <= float(x) <= stage["width"]
        assert 0 <= float(y) <= stage["height"]


def test_hostile_names_are_shown_and_not_run(viewer) -> None:
    v = viewer(hostile())
    v.see("<script>")
    v.key("o")
    v.page.wait_for_selector(".outline .row")
    v.pick("/window.hacked/")
    v.page.wait_for_selector(".details .section")
    shown = v.text(".details")
    assert "<script>window.hacked = 1</script>" in shown
    assert v.page.evaluate("() => window.hacked") is None
    assert v.page.query_selector("img[src=x]") is None
    v.page.click("button[title=More]")
    with v.page.expect_download() as download:
        v.page.click("text=Save view as SVG")
    svg = Path(download.value.path()).read_text(encoding="utf-8")
    assert "<script" not in svg
    v.settle()


def broken(data: bytes, tmp_path: Path) -> str:
    path = tmp_path / "broken.html"
    path.write_text(with_data(data, "broken"), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(
    "damage",
    ["empty", "random", "cut", "header", "table", "version"],
)
def test_broken_data_is_told(viewer, tmp_path: Path, damage: str) -> None:
    good = rich().to_bytes()

    def rewritten(change) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(good)) as old, zipfile.ZipFile(out, "w") as new:
            for name in old.namelist():
                new.writestr(name, change(name, old.read(name)))
        return out.getvalue()

    data = {
        "empty": b"PK",
        "random": bytes(range(256)) * 40,
        "cut": good[: len(good) // 2],
        "header": rewritten(lambda n, d: b"{" if n == "glass.json" else d),
        "table": rewritten(lambda n, d: d[: len(d) // 2] if n == "g0/nodes.0" else d),
        "version": rewritten(
            lambda n, d: d.replace(b'"version":[1', b'"version":[9') if n == "glass.json" else d
        ),
    }[damage]
    v = viewer(None)
    v.page.goto(broken(data, tmp_path))
    v.page.wait_for_selector(".problem:not([hidden])")
    told = v.text(".problem")
    assert "can't be shown" in told
    assert len(told.splitlines()) >= 2
    if damage == "version":
        assert "pip install --upgrade" in told


def test_a_page_without_data_offers_to_open_a_file(viewer, tmp_path: Path) -> None:
    path = tmp_path / "start.html"
    path.write_text(with_options({}), encoding="utf-8")
    v = viewer(None)
    v.page.goto(path.as_uri())
    v.page.wait_for_selector(".start:not([hidden])")
    assert "Select from your computer" in v.text(".start")
    glass = tmp_path / "dropped.glass"
    rich().save(glass)
    v.page.set_input_files(".start input[type=file]", str(glass))
    v.see("FusedMatmul")
    assert not v.page.is_visible(".start")


def test_a_file_can_be_dropped_on_the_page(viewer) -> None:
    v = viewer(rich())
    data = base64.b64encode(chain(40, 2).to_bytes()).decode()
    v.page.evaluate(
        """(data) => {
          const bytes = Uint8Array.from(atob(data), c => c.charCodeAt(0));
          const drop = new DataTransfer();
          drop.items.add(new File([bytes], "chain.glass"));
          window.dispatchEvent(new DragEvent("drop", {dataTransfer: drop, bubbles: true}));
        }""",
        data,
    )
    v.page.wait_for_selector(".file-name:has-text('chain')")
    v.miss("FusedMatmul")


def test_size_of_a_page(tmp_path: Path) -> None:
    """The budget: the viewer within 700 kB compressed, so a small page is far below 1.5 MB."""
    path = gh.plot_graph(rich(), tmp_path / "rich.html")
    assert path.stat().st_size < 1_500_000
    assert len(gzip.compress(path.read_bytes())) < 700_000


def test_works_at_double_zoom(viewer) -> None:
    """A window of 640x360 is what 200 % zoom leaves of 1280x720: the graph stays in reach."""
    v = viewer(rich(), size=(640, 360))
    v.see("block0")
    v.key("i")
    v.page.wait_for_selector(".details:visible")
    assert v.page.evaluate("() => document.documentElement.scrollWidth") <= 640
