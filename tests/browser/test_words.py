"""No word lies on another at any zoom; long names and paths lose their beginning, not their end."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from browser.kernels import LAYERS, compiled
from browser.recordings import Maker, rich, shared_mask
from browser.test_drawing import ZOOM
from glasshouse.nn.models.self_attention import SelfAttention
from glasshouse.record import Recording
from glasshouse.show.subject import recording_of


def attention() -> Recording:
    x, mask = np.zeros((1, 16, 96), np.float32), np.zeros((1, 1, 1, 16), np.float32)
    return recording_of(gh.trace(SelfAttention(96, 4), x, mask))


GRAPHS = {"rich": rich, "compiled": compiled, "mask": lambda: shared_mask(6), "qkv": attention}


def attribute(mark: str, name: str) -> float:
    return float(re.search(rf' {name}="([\d.-]+)"', mark)[1])


def word_boxes(v: Any) -> list[tuple[float, float, float, float, str]]:
    """Left, top, right, bottom of the letters of every word that is drawn and not painted over."""
    v.settle()
    svg = v.page.evaluate("() => window.glasshouse.view.toSvg(false)")
    words: list[list[Any]] = []
    for mark in re.findall(r"<text [^>]*>[^<]*</text>|<rect [^>]*>", svg):
        if mark.startswith("<rect"):
            if "%" in mark or "fill-opacity" in mark or "url(" in mark or 'fill="none"' in mark:
                continue
            x, y, w, h = (attribute(mark, name) for name in ("x", "y", "width", "height"))
            words = [t for t in words if not (x <= t[1] <= x + w and y <= t[2] <= y + h)]
            continue
        face = "mono" if "monospace" in mark else "bold" if "font-weight" in mark else "sans"
        anchor = 0.5 if '"middle"' in mark else 1.0 if '"end"' in mark else 0.0
        at = [attribute(mark, name) for name in ("x", "y", "font-size")]
        words.append([unescape(re.sub("<[^>]*>", "", mark)), *at, face, anchor])
    wide = v.page.evaluate(
        """all => { const { builder } = window.glasshouse.view;
                   return all.map(([t, , , px, face]) => builder.textWidth(t, px, face)); }""",
        words,
    )
    out = []
    for (text, x, y, size, _, anchor), w in zip(words, wide, strict=True):
        left = x - anchor * w
        out.append((left, y - 0.35 * size, left + w, y + 0.35 * size, text))
    return out


@pytest.mark.parametrize("name", GRAPHS)
def test_no_word_lies_on_another(viewer, name: str) -> None:
    v = viewer(GRAPHS[name](), color="time")
    v.key("e")
    v.settle()
    for scale in (0.45, 0.8, 1.5, 3.0):
        v.page.evaluate(ZOOM, scale)
        words = sorted(word_boxes(v))
        assert words
        for i, a in enumerate(words):
            for b in words[i + 1 :]:
                if b[0] >= a[2] - 1:
                    break
                assert b[1] >= a[3] or b[3] <= a[1], (scale, a, b)


def deep() -> Recording:
    """Kernels under a path that no column has room for."""
    m = Maker("deep")
    at = m.op("Input", "x", kind="source")
    path = [f"a_long_name_of_module_{k}" for k in range(5)]
    for name in ("query", "key"):
        at = m.op("Linear", name, at, kind="matmul", path=[*path, name])
    return m.finish()


def test_paths_are_cut_from_the_left(viewer) -> None:
    v = viewer(deep(), size=(1600, 900))
    v.key("k")
    v.page.wait_for_selector("table.kernels tbody tr")
    paths = v.page.locator("table.kernels tbody tr td:nth-child(2)").all_inner_texts()
    assert len(paths) == 2
    for path in paths:
        assert path.startswith("…"), path
        assert re.search("a_long_name_of_module_4(.query|.key)?$", path), path


def test_the_op_list_explains_itself(viewer) -> None:
    v = viewer(compiled(), size=(1600, 900))
    v.page.click(".details button:has-text('Matmul, fused with others')")
    v.page.wait_for_selector(f".palette-told:has-text('{LAYERS} of')")
