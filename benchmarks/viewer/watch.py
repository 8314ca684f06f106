"""When a picture stands, and how frames are counted: the same way for every viewer.

A picture stands at its last change: the last frame that the browser put on screen with other pixels
than the one before, once `QUIET` seconds have passed in which no frame differed and the browser was
idle. A page that thinks with a still picture is not finished, and one that shows a spinner is not
either. Frames a second are the frames that the compositor drew while the mouse moved.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from playwright.async_api import CDPSession, Page, Playwright
from processors import own_seconds, wants_to_run

QUIET = 0.8
IDLE = 0.2
"""Share of one processor that a browser with nothing to do may use."""
UNCHANGED = 4.0
"""Seconds after which a browser that is idle and shows what it showed before is given up."""
LOOKS, AWAKE = 5, 2
"""Of so many looks at an idle browser so many may find something that wants to run."""
WIDTH, HEIGHT = 1440, 900
FLAGS = [
    "--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
    "--disable-background-networking", "--font-render-hinting=none", "--hide-scrollbars",
]  # fmt: skip
SETTLED = """new Promise((done) =>
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(%s)))))"""


class Failed(Exception):
    """The viewer did not get there; the message says how."""


@dataclass
class Stood:
    """When a picture stood after it was asked for, and the processor time that went into it."""

    seconds: float
    cpu: float


@dataclass
class Moved:
    """What moving the mouse over the drawing gave."""

    frames_per_second: float
    cpu_ms_per_frame: float


@dataclass
class Tab:
    """One page in a browser of its own, watched frame by frame."""

    playwright: Playwright
    chromium: str
    page: Page = field(init=False)
    _cdp: CDPSession = field(init=False)
    _last: bytes = b""
    _changed: float = 0.0
    _crashed: bool = False

    async def __aenter__(self) -> Tab:
        self._browser = await self.playwright.chromium.launch(
            executable_path=self.chromium, args=FLAGS
        )
        size: Any = {"width": WIDTH, "height": HEIGHT}
        self.page = await self._browser.new_page(viewport=size)
        self.page.on("crash", lambda _: setattr(self, "_crashed", True))
        self._cdp = await self.page.context.new_cdp_session(self.page)
        self._cdp.on("Page.screencastFrame", self._frame)
        await self.page.goto("about:blank")
        await self._settle()
        return self

    async def _settle(self) -> None:
        """Waits until the browser has started its own pages and services."""
        for _ in range(20):
            begin, cpu = time.perf_counter(), own_seconds(without_self=True)
            await asyncio.sleep(0.5)
            if (own_seconds(without_self=True) - cpu) / (time.perf_counter() - begin) < IDLE / 2:
                return

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self._browser.close()

    def _frame(self, event: dict[str, Any]) -> None:
        # Lossless and deterministic: equal bytes are equal pixels.
        data = base64.b64decode(event["data"])
        if data != self._last:
            self._last = data
            self._changed = float(event["metadata"]["timestamp"])
        ack = self._cdp.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})
        task = asyncio.ensure_future(ack)
        task.add_done_callback(lambda t: t.cancelled() or t.exception())

    async def ask(self, script: str) -> Any:
        """What an expression gives in the page; works in pages that forbid `eval` too."""
        how = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = await self._cdp.send("Runtime.evaluate", how)
        return answer["result"].get("value")

    async def stands(self, act: Callable[[], Awaitable[Any]], ready: str, limit: float) -> Stood:
        """Does something and waits until the picture stands; `ready` must hold in the page."""
        size = {"maxWidth": WIDTH // 2, "maxHeight": HEIGHT // 2}
        await self._cdp.send("Page.startScreencast", {"format": "png", **size})
        await asyncio.sleep(0.2)
        begin, cpu = time.time(), own_seconds(without_self=True)
        self._changed = 0.0
        await self._within(act(), limit)
        history: list[tuple[float, float]] = []
        while True:
            if self._crashed:
                raise Failed("the tab crashed")
            now = time.time()
            if now - begin > limit:
                raise Failed(f"not in {limit:.0f} s")
            history.append((now, own_seconds(without_self=True)))
            history = [h for h in history if now - h[0] < QUIET + 0.3]
            span = now - history[0][0]
            busy = (history[-1][1] - history[0][1]) / max(span, 0.01)
            still = now - max(self._changed, begin) >= QUIET
            idle = span >= QUIET and busy < IDLE and still and not await self._awake()
            if idle and self._changed == 0 and now - begin > UNCHANGED:
                raise Failed("nothing changes")
            if idle and self._changed > 0:
                # On a busy machine a page that waits for its turn looks idle: it must answer too.
                left, last = begin + limit - time.time(), self._changed
                told = await self._within(self.ask(SETTLED % ready), max(left, 0.1), limit)
                await asyncio.sleep(0.1)
                if told and self._changed == last:
                    break
            await asyncio.sleep(0.1)
        await self._cdp.send("Page.stopScreencast")
        return Stood(self._changed - begin, history[-1][1] - cpu)

    async def _awake(self) -> bool:
        """Whether the browser has something to do, be it only waiting for its turn."""
        found = 0
        for _ in range(LOOKS):
            found += wants_to_run()
            await asyncio.sleep(0.05)
        return found > AWAKE

    async def _within(self, action: Awaitable[Any], left: float, limit: float = 0.0) -> Any:
        """What an action gives, within the seconds `left` of the `limit` that is spoken of."""
        limit = limit or left
        try:
            return await asyncio.wait_for(action, left)
        except asyncio.TimeoutError:
            raise Failed(f"not in {limit:.0f} s") from None
        except Exception as error:
            if self._crashed or "crash" in str(error).lower():
                raise Failed("the tab crashed") from None
            raise Failed(str(error).split("\n")[0][:120]) from None

    async def moved(self, step: Callable[[int], Awaitable[Any]], seconds: float) -> Moved:
        """Moves the mouse as fast as the page takes it, and counts the frames that were drawn."""
        session = await self._browser.new_browser_cdp_session()
        events: list[dict[str, Any]] = []
        done = asyncio.Event()
        session.on("Tracing.dataCollected", lambda e: events.extend(e["value"]))
        session.on("Tracing.tracingComplete", lambda _: done.set())
        config = {"includedCategories": ["disabled-by-default-devtools.timeline.frame",
                                         "devtools.timeline.frame"]}  # fmt: skip
        await session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
        begin, cpu, number = time.perf_counter(), own_seconds(without_self=True), 0
        while time.perf_counter() - begin < seconds:
            await self._within(step(number), 60)
            number += 1
        passed, cpu = time.perf_counter() - begin, own_seconds(without_self=True) - cpu
        await session.send("Tracing.end")
        await asyncio.wait_for(done.wait(), 60)
        frames = sum(e["name"] == "DrawFrame" for e in events)
        return Moved(frames / passed, 1000 * cpu / max(1, frames))
