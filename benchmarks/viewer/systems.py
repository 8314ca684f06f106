"""How each viewer is started and what a person does in it: open, unfold, flatten, move.

Everything goes through the viewer's own page and buttons. Peers are optional: their servers run in
the Python given as `PEERS_PYTHON` (or this one), and who is not installed there is left out.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from graphs import Files
from watch import HEIGHT, WIDTH, Failed, Moved, Stood, Tab

PEERS_PYTHON = os.environ.get("PEERS_PYTHON", sys.executable)
PAN = 240
FOLDED_GROUP = """(() => {
  const { camera, canvas, scene } = glasshouse.view;
  const r = canvas.getBoundingClientRect();
  for (let g = 1; g < 2000; g++) {
    const p = scene.place(scene.nodes + g);
    if (!p || p.view.batch.flags[p.view.first + p.index] & 4) continue;
    const x = r.x + camera.x + (p.x + p.w / 2) * camera.scale;
    const y = r.y + camera.y + (p.y + p.h / 2) * camera.scale;
    if (x > r.x && x < r.right && y > r.y && y < r.bottom) return [x, y];
  }
  return [r.x + r.width / 2, r.y + r.height / 2];
})()"""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return int(s.getsockname()[1])


class System:
    """Us: a page from disk."""

    name = "glasshouse"
    title = "Glasshouse"
    module = ""
    ready = "document.documentElement.dataset.ready === '1'"
    unfold: str | None = "button:text-is('Unfold all')"
    flat: str | None = "button:text-is('Flatten')"

    def installed(self) -> bool:
        if not self.module:
            return True
        check = f"import importlib.util as u, sys; sys.exit(u.find_spec({self.module!r}) is None)"
        return subprocess.run([PEERS_PYTHON, "-c", check], check=False).returncode == 0

    def start(self, files: Files) -> tuple[str, subprocess.Popen[str] | None]:
        """The address of the page, and the server that has to be stopped."""
        return files.html.as_uri(), None

    async def open(self, tab: Tab, url: str, limit: float) -> Stood:
        go: Callable[[], Awaitable[Any]] = lambda: tab.page.goto(url, wait_until="commit")  # noqa: E731
        return await tab.stands(go, self.ready, limit)

    async def press(self, tab: Tab, selector: str, limit: float) -> Stood:
        await tab.page.mouse.move(WIDTH / 2, HEIGHT / 2)
        at = await tab.page.locator(selector).first.bounding_box()
        if not at:
            raise Failed(f"{selector} is not there")
        x, y = at["x"] + at["width"] / 2, at["y"] + at["height"] / 2
        await tab.page.mouse.move(x, y)
        return await tab.stands(lambda: tab.page.mouse.click(x, y), self.ready, limit)

    async def unfold_one(self, tab: Tab, limit: float) -> Stood:
        """Double-clicks a folded group that is on screen."""
        x, y = await tab.ask(FOLDED_GROUP)
        return await tab.stands(lambda: tab.page.mouse.dblclick(x, y), self.ready, limit)

    async def pan(self, tab: Tab, seconds: float) -> Moved:
        """Drags the drawing round in a lozenge."""
        mouse, x, y = tab.page.mouse, WIDTH / 3, HEIGHT / 2
        await mouse.move(x, y)
        await mouse.down()

        def step(number: int) -> Awaitable[Any]:
            at = number * 6 % (4 * PAN)
            dx = PAN - abs(at - 2 * PAN)
            dy = PAN - abs((at + PAN) % (4 * PAN) - 2 * PAN)
            return mouse.move(x + dx, y + dy / 2)

        moved = await tab.moved(step, seconds)
        await mouse.up()
        return moved

    async def zoom(self, tab: Tab, seconds: float) -> Moved:
        """Zooms in and out under the pointer."""
        await tab.page.mouse.move(WIDTH / 3, HEIGHT / 2)
        await tab.page.keyboard.down("Control")
        moved = await tab.moved(
            lambda n: tab.page.mouse.wheel(0, -40 if n // 30 % 2 == 0 else 40), seconds
        )
        await tab.page.keyboard.up("Control")
        return moved


class Peer(System, ABC):
    """A viewer with a server of its own."""

    def start(self, files: Files) -> tuple[str, subprocess.Popen[str] | None]:
        script = Path(__file__).with_name("serve_peer.py")
        command = [PEERS_PYTHON, str(script), self.name, str(free_port()), str(self.file(files))]
        server = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert server.stdout is not None
        for line in server.stdout:
            if line.startswith("http"):
                return line.strip(), server
        raise Failed("its server did not start")

    @abstractmethod
    def file(self, files: Files) -> Path:
        """The one that this peer opens."""


class Netron(Peer):
    """Has no groups: opens flat, and that is all."""

    name = "netron"
    title = "Netron"
    module = "netron"
    ready = "document.querySelectorAll('#canvas .node').length > 0"
    unfold = flat = None

    def file(self, files: Files) -> Path:
        return files.onnx

    async def open(self, tab: Tab, url: str, limit: float) -> Stood:
        # Otherwise its first picture is a question about cookies.
        await tab.page.context.add_cookies([{"name": "consent", "value": "1", "url": url}])
        return await super().open(tab, url, limit)


class Explorer(Peer):
    """Google's Model Explorer."""

    name = "explorer"
    title = "Model Explorer"
    module = "model_explorer"
    ready = "document.querySelector('canvas.main') !== null"
    unfold = ".toolbar-icon.expand-all"
    flat = ".toolbar-icon.flatten-layers"

    def file(self, files: Files) -> Path:
        return files.explorer


SYSTEMS: dict[str, System] = {s.name: s for s in (System(), Netron(), Explorer())}
