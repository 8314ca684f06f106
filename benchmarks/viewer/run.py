"""How the viewer is compared with its peers: same graphs, fresh browsers, taken in turns.

    python benchmarks/viewer/run.py [--quick] [-g GRAPHS] [-s SYSTEMS] [--repeats 3] [--out FILE]

Peers are optional; `PEERS_PYTHON=/path/to/python` names an environment that has netron and
ai-edge-model-explorer. Times are medians of wall seconds until the picture stands (watch.py says
when that is), with the spread, and processor seconds in brackets. A ~ marks what was measured while
others used more than 5 % of the processors: there only processor seconds and ratios say something.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import shutil
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from graphs import GRAPHS, Files, write
from measures import Measures, single_figures, table
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import async_playwright
from processors import machine_seconds, own_seconds
from systems import SYSTEMS, System
from watch import Failed, Tab

from glasshouse.show.page import TEMPLATE

CORES = os.cpu_count() or 1


@asynccontextmanager
async def quiet(noise: list[float]) -> Any:
    """Notes the share of the processors that others used meanwhile."""
    begin, machine, own = time.perf_counter(), machine_seconds(), own_seconds()
    yield
    passed = time.perf_counter() - begin
    others = machine_seconds() - machine - (own_seconds() - own)
    noise.append(max(others, 0.0) / passed / CORES)


class Run:
    """One run over graphs and systems; what it measures stands in `measures`."""

    def __init__(self, playwright: Any, chromium: str, options: argparse.Namespace) -> None:
        self.playwright, self.chromium, self.options = playwright, chromium, options
        self.measures = Measures()

    async def graph(self, name: str, systems: list[System], files: Files) -> None:
        """Opens, unfolds and flattens in every system; those that failed are not tried again."""
        tried = [s for s in systems if s.name == "glasshouse" or s.name in GRAPHS[name].peers]
        steps = [("unfold", "unfold"), ("flatten", "flat")] if name != "1m" else [("unfold", "")]
        for repeat in range(self.options.repeats):
            order = list(tried)
            random.Random(repeat).shuffle(order)
            for system in order:
                for what, button in steps:
                    if self.measures.has_failed(name, system.name, "open"):
                        break
                    if button and not getattr(system, button) and what != "unfold":
                        continue
                    await self._visit(name, system, files, what, getattr(system, button or "flat"))

    async def _visit(
        self, name: str, system: System, files: Files, what: str, selector: str | None
    ) -> None:
        limit, noise = self.options.limit, list[float]()
        key = (name, system.name)
        server = None
        try:
            url, server = system.start(files)
            async with Tab(self.playwright, self.chromium) as tab:
                async with quiet(noise):
                    stood = await system.open(tab, url, limit)
                self.measures.add(*key, "open", stood.seconds, stood.cpu, noise[-1])
                if name == "1m":
                    async with quiet(noise):
                        stood = await system.unfold_one(tab, limit)
                    self.measures.add(*key, "one group", stood.seconds, stood.cpu, noise[-1])
                elif selector and not self.measures.has_failed(*key, what):
                    async with quiet(noise):
                        try:
                            stood = await system.press(tab, selector, limit)
                        except Failed as error:
                            self.measures.fail(*key, what, str(error))
                            return
                    self.measures.add(*key, what, stood.seconds, stood.cpu, noise[-1])
                if what == "unfold" and name == "bert":
                    for action in (system.pan, system.zoom):
                        async with quiet(noise):
                            moved = await action(tab, 2.0)
                        self.measures.add(
                            *key, action.__name__, moved.frames_per_second,
                            moved.cpu_ms_per_frame / 1000, noise[-1],
                        )  # fmt: skip
                if what == "flatten" and name == "100k" and system.name == "glasshouse":
                    await self._search(tab)
        except (Failed, PlaywrightError) as error:
            self.measures.fail(*key, "open", str(error).split("\n")[0])
        finally:
            if server:
                server.kill()
                server.wait()
        self.measures.say(*key)

    async def _search(self, tab: Tab) -> None:
        """From the last key until the first results stand in the list."""
        noise: list[float] = []
        await tab.page.keyboard.press("/")
        await tab.page.wait_for_selector(".palette-input")
        hits = ".palette[data-count]:not([data-count='']) .hit"
        for query in ("softmax", "op:gelu", "layers.77"):
            async with quiet(noise):
                begin, cpu = time.perf_counter(), own_seconds()
                await tab.page.fill(".palette-input", query)
                await tab.page.wait_for_selector(hits, timeout=20000)
                passed, cpu = time.perf_counter() - begin, own_seconds() - cpu
            self.measures.add("100k", "glasshouse", "search", passed, cpu, noise[-1])
            await tab.page.fill(".palette-input", "")
            await asyncio.sleep(0.3)


async def run(options: argparse.Namespace) -> None:
    chromium = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if not chromium:
        raise SystemExit("there is no Chromium here; set CHROMIUM=/path/to/chrome")
    graphs, systems = chosen(options.graphs, list(GRAPHS)), []
    for name in chosen(options.systems, list(SYSTEMS)):
        if SYSTEMS[name].installed():
            systems.append(SYSTEMS[name])
        else:
            print(f"{SYSTEMS[name].title} is not installed and left out (see PEERS_PYTHON)")
    with tempfile.TemporaryDirectory() as folder:
        async with async_playwright() as playwright:
            this = Run(playwright, chromium, options)
            this.measures.single["bundle, compressed"] = len(
                gzip.compress(TEMPLATE.read_bytes(), 9)
            )
            for name in graphs:
                print(f"{GRAPHS[name].title}", flush=True)
                files = write(name, Path(folder), [s.name for s in systems])
                this.measures.nodes[name] = files.nodes
                if name in ("bert", "100k", "1m"):
                    this.measures.single[f"page of {name}"] = files.html.stat().st_size
                if name == "100k":
                    this.measures.single["glasshouse html of 100k, seconds"] = files.html_s
                await this.graph(name, systems, files)
                if options.out:
                    Path(options.out).write_text(json.dumps(this.measures.data(), indent=1))
            print("\n" + table(this.measures, [s.name for s in systems]))
            print("\n" + single_figures(this.measures))


def chosen(names: str, known: list[str]) -> list[str]:
    if names == "all":
        return known
    wanted = names.split(",")
    found = [n for n in known if n in wanted] or [n for n in known if n.startswith(tuple(wanted))]
    if not found:
        raise SystemExit(f"none of {names}; there are: {', '.join(known)}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-g", "--graphs", default="all")
    parser.add_argument("-s", "--systems", default="all")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60, help="seconds a picture may take")
    parser.add_argument("--quick", action="store_true", help="one repeat, 15 seconds at most")
    parser.add_argument("--out", help="also write all of it as JSON")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.limit = 1, 15
    asyncio.run(run(options))


if __name__ == "__main__":
    main()
