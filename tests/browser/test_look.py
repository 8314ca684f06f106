"""The look of three standard graphs, held against pictures; the type and colours of the panels.

Fonts differ between machines, so the page gets letters of its own here: every letter is a block of
a fixed width. What is compared is then the drawing itself: boxes, sheets, edges, colours, where
words stand and how long they are. To take new pictures after a wanted change:
UPDATE_PIXELS=1 pytest tests/browser/test_look.py, then look at them.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from browser.kernels import compiled
from browser.recordings import chain, rich
from glasshouse.nn.models.self_attention import SelfAttention
from glasshouse.record import Recording
from glasshouse.show.subject import recording_of

PICTURES = Path(__file__).with_name("pictures")
MEAN, SHARE, MUCH = 0.04, 0.0006, 16
"""Levels of 255 on average; the share of pixels that may differ by more than MUCH levels: what
another version of the browser does to the edges of shapes, and no more."""

LETTERS = """(() => {
  const p = CanvasRenderingContext2D.prototype;
  const size = (c) => Number(/([\\d.]+)px/.exec(c.font)[1]);
  const wide = (font) => (/mono/i.test(font) ? 0.6 : /^(600|bold)/.test(font) ? 0.58 : 0.54);
  const advance = (c) => size(c) * wide(c.font);
  p.measureText = function (text) { return { width: advance(this) * [...text].length }; };
  p.fillText = function (text, x, y) {
    const step = advance(this);
    const letters = [...text];
    const high = size(this) * 0.5;
    const left = x - step * letters.length * ({ center: 0.5, right: 1 }[this.textAlign] ?? 0);
    const top = this.textBaseline === "middle" ? y - high / 2 : y - high;
    letters.forEach((letter, i) => {
      if (letter !== " ") this.fillRect(left + (i + 0.1) * step, top, step * 0.8, high);
    });
  };
})()"""

COMPARE = """async ([now, then, much, row = 0]) => {
  const read = async (data) => {
    const image = new Image();
    image.src = "data:image/png;base64," + data;
    await image.decode();
    const c = document.createElement("canvas");
    [c.width, c.height] = [image.width, image.height];
    const ctx = c.getContext("2d");
    ctx.drawImage(image, 0, 0);
    return ctx.getImageData(0, 0, c.width, c.height);
  };
  const [a, b] = [await read(now), await read(then)];
  const colors = new Set();
  let [sum, many] = [0, 0];
  for (let i = row * a.width * 4; i < a.data.length; i += 4) {
    let off = 0;
    for (let k = i; k < i + 3; k++) off = Math.max(off, Math.abs(a.data[k] - b.data[k]));
    sum += off;
    if (off > much) many++;
    if (i % 64 === 0) colors.add(a.data[i] * 65536 + a.data[i + 1] * 256 + a.data[i + 2]);
  }
  const pixels = a.data.length / 4;
  const size = (p) => `${p.width}x${p.height}`;
  return {sizes: [size(a), size(b)], colors: colors.size, mean: sum / pixels, share: many / pixels};
}"""


def attention() -> Recording:
    gh.manual_seed(0)
    x, mask = np.zeros((1, 16, 96), np.float32), np.zeros((1, 1, 1, 16), np.float32)
    return recording_of(gh.trace(SelfAttention(96, 4), x, mask))


GRAPHS = {"rich": rich, "chain": lambda: chain(200, 6), "attention": attention}


@pytest.mark.parametrize("name", GRAPHS)
def test_look(viewer, name: str) -> None:
    v = viewer(GRAPHS[name](), script=LETTERS)
    v.page.wait_for_selector(".details .section")
    v.page.evaluate("() => { document.querySelector('.over').style.visibility = 'hidden'; }")
    helper = v.page.context.new_page()  # the viewer's own page allows no foreign picture
    for theme in ("light", "dark"):
        v.page.emulate_media(color_scheme=theme)
        v.settle()
        shot = v.page.locator(".graph-canvas").screenshot()
        kept = PICTURES / f"{name}-{theme}.png"
        if os.environ.get("UPDATE_PIXELS"):
            PICTURES.mkdir(exist_ok=True)
            kept.write_bytes(shot)
        pictures = [base64.b64encode(png).decode() for png in (shot, kept.read_bytes())]
        off = helper.evaluate(COMPARE, [*pictures, MUCH])
        assert off["sizes"][0] == off["sizes"][1], "the drawing has another size"
        assert off["colors"] > 5, "the page is blank"
        assert off["mean"] < MEAN, f"{name}, {theme}: {off['mean']:.2f} levels from the picture"
        assert off["share"] < SHARE, f"{name}, {theme}: {off['share']:.2%} of pixels differ"


def test_the_small_map_leaves_no_hole_in_the_drawing(viewer) -> None:
    """Without a GPU an opaque canvas over the drawing cuts a white hole, mirrored top to bottom."""
    v = viewer(chain(200, 6))
    v.page.evaluate(
        """async () => {
          const app = window.glasshouse;
          await app.unfoldAll();
          app.view.zoomBy(2 / app.view.camera.scale);
        }"""
    )
    v.page.wait_for_selector(".minimap:visible")
    v.settle()
    ground, small = (v.page.locator(k).bounding_box() for k in (".graph-canvas", ".minimap"))
    below = ground["y"] + ground["height"] - small["y"] - small["height"]
    mirrored = {**small, "y": ground["y"] + below}
    shown = v.page.screenshot(clip=mirrored)
    v.page.evaluate("() => { document.querySelector('.minimap').style.visibility = 'hidden'; }")
    v.settle()
    assert shown == v.page.screenshot(clip=mirrored)


def test_what_search_leaves_of_a_narrow_drawing_is_drawn(viewer) -> None:
    """Without a GPU an opaque list of hits over the upper half leaves the lower half black."""
    v = viewer(compiled(), size=(390, 844), color="time")
    v.page.evaluate("() => { const { view } = window.glasshouse; view.zoomBy(1.5); }")
    v.search("")
    v.page.wait_for_selector(".palette-help")
    helper = v.page.context.new_page()
    over = v.page.locator(".palette").bounding_box()
    shots = []
    for seen in ("visible", "hidden"):
        v.page.evaluate("(s) => { document.querySelector('.palette').style.visibility = s; }", seen)
        v.settle()
        # All of the page: a part of it alone is painted apart from the rest, and always right.
        shots.append(base64.b64encode(v.page.screenshot()).decode())
    off = helper.evaluate(COMPARE, [*shots, MUCH, int(over["y"] + over["height"]) + 2])
    assert off["share"] < SHARE, off


SEEN = """() => {
  const out = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const text = walk.currentNode.data.trim();
    const e = walk.currentNode.parentElement;
    if (!text || !e.checkVisibility() || e.closest("script, style, option")) continue;
    const ground = (x) => getComputedStyle(x).backgroundColor;
    let under = e;
    while (ground(under) === "rgba(0, 0, 0, 0)") under = under.parentElement;
    const s = getComputedStyle(e);
    out.push([text, parseFloat(s.fontSize), s.color, ground(under)]);
  }
  return out;
}"""


def luminance(color: str) -> float:
    parts = [float(p) / 255 for p in color[color.index("(") + 1 : -1].split(",")[:3]]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_of_panels_can_be_read(viewer, dark: bool) -> None:
    """Nothing is smaller than 11 px, and all text stands out from its ground."""
    v = viewer(rich(), dark=dark, size=(1600, 900))
    v.pick("op:fusedmatmul")
    v.page.wait_for_selector(".details:has-text('kernel_0')")
    seen = [(text, size, color, ground) for text, size, color, ground in v.page.evaluate(SEEN)]
    assert len(seen) > 40
    for text, size, color, ground in seen:
        assert size >= 11, (text, size)
        if not color.startswith("rgb(") or not ground.startswith("rgb("):
            continue  # a mix of colours; its ground is one of the others
        low, high = sorted((luminance(color), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 4.5, (text, color, ground)
    ink, paper = v.page.evaluate(
        """() => {
          const s = getComputedStyle(document.body);
          return [s.color, s.backgroundColor];
        }"""
    )
    low, high = sorted((luminance(ink), luminance(paper)))
    assert (high + 0.05) / (low + 0.05) >= 7
