"""A real Chromium without a network: pages from disk, every request noted, errors fail the test."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import glasshouse as gh
from glasshouse.record import Recording
from glasshouse.show import page as page_module

playwright = pytest.importorskip("playwright.sync_api")
FLAGS = [
    "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-background-networking", "--font-render-hinting=none",
]  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of this folder needs a browser; in one process, since one Chromium serves all."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not path:
        pytest.skip("there is no Chromium here; set CHROMIUM=/path/to/chrome")
    if not page_module.TEMPLATE.is_file():
        pytest.fail("the viewer has not been built; run: make viewer")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


class Viewer:
    """A page with the viewer, and what a person can see of it."""

    def __init__(self, page: Any, requests: list[str], errors: list[str]) -> None:
        self.page = page
        self.requests = requests
        self.errors = errors

    def goto(self, url: str) -> None:
        self.page.goto(url)
        self.ready()

    def ready(self) -> None:
        self.page.wait_for_selector("html[data-ready]", state="attached", timeout=30000)

    def settle(self) -> None:
        """Until nothing moves: two frames after the last worker answer."""
        self.page.evaluate(
            "() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))"
        )

    def words(self) -> list[str]:
        """The texts that are drawn in the window, from the same marks that are on screen."""
        self.settle()
        svg = self.page.evaluate("() => window.glasshouse.view.toSvg(false)")
        found = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
        return [
            t.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&") for t in found
        ]  # fmt: skip

    def places(self, word: str) -> list[tuple[float, float]]:
        """Where a word is drawn, in pixels of the drawing."""
        self.settle()
        svg = self.page.evaluate("() => window.glasshouse.view.toSvg(false)")
        marks = re.findall(r"<text x=\"([^\"]*)\" y=\"([^\"]*)\"[^>]*>([^<]*)</text>", svg)
        return [(float(x), float(y)) for x, y, text in marks if word in text]

    def see(self, text: str) -> None:
        """Wait until a word is drawn."""
        self._until(lambda: any(text in w for w in self.words()), f"{text!r} is not drawn")

    def miss(self, text: str) -> None:
        """Wait until a word is drawn no longer."""
        self._until(lambda: not any(text in w for w in self.words()), f"{text!r} is still drawn")

    def _until(self, test: Callable[[], bool], message: str) -> None:
        for _ in range(200):
            if test():
                return
            self.page.wait_for_timeout(25)
        raise AssertionError(f"{message}; drawn are {self.words()[:40]}")

    def key(self, *keys: str) -> None:
        for k in keys:
            self.page.keyboard.press(k)

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))

    def search(self, query: str) -> None:
        """Open the palette, type, wait for the count of this very query."""
        if not self.page.is_visible(".palette"):
            self.page.evaluate("() => document.querySelector('.graph-canvas').focus()")
            self.key("/")
        self.page.fill(".palette-input", query)

    def pick(self, query: str) -> None:
        """Search and go to the first hit."""
        self.search(query)
        first = self.page.evaluate(
            """async (text) =>
              (await window.glasshouse.engine.call("find", {text, limit: 1})).items[0]""",
            query,
        )
        self.page.wait_for_selector(".palette[data-count]:not([data-count='']) .hit")
        self.key("Enter")
        chosen = "() => window.glasshouse.selected"
        self._until(lambda: self.page.evaluate(chosen) == first, f"{query} was not gone to")
        self.key("Escape")


@pytest.fixture
def viewer(chromium: Any, tmp_path: Path) -> Iterator[Callable[..., Viewer]]:
    """Opens a recording as one offline file: `viewer(recording, dark=True, size=(1280, 720))`."""
    contexts: list[tuple[Any, Viewer]] = []

    def open_page(
        x: Recording | None,
        *,
        size: tuple[int, int] = (1280, 720),
        dark: bool = False,
        offline: bool = True,
        url: str = "",
        motion: str = "reduce",
        script: str = "",
        **options: Any,
    ) -> Viewer:
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion=motion, accept_downloads=True, offline=offline,
        )  # fmt: skip
        page = context.new_page()
        if script:
            page.add_init_script(script)
        made = Viewer(page, [], [])
        page.on("request", lambda r: made.requests.append(r.url))
        page.on("pageerror", lambda e: made.errors.append(str(e)))
        page.on("dialog", lambda d: (made.errors.append(f"dialog: {d.message}"), d.dismiss()))
        page.on(
            "console",
            lambda m: made.errors.append(m.text) if m.type == "error" else None,
        )
        contexts.append((context, made))
        if x is not None:
            path = gh.plot_graph(x, tmp_path / f"page{len(contexts)}.html", **options)
            made.goto(path.as_uri())
        elif url:
            made.goto(url)
        return made

    yield open_page
    problems = [e for _, made in contexts for e in made.errors]
    for context, _ in contexts:
        context.close()
    assert not problems, problems
