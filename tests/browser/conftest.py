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
# Without a GPU: WebGL is SwiftShader's, everything else is painted and put together on the
# processor, which costs half of letting SwiftShader do that too.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader",
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


class Window:
    """A window that tests use one after the other.

    Its process stays, with what that has compiled of the viewer, which halves the cost of opening a
    page. The viewer keeps nothing in a browser, so nothing goes from test to test.
    """

    def __init__(self, browser: Any) -> None:
        self.context = browser.new_context(accept_downloads=True)
        self.page = self.context.new_page()
        self.shown = Viewer(self.page, [], [])
        self.page.on("request", lambda r: self.shown.requests.append(r.url))
        self.page.on("pageerror", lambda e: self.shown.errors.append(str(e)))
        self.page.on(
            "dialog", lambda d: (self.shown.errors.append(f"dialog: {d.message}"), d.dismiss())
        )
        self.page.on(
            "console",
            lambda m: self.shown.errors.append(m.text) if m.type == "error" else None,
        )

    def take(self, size: tuple[int, int], dark: bool, motion: str, offline: bool) -> Viewer:
        self.shown = Viewer(self.page, [], [])
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.emulate_media(color_scheme="dark" if dark else "light", reduced_motion=motion)
        self.context.set_offline(offline)
        return self.shown

    def leave(self) -> None:
        """Ends what the page still does; listeners and emulation of a test go with the page."""
        for other in self.context.pages[1:]:
            other.close()
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")


@pytest.fixture(scope="session")
def windows(chromium: Any) -> list[Window]:
    """Windows that no test uses at the moment."""
    return []


@pytest.fixture
def viewer(chromium: Any, windows: list[Window], tmp_path: Path) -> Iterator[Callable[..., Viewer]]:
    """Opens a recording as one offline file: `viewer(recording, dark=True, size=(1280, 720))`."""
    taken: list[Window] = []
    spoilt: list[Window] = []

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
        window = windows.pop() if windows and not script else Window(chromium)
        made = window.take(size, dark, motion, offline)
        if script:
            window.page.add_init_script(script)
            spoilt.append(window)
        taken.append(window)
        if x is not None:
            path = gh.plot_graph(x, tmp_path / f"page{len(taken)}.html", **options)
            made.goto(path.as_uri())
        elif url:
            made.goto(url)
        return made

    yield open_page
    problems = [e for window in taken for e in window.shown.errors]
    for window in taken:
        if problems or window in spoilt:
            window.context.close()
        else:
            window.leave()
            windows.append(window)
    assert not problems, problems
