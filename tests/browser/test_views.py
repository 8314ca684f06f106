"""Ways of seeing one graph: unfolded, flat, to the right, wrapped, coloured, taken back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import glasshouse as gh
from browser.recordings import chain, rich, shared_mask
from browser.test_panels import pixel


def spread(v, words: list[str]) -> tuple[list[float], list[float]]:
    """Where some words are drawn: all x, all y."""
    at = [v.places(w)[0] for w in words]
    return [p[0] for p in at], [p[1] for p in at]


def test_view_changes_are_taken_back_one_by_one(viewer) -> None:
    v = viewer(rich(), stage=0, size=(1600, 900))
    v.see("block0")
    camera = "() => window.glasshouse.view.camera.scale"
    first = v.page.evaluate(camera)
    words = v.words()
    v.key("c")
    v.miss("block0")
    _stand_still(v)
    v.page.select_option("select[aria-label='Group by']", "phase")
    v.see("forward")
    _stand_still(v)
    extent = "() => JSON.stringify(window.glasshouse.view.scene.extent())"
    down = v.page.evaluate(extent)
    v.key("t")
    v._until(lambda: v.page.evaluate(extent) != down, "the graph is not turned")
    _stand_still(v)
    v.key("Control+z")
    v._until(lambda: v.page.evaluate(extent) == down, "the graph is not turned back")
    _stand_still(v)
    v.key("Control+z")
    v.miss("forward")
    v.see("net")
    v.miss("block0")
    _stand_still(v)
    v.key("Control+z")
    v.see("block0")
    _stand_still(v)
    assert v.words() == words
    assert v.page.evaluate(camera) == pytest.approx(first)
    v.key("Control+Shift+z")
    v.miss("block0")
    v.page.click("button[title=More]")
    v.page.click(".menu >> text=Undo")
    v.see("block0")


def test_the_flow_runs_down_or_to_the_right(viewer) -> None:
    v = viewer(rich(), stage=0, size=(1600, 900))
    order = ["x", "block0", "block1", "output"]
    x, y = spread(v, order)
    assert max(y) - min(y) > 100
    v.key("t")
    v.settle()
    across_x, across_y = spread(v, order)
    assert across_x == sorted(across_x)
    assert max(across_x) - min(across_x) > max(x) - min(x)
    assert max(across_y) - min(across_y) < max(y) - min(y)
    v.page.click("button[title=More]")
    v.page.click(".menu >> text=Flow downwards")
    v.settle()
    assert spread(v, order) == (x, y)


def test_flatten_shows_all_nodes_without_groups(viewer) -> None:
    v = viewer(rich(), stage=0, size=(1600, 900))
    v.see("block0")
    v.page.click("button:has-text('Flatten')")
    v.miss("block0")
    words = v.words()
    assert [words.count(w) for w in ("Matmul", "Gelu", "Add")] == [2, 2, 2]
    v.page.click("button:has-text('Unfold all')")
    v.see("block0")
    v.page.click(".toolbar button:text-is('Fold all')")
    v.miss("Gelu")


def test_identical_layers_are_one_box_that_unfolds_to_each(viewer) -> None:
    v = viewer(shared_mask(12), size=(1600, 900))
    v.see("layer × 12")
    v.miss("layer.7")
    assert sum("× 12" in w for w in v.words()) == 1
    v.pick("class:modulelist")
    v.page.click(".details button:has-text('Unfold each')")
    for i in (0, 7, 11):
        v.see(f"layer.{i}")


def test_long_chains_wrap_to_fill_the_window(viewer) -> None:
    v = viewer(shared_mask(12), size=(1600, 900))
    v.key("e")
    v.see("layer.11")
    size = v.page.evaluate("() => window.glasshouse.view.scene.extent()")
    assert 0.7 < size["w"] / size["h"] < 4, "a strip, not a page"


def test_a_tensor_read_everywhere_is_a_named_port_with_its_edge_on_hover(viewer) -> None:
    v = viewer(shared_mask(12), size=(1600, 900))
    v.key("g")
    v.pick("name:layers.6.add")
    v.see("mask")
    ports = [p for p in v.places("mask") if 0 < p[0] < 1000 and 80 < p[1] < 700]
    assert ports, "the port stands beside the op that reads it"
    assert any("f32[1,1,8,8]" in w for w in v.words())
    v.key("Escape")
    v.settle()
    stage = v.page.locator(".graph-canvas").bounding_box()
    curves = "() => window.glasshouse.view.toSvg(false).split('<path').length"
    v.page.mouse.move(stage["x"] + 5, stage["y"] + 300)
    v.settle()
    before = v.page.evaluate(curves)
    v.page.mouse.move(stage["x"] + ports[0][0], stage["y"] + ports[0][1])
    v._until(lambda: v.page.evaluate(curves) > before, "no edge is drawn to the port")


def _stand_still(v) -> None:
    """Until the camera has come to rest."""
    camera = "() => JSON.stringify(window.glasshouse.view.camera)"

    def rests() -> bool:
        before = v.page.evaluate(camera)
        v.page.wait_for_timeout(100)
        return bool(v.page.evaluate(camera) == before)

    v._until(rests, "the camera keeps moving")


def test_the_minimap_shows_where_one_is_and_goes_there(viewer) -> None:
    v = viewer(chain(3000, 30))
    view = "window.glasshouse.view"
    extent = f"() => JSON.stringify({view}.scene.extent())"
    folded = v.page.evaluate(extent)
    v.key("e")
    v._until(lambda: v.page.evaluate(extent) != folded, "nothing has been unfolded")
    _stand_still(v)
    for _ in range(8):
        v.key("+")
    _stand_still(v)
    frame = v.page.locator(".minimap-frame").bounding_box()
    whole = v.page.locator(".minimap").bounding_box()
    assert frame["width"] < whole["width"]
    before = v.page.evaluate("() => window.glasshouse.view.camera.x")
    v.page.mouse.click(whole["x"] + whole["width"] * 0.25, whole["y"] + whole["height"] * 0.6)
    v.settle()
    assert v.page.evaluate("() => window.glasshouse.view.camera.x") != before
    v.key("f")
    v.settle()


NO_GPU = """(() => {
  const own = HTMLCanvasElement.prototype.getContext;
  HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
    return kind.startsWith("webgl") ? null : own.call(this, kind, ...rest);
  };
})()"""


def test_without_webgl_a_plain_canvas_draws_the_same(viewer) -> None:
    v = viewer(rich(), script=NO_GPU)
    assert v.page.evaluate("() => window.glasshouse.view.rendererKind") == "canvas2d"
    v.see("FusedMatmul")
    assert pixel(v, "Add") == (255, 0, 255), "the rule in the file colours Add"
    v.key("c")
    v.miss("FusedMatmul")


def test_a_rule_colours_unfolded_groups(viewer) -> None:
    rule = {
        "queries": [{"type": "query", "query": "class:block"}],
        "styles": {"node_bg_color": "#00ff00"},
    }
    plain = pixel(viewer(rich()), "block0")
    red, green, blue = pixel(viewer(rich(), rules=[rule]), "block0")
    assert green > red + 30
    assert green > blue + 30
    assert abs(plain[0] - plain[1]) < 10


def test_rules_of_a_file_are_applied_by_the_command(viewer, tmp_path: Path) -> None:
    rules, model, page = (tmp_path / n for n in ("my.rules.json", "rich.glass", "page.html"))
    rule = {
        "queries": [{"type": "query", "query": "op:fusedmatmul"}],
        "styles": {"node_bg_color": "#00ff00"},
    }
    rules.write_text(json.dumps([rule]), encoding="utf-8")
    rich().save(model)
    command = [sys.executable, "-m", "glasshouse", "html", str(model), "-o", str(page)]
    subprocess.run([*command, "--rules", str(rules), "--theme", "dark"], check=True)
    v = viewer(None)
    v.goto(page.as_uri())
    v.see("FusedMatmul")
    assert v.page.evaluate("() => document.documentElement.dataset.theme") == "dark"
    assert pixel(v, "FusedMatmul") == (0, 255, 0)


def test_unfolding_glides_and_keeps_its_place(viewer) -> None:
    v = viewer(rich(), stage=0, size=(1600, 900), motion="no-preference")
    v.key("c")
    v.miss("block0")
    v.pick("class:net")
    v.page.wait_for_timeout(300)
    at = v.places("net")[0]
    v.key("Enter")
    v.see("block0")
    v.page.wait_for_timeout(400)
    now = min(v.places("net"), key=lambda p: abs(p[0] - at[0]) + abs(p[1] - at[1]))
    assert abs(now[0] - at[0]) + abs(now[1] - at[1]) < 40


def test_data_from_python_colours_the_page(viewer, tmp_path: Path) -> None:
    graph = gh.trace(lambda x: gh.relu(x) + 1.0, gh.spec([2, 3]))
    heat = {n.id: 5.0 * i for i, n in enumerate(graph.nodes)}
    v = viewer(None)
    path = gh.plot_graph(graph, tmp_path / "heat.html", data={"heat": heat}, color="data:heat")
    v.goto(path.as_uri())
    v.page.wait_for_selector(".legend:has-text('heat')")
