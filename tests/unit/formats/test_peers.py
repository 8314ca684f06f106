"""Stock Netron and Model Explorer, in a real browser, open what we write."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from format_files import DATA
from glasshouse import formats

pytestmark = [pytest.mark.browser, pytest.mark.slow]
playwright: Any = pytest.importorskip("playwright.sync_api", reason="needs playwright")


@pytest.fixture
def page() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium")
    flags = ["--no-sandbox", "--use-gl=swiftshader", "--enable-webgl", "--ignore-gpu-blocklist"]
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=flags)
        yield browser.new_page()
        browser.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("name", ["hidet/6_FuseOperatorPass.json", "jittor/simple_model_train.pkl"])
def test_netron_shows_every_node(name: str, page: Any, tmp_path: Path) -> None:
    netron: Any = pytest.importorskip("netron", reason="needs netron")
    pytest.importorskip("onnx", reason="needs the onnx package")
    recording = formats.read(DATA / name)
    path = tmp_path / "model.onnx"
    formats.write(recording, path)
    nodes = recording.graphs[0].stage(-1).nodes
    computed = sum(bool(reads) for reads in nodes.pylist("input_nodes"))
    address = netron.start(str(path), address=("127.0.0.1", free_port()), browse=False)
    try:
        page.goto(f"http://127.0.0.1:{address[1]}/")
        page.locator("button:has-text('Accept')").first.click(timeout=30_000)
        page.wait_for_selector("g.node", timeout=60_000, state="attached")
        assert page.locator("g.node").count() >= computed
    finally:
        netron.stop(address)


def test_model_explorer_shows_every_stage(page: Any, tmp_path: Path) -> None:
    pytest.importorskip("model_explorer", reason="needs ai-edge-model-explorer")
    path = tmp_path / "model.json"
    recording = formats.read(DATA / "hidet")
    formats.write(recording, path)
    largest = max(recording.stage(0, s).nodes.rows for s in range(3))
    command = [sys.executable, "-m", "model_explorer", str(path), "--no_open_in_browser"]
    server = subprocess.Popen(
        [*command, "--port", str(free_port())],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = next(m[0] for line in server.stdout if (m := re.search(r"http://\S+", line)))
        page.goto(url)
        page.wait_for_selector("canvas", timeout=60_000)
        page.get_by_text(f"{largest} nodes").first.wait_for(timeout=30_000)
        assert "hidet @ " in page.inner_text("body")
    finally:
        server.terminate()
        server.communicate()
