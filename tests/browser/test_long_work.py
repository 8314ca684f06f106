"""Work that takes a while says how far it is, and can be stopped without losing the view."""

from __future__ import annotations

import re

from browser.recordings import chain

STOP_WHEN_OFFERED = """
() => new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error("Stop was never offered")), 20000);
  const look = () => {
    const stop = [...document.querySelectorAll("button")].find((b) => b.textContent === "Stop");
    if (!stop || stop.closest("[hidden]")) return requestAnimationFrame(look);
    const said = stop.parentElement.textContent;
    stop.click();
    resolve(said);
  };
  void window.glasshouse.unfoldAll();
  look();
})
"""


def test_unfolding_everything_tells_how_far_it_is_and_stops(viewer) -> None:
    v = viewer(chain(40_000, 400))
    before = v.words()
    said = v.page.evaluate(STOP_WHEN_OFFERED)
    assert re.search(r"\w+.*: [\d\s]+ of [\d\s]+Stop", said), said
    v.page.wait_for_timeout(300)
    assert not v.page.is_visible("text=Stop")
    assert v.words() == before, "the view stays as it was"
    v.pick("name:op_39999")  # and the page goes on working
    v.page.wait_for_selector(".details:has-text('op_39999')")
