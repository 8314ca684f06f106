"""Stock Netron, in a real browser, opens the ONNX that we write."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from format_files import DATA
from glasshouse import formats

pytestmark = [pytest.mark.browser, pytest.mark.slow]
netron: Any = pytest.importorskip("netron", reason="needs netron")
playwright: Any = pytest.importorskip("playwright.sync_api", reason="needs playwright")
pytest.importorskip("onnx", reason="needs the onnx package")


@pytest.fixture
def page() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("needs Chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser.new_page()
        browser.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("name", ["hidet/6_FuseOperatorPass.json", "jittor/simple_model_train.pkl"])
def test_netron_shows_every_node(name: str, page: Any, tmp_path: Path) -> None:
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
