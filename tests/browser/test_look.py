"""The look of three standard graphs, held against small pictures; tolerant of fonts and machines.

A shot is shrunk to 160x90 and compared by mean and by the share of cells that differ much. To take
new pictures after a wanted change: UPDATE_PIXELS=1 pytest tests/browser/test_look.py, then look.
"""

from __future__ import annotations

import base64
import os
from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from browser.recordings import chain, rich
from glasshouse.nn.models.self_attention import SelfAttention
from glasshouse.record import Recording
from glasshouse.show.subject import recording_of

PICTURES = Path(__file__).with_name("pictures")
WIDTH, HEIGHT = 160, 90
MEAN, SHARE, MUCH = 6.0, 0.06, 40
"""Levels of 255; the share of cells that may differ by more than MUCH levels."""

SHRINK = """async ([data, width, height]) => {
  const image = new Image();
  image.src = "data:image/png;base64," + data;
  await image.decode();
  const c = document.createElement("canvas");
  c.width = width;
  c.height = height;
  const ctx = c.getContext("2d");
  ctx.imageSmoothingQuality = "high";
  ctx.drawImage(image, 0, 0, width, height);
  const pixels = [...ctx.getImageData(0, 0, width, height).data];
  return {pixels, png: c.toDataURL("image/png").split(",")[1]};
}"""


def attention() -> Recording:
    gh.manual_seed(0)
    x, mask = np.zeros((1, 16, 96), np.float32), np.zeros((1, 1, 1, 16), np.float32)
    return recording_of(gh.trace(SelfAttention(96, 4), x, mask))


GRAPHS = {"rich": rich, "chain": lambda: chain(200, 6), "attention": attention}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", GRAPHS)
def test_look(viewer, name: str, dark: bool) -> None:
    v = viewer(GRAPHS[name](), dark=dark)
    v.page.wait_for_selector(".details .section")
    v.settle()
    helper = v.page.context.new_page()
    shot = base64.b64encode(v.page.screenshot()).decode()
    now = helper.evaluate(SHRINK, [shot, WIDTH, HEIGHT])
    kept = PICTURES / f"{name}-{'dark' if dark else 'light'}.png"
    if os.environ.get("UPDATE_PIXELS"):
        PICTURES.mkdir(exist_ok=True)
        kept.write_bytes(base64.b64decode(now["png"]))
    before = base64.b64encode(kept.read_bytes()).decode()
    then = helper.evaluate(SHRINK, [before, WIDTH, HEIGHT])
    a, b = (np.array(p["pixels"], np.float64).reshape(-1, 4)[:, :3] for p in (now, then))
    off = np.abs(a - b).max(axis=1)
    assert a.std() > 3, "the page is blank"
    assert off.mean() < MEAN, f"{name}: {off.mean():.1f} levels from the picture"
    assert (off > MUCH).mean() < SHARE, f"{name}: {(off > MUCH).mean():.1%} of cells differ"
