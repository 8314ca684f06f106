"""The viewer's own limits, each beside what is asked: a million nodes, frames, search.

    python benchmarks/viewer/bars.py [million] [frames] [moving]

To be run on a quiet machine; the share of the processors that others used is printed. Chromium is
started as it starts where there is no GPU; every page has a process of its own.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from graphs import bert, transformer
from playwright.sync_api import Playwright, sync_playwright
from processors import machine_seconds, own_seconds

import glasshouse as gh
from glasshouse.record import Recording, RecordingBuilder

FLAGS = ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader",
         "--disable-background-networking"]  # fmt: skip
SIZE = {"width": 1440, "height": 900}
REPEATS = 3
QUERIES = ("gelu", "op:softmax in:shard.7", "/norm[12]/", "name:op_999999", "shape:768")
DRAWN = "() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(0))))"
# The seventh shard; what holds the shards is unfolded before.
UNFOLD = """async () => {
  const g = window.glasshouse;
  const [group] = (await g.engine.call("find", { text: "group:=7", limit: 1 })).items;
  if (!g.view.scene.place(group)) await g.reveal(group);
  const begin = performance.now();
  if (!(await g.setFold(group, 1, true))) throw new Error("not unfolded");
  await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
  return [performance.now() - begin, g.result.boxes];
}"""
SEARCH = """async (text) => {
  const begin = performance.now();
  const { items } = await window.glasshouse.engine.call("find", { text, limit: 50 });
  return [performance.now() - begin, items.length];
}"""
FRAMES = """async () => {
  const frames = [];
  let last = performance.now(), open = true;
  const tick = () => {
    const now = performance.now();
    frames.push(now - last);
    last = now;
    if (open) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  await window.glasshouse.flatten();
  open = false;
  await new Promise((r) => requestAnimationFrame(r));
  return [frames, window.glasshouse.result.boxes];
}"""
MOVE = """async ([zoom, count]) => {
  const { view } = window.glasshouse, times = [];
  let last = performance.now();
  for (let i = 0; i < count; i++) {
    if (zoom) view.zoomBy(i % 40 < 20 ? 1.03 : 1 / 1.03);
    else view.go(view.camera.pan(i % 40 < 20 ? 9 : -9, i % 20 < 10 ? 5 : -5), false);
    await new Promise((r) => requestAnimationFrame(r));
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  return [times, view.rendererKind, view.frames.visited];
}"""


def shards(count: int, each: int) -> Recording:
    """Groups of ops that branch and join; none has a group inside."""
    made = RecordingBuilder("shards")
    graph = made.graph("shards")
    graph.stage("traced")
    shape = "float32[1, 128, 768]"
    ops = (("Linear", "matmul"), ("Gelu", "elementwise"), ("Softmax", "reduction"))
    x = graph.node("Input", name="x", kind="source", outputs=[shape])
    for i in range(count):
        group = [graph.group_path("module", ["model", "shard", str(i)])]
        for k in range(0, each, 4):
            number = i * each + k
            arms = [
                graph.node(op, name=f"op_{number + j}", kind=kind, inputs=[x], outputs=[shape],
                           groups=group)
                for j, (op, kind) in enumerate(ops)
            ]  # fmt: skip
            x = graph.node("Add", name=f"op_{number + 3}", kind="elementwise", inputs=arms,
                           outputs=[shape], groups=group, attrs={"at": str(i)})  # fmt: skip
    graph.set_io([], [(x, 0)])
    return made.finish()


class Bars:
    """Prints what was measured beside what is asked."""

    def __init__(self, playwright: Playwright, folder: Path) -> None:
        self.folder = folder
        chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
        self.browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)

    def page(self, name: str, make: Callable[[], Recording]) -> str:
        path = self.folder / f"{name}.html"
        if not path.exists():
            gh.plot_graph(make(), path)
        return path.as_uri()

    def opened(self, url: str) -> tuple[Any, float]:
        """The page, and the seconds until its first picture."""
        page = self.browser.new_context(viewport=SIZE, reduced_motion="reduce").new_page()
        begin = time.perf_counter()
        page.goto(url, wait_until="commit")
        page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
        page.evaluate(DRAWN)
        return page, time.perf_counter() - begin

    def say(self, what: str, values: list[float], unit: str, asked: str) -> None:
        middle, low, high = statistics.median(values), min(values), max(values)
        told = f"{what:44} {middle:7.3g} {unit} ({low:.3g} to {high:.3g})"
        print(f"{told:78} asked: {asked}", flush=True)

    def million(self) -> None:
        for name, make in (
            ("a million nodes in layers", lambda: transformer(1_000_000, True)),
            ("a million nodes in 100 groups of 10,000", lambda: shards(100, 10_000)),
        ):
            url = self.page(name.replace(" ", "-"), make)
            opening: list[float] = []
            unfolding: list[float] = []
            searching: list[float] = []
            for _ in range(REPEATS):
                page, seconds = self.opened(url)
                opening.append(seconds)
                if "groups" in name:
                    ms, boxes = page.evaluate(UNFOLD)
                    assert boxes >= 10_000, boxes
                    unfolding.append(ms / 1000)
                page.wait_for_selector(".details .section", timeout=60_000)  # totals are there
                searching += [page.evaluate(SEARCH, q)[0] / 1000 for q in QUERIES]
                page.context.close()
            self.say(f"{name}: open", opening, "s", "3 s")
            if unfolding:
                self.say("  unfold a group of 10,000", unfolding, "s", "1 s")
            self.say("  search, the slowest is the last figure", searching, "s", "0.5 s")

    def frames(self) -> None:
        url = self.page("100k", lambda: transformer(100_000, True))
        worst: list[float] = []
        for _ in range(REPEATS):
            page, _seconds = self.opened(url)
            frames, boxes = page.evaluate(FRAMES)
            assert boxes > 80_000, boxes
            worst.append(max(frames))
            page.context.close()
        self.say("100,000 nodes: worst frame while laid out", worst, "ms", "150 ms")

    def moving(self) -> None:
        url = self.page("bert", bert)
        for what, zoom in (("pan", False), ("zoom", True)):
            rates: list[float] = []
            for _ in range(REPEATS):
                page, _seconds = self.opened(url)
                page.evaluate("() => window.glasshouse.unfoldAll()")
                times, _kind, _boxes = page.evaluate(MOVE, [zoom, 120])
                rates.append(1000 / statistics.mean(times[20:]))
                page.context.close()
            self.say(f"BERT unfolded: {what}", rates, "frames a second", "30")


def main() -> None:
    names = sys.argv[1:] or ["million", "frames", "moving"]
    folder = os.environ.get("BARS_PAGES")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as made:
        bars = Bars(playwright, Path(folder or made))
        for name in names:
            begin, machine, own = time.perf_counter(), machine_seconds(), own_seconds()
            getattr(bars, name)()
            passed = time.perf_counter() - begin
            others = machine_seconds() - machine - (own_seconds() - own)
            share = max(others, 0.0) / passed / (os.cpu_count() or 1)
            print(f"  others used {share:.0%} of the processors", flush=True)


if __name__ == "__main__":
    main()
