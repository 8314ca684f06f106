"""Taking things away and coming back: pictures, JSON, links, themes, two panes, the server."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import glasshouse as gh
from browser.recordings import chain, rich, sibling
from glasshouse.show.notebook import inline
from glasshouse.show.server import Server
from glasshouse.show.subject import recording_of


def saved(v, command: str) -> bytes:
    v.page.click("button[title=More]")
    with v.page.expect_download() as download:
        v.page.click(f".menu >> text={command}")
    return Path(download.value.path()).read_bytes()


def test_pictures_and_json(viewer) -> None:
    v = viewer(rich())
    v.see("FusedMatmul")
    part = ElementTree.fromstring(saved(v, "Save view as SVG").decode())
    whole = ElementTree.fromstring(saved(v, "Save whole graph as SVG").decode())
    for tree in (part, whole):
        texts = [t.text or "" for t in tree.iter("{http://www.w3.org/2000/svg}text")]
        assert "FusedMatmul" in texts
    png = saved(v, "Save whole graph as PNG")
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 300
    assert height > 300
    assert saved(v, "Save view as PNG")[:4] == b"\x89PNG"
    graph = json.loads(saved(v, "Save graph as JSON"))
    assert [n["op"] for n in graph["nodes"]].count("FusedMatmul") == 2
    assert graph["stage"] == "FuseOperator"


def test_a_place_is_a_link(viewer, tmp_path: Path) -> None:
    v = viewer(rich())
    v.key("[")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('traced')")
    v.pick("op:gelu in:block1")
    v.page.select_option("select[aria-label='Colour by']", "bytes")
    v.page.wait_for_selector(".legend:not([hidden])")
    v.page.click("button[title=More]")
    v.page.click(".menu >> text=Copy link")
    v.page.wait_for_selector(".toast:has-text('link')")
    link = v.page.evaluate("() => location.href")
    assert "#g=0" in link
    other = viewer(None)
    other.goto(link)
    other.page.wait_for_selector(".stage-tab[aria-selected=true]:has-text('traced')")
    other.page.wait_for_selector(".details h2:has-text('Gelu')")
    other.page.wait_for_selector(".crumbs:has-text('block1')")
    other.page.wait_for_selector(".legend:has-text('Bytes')")
    here, there = (x.page.evaluate("() => window.glasshouse.view.camera") for x in (v, other))
    assert abs(here["x"] - there["x"]) < 2
    assert abs(here["scale"] - there["scale"]) < 0.01


def test_light_and_dark(viewer) -> None:
    for dark in (False, True):
        v = viewer(rich(), dark=dark)
        theme = v.page.evaluate("() => document.documentElement.dataset.theme")
        assert theme == ("dark" if dark else "light")
        paper = v.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        v.page.click("button[title='Light or dark']")
        assert paper != v.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        # What was chosen stays, whatever the system says later.
        v.page.emulate_media(color_scheme="light" if dark else "dark")
        v.page.emulate_media(color_scheme="dark" if dark else "light")
        assert v.page.evaluate("() => document.documentElement.dataset.theme") != theme
    # What the page's maker asked for goes before what the system says.
    v = viewer(rich(), theme="dark", color="time")
    assert v.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    v.page.wait_for_selector(".legend:has-text('Time')")


def test_two_panes_of_stages_in_step(viewer) -> None:
    v = viewer(rich(), size=(1920, 1080))
    v.key("s")
    v.page.wait_for_selector(".pane-bar:has-text('only left')")
    bar = v.text(".left-bar")
    assert "4 only left" in bar
    assert "2 only right" in bar
    v.see("− Gelu")
    v.pick("op:gelu in:block0")
    v.page.wait_for_timeout(50)
    # The right pane selects what the node became, and moves along.
    cameras = """() => { const c = window.glasshouse.view.camera; return [c.x, c.y, c.scale]; }"""
    before = v.page.screenshot(clip=right_half(v))
    v.page.mouse.move(400, 500)
    v.page.mouse.wheel(0, 240)
    v.settle()
    assert v.page.screenshot(clip=right_half(v)) != before
    assert v.page.evaluate(cameras)
    v.page.click("text=Close")
    v.page.wait_for_selector(".pane", state="detached")
    v.miss("− Gelu")


def right_half(v) -> dict[str, float]:
    box = v.page.locator(".pane").bounding_box()
    return {"x": box["x"] + 4, "y": box["y"] + 40, "width": box["width"] - 8, "height": 500}


def test_two_panes_of_two_graphs(viewer) -> None:
    v = viewer(recording_of([rich(), sibling()]), size=(1600, 900), graph=2, compare=True)
    v.page.wait_for_selector(".pane-bar:has-text('only')")
    assert v.page.locator("select[aria-label='Right graph']").is_visible()


def test_recordings_from_a_server(viewer, tmp_path: Path) -> None:
    with Server() as server:
        one = server.add(rich(), "one")
        server.add(chain(40, 2), "two")
        v = viewer(None, offline=False, url=server.url(one.id))
        v.see("FusedMatmul")
        hosts = {u.split("/")[2] for u in v.requests if u.startswith("http")}
        assert hosts == {f"127.0.0.1:{server.port}"}
        v.page.select_option("select[aria-label=File]", label="two")
        v.page.wait_for_selector(".file-name:has-text('chain')")
        v.miss("FusedMatmul")
        # A file of another format is converted by the server.
        model = tmp_path / "model.json"
        nodes = [{"id": "a", "label": "special_op", "namespace": ""}]
        model.write_text(json.dumps([{"id": "g", "nodes": nodes}]), encoding="utf-8")
        v.page.set_input_files(".start input[type=file]", str(model))
        v.see("special_op")


def test_start_page_of_a_server_and_a_bad_file(viewer, tmp_path: Path) -> None:
    with Server() as server:
        v = viewer(None, offline=False, url=server.url())
        v.page.wait_for_selector(".start:not([hidden])")
        bad = tmp_path / "bad.onnx"
        bad.write_bytes(b"nothing of the kind")
        v.page.set_input_files(".start input[type=file]", str(bad))
        v.page.wait_for_selector(".start .trouble:has-text('bad.onnx')")
        v.errors[:] = [e for e in v.errors if "422" not in e]  # the browser's own note of it
        good = tmp_path / "good.glass"
        rich().save(good)
        v.page.set_input_files(".start input[type=file]", str(good))
        v.see("FusedMatmul")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("noise.pt2", bytes(range(256)) * 9, "ZIP archive"),
        ("cut.json", b'{"graphs": [{"id": "g", "nodes": [{"id": "a", "la', "cut off"),
        ("cut.onnx", b"\x08\x07\x12\x05torch:\xff\xff\x03\x0a", "cut off"),
    ],
    ids=["pt2", "json", "onnx"],
)
def test_a_file_that_is_none_is_told_in_plain_words(
    viewer, tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    bad = tmp_path / name
    bad.write_bytes(data)
    with Server() as server:
        v = viewer(None, offline=False, url=server.url())
        v.page.set_input_files(".start input[type=file]", str(bad))
        v.page.wait_for_selector(".start .trouble")
        told = v.text(".start .trouble")
        v.errors[:] = [e for e in v.errors if "422" not in e]  # the browser's own note of it
    assert name in told
    assert said in told, told
    for word in ("Traceback", "Error(", "0x", "NoneType"):
        assert word not in told


def test_recent_files_are_those_of_this_session(viewer, tmp_path: Path) -> None:
    with Server() as server:
        server.add(rich(), "one.glass")
        server.add(chain(40, 2), "two.onnx")
        v = viewer(None, offline=False, url=server.url())
        assert v.text(".recent").split("\n") == ["Recent files", "two.onnx", "one.glass"]
        v.page.click(".recent >> text=one.glass")
        v.see("FusedMatmul")
        # A file that was dropped on the page is there, too; and there is a way back.
        own = tmp_path / "own.glass"
        sibling().save(own)
        v.page.set_input_files(".start input[type=file]", str(own))
        v.see("Tanh")
        v.page.click("button[title=More]")
        v.page.click(".menu >> text=Open a file")
        assert v.text(".recent").split("\n")[1] == "own.glass"
        v.key("Escape")
        v.page.wait_for_selector(".start", state="hidden")
        v.page.click("button[title=More]")
        v.page.click(".menu >> text=Open a file")
        v.page.click(".recent >> text=two.onnx")
        v.page.wait_for_selector(".file-name:has-text('chain')")
        assert all("own.glass" not in u for u in v.requests), "it was not sent anywhere"


def test_inside_a_notebook_cell(viewer, tmp_path: Path) -> None:
    cell = tmp_path / "notebook.html"
    cell.write_text(f"<!doctype html><body>{inline(rich(), height=500)}</body>", encoding="utf-8")
    v = viewer(None)
    v.page.goto(cell.as_uri())
    frame = v.page.frame_locator("iframe")
    frame.locator("html[data-ready]").wait_for(state="attached", timeout=30000)
    frame.locator(".details:has-text('FusedMatmul')").wait_for(timeout=30000)


def test_optimised_models_show_their_passes(viewer) -> None:
    """The real thing: a traced and optimised model, from Python to the page."""

    graph = gh.trace(
        lambda x, w: gh.relu(x @ w) + 1.0, np.ones((4, 8), np.float32), np.ones((8, 8), np.float32)
    )
    with gh.PassContext() as ctx:
        watched = ctx.record()
        gh.optimize(graph)
    v = viewer(recording_of(watched))
    v.page.wait_for_selector(".stage-tab:has-text('FuseOperator')")
    v.see("matmul + relu + add")
    v.pick("is:fused")
    v.page.wait_for_selector(".details:has-text('test_sharing.py')")
