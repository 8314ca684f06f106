"""The first ten seconds: a page opens on the slowest kernel, its code and line, with a hint."""

from __future__ import annotations

from browser.kernels import SLOW, compiled
from glasshouse.cli.demo_bert import START


def test_the_demo_opens_on_the_slowest_kernel(viewer) -> None:
    v = viewer(compiled(), size=(1440, 900), **START)
    v.page.wait_for_selector(f".details h2:has-text('layer.{SLOW} up + gelu')")
    shown = v.text(".details")
    assert "demo/model.py:5" in shown
    assert f"void k{2 * SLOW}()" in shown
    assert v.page.input_value("select[aria-label='Colour by']") == "time"
    assert "Press [ and ]" in v.text(".hint")
    v.page.click(".hint button")
    v.page.wait_for_selector(".hint", state="detached")
    v.key("[")
    v.page.wait_for_selector(".stage-tab[aria-selected=true]:not(:has-text('FuseOperator'))")
