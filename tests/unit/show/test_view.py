"""What `view` does from Python, from the command line and in a notebook."""

from __future__ import annotations

import base64
import http.client
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest

import glasshouse as gh
from glasshouse.cli import main
from glasshouse.record import Recording
from glasshouse.show import page as page_module
from glasshouse.show import server as server_module
from glasshouse.show import view as view_module

Make = Callable[..., Recording]


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Links that would have been opened; and no server outlives its test."""
    links: list[str] = []
    monkeypatch.setattr(view_module, "open_tab", links.append)
    yield links
    if view_module._Running.server is not None:
        view_module._Running.server.close()
        view_module._Running.server = None


def page(url: str) -> tuple[int, str]:
    parts = urlsplit(url)
    link = http.client.HTTPConnection(str(parts.hostname), int(parts.port or 0), timeout=10)
    try:
        link.request("GET", f"{parts.path}?{parts.query}")
        answer = link.getresponse()
        return answer.status, answer.read().decode()
    finally:
        link.close()


def test_returns_at_once_and_opens_a_tab(recording: Make, opened: list[str]) -> None:
    shown = gh.view(recording("first"), theme="dark")
    assert opened == [shown.url]
    status, text = page(shown.url)
    assert status == 200
    assert '"name":"first"' in text
    assert '"theme":"dark"' in text
    shown.close()
    with pytest.raises(OSError):
        page(shown.url)


def test_a_second_call_adds_to_the_running_server(recording: Make, opened: list[str]) -> None:
    one = gh.view(recording("first"))
    two = gh.view(recording("second"), open_browser=False)
    assert one.server is two.server
    assert one.url != two.url
    assert len(opened) == 1
    # Each link opens its own graph; the first tab is left alone.
    assert "<title>first – " in page(one.url)[1]
    assert "<title>second – " in page(two.url)[1]


def test_a_server_of_its_own(recording: Make) -> None:
    one = gh.view(recording())
    two = gh.view(recording(), reuse_server=False)
    assert one.server is not two.server
    two.close()
    assert page(one.url)[0] == 200


def test_without_anything_a_start_page(opened: list[str]) -> None:
    shown = gh.view()
    assert '"files":[]' in page(shown.url)[1]


def test_blocks_when_asked(recording: Make) -> None:
    done = threading.Event()

    def run() -> None:
        gh.view(recording(), block=True)
        done.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while view_module._Running.server is None:
        assert not done.wait(0.01), "it returned although it was to wait"
    server = view_module._Running.server
    assert not done.is_set()
    server.close()
    assert done.wait(10)


def notebook(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    made = type(shell, (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: made))


def test_in_a_notebook_the_page_stands_in_the_cell(
    recording: Make, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook(monkeypatch, "ZMQInteractiveShell")
    shown = gh.view(recording('a "quoted" <title>'), height=321)
    html = shown._repr_html_()
    assert opened == []
    assert 'title="a &quot;quoted&quot; &lt;title&gt;"' in html
    assert "<title>" not in html  # what the recording says is packed or escaped
    assert "321px" in html
    assert "allow-same-origin" not in html


def test_a_cell_that_ends_with_a_graph_or_a_recording_shows_it(recording: Make) -> None:
    graph = gh.trace(lambda x: gh.relu(x) + 1.0, gh.spec([2, 3]))
    for shown in (graph, recording("a recording")):
        html = shown._repr_html_()
        assert html is not None
        assert '<iframe id="glasshouse-' in html
        packed = html.partition('-data">')[2].partition("</div>")[0]
        assert b"glass-data" in base64.b64decode(packed)


def test_a_cell_without_a_built_viewer_shows_the_text(
    recording: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(page_module, "TEMPLATE", tmp_path / "none.html")
    assert recording()._repr_html_() is None
    assert "make viewer" in capsys.readouterr().err


def test_in_a_terminal_shell_a_tab_opens(
    recording: Make, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook(monkeypatch, "TerminalInteractiveShell")
    shown = gh.view(recording())
    assert opened == [shown.url]
    assert "<iframe" not in shown._repr_html_()


def test_command_serves_until_it_is_stopped(
    tmp_path: Path, recording: Make, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    recording("one").save(tmp_path / "one.glass")
    recording("two").save(tmp_path / "two.glass")
    seen: list[Any] = []

    def wait(self: server_module.Server) -> None:
        url = capsys.readouterr().out.splitlines()[0]
        seen.append(page(url))
        raise KeyboardInterrupt

    monkeypatch.setattr(server_module.Server, "wait", wait)
    files = [str(tmp_path / "one.glass"), str(tmp_path / "two.glass")]
    assert main(["view", "--no-browser", *files]) == 0
    status, text = seen[0]
    assert status == 200
    assert '"name":"one.glass"' in text
    assert '"name":"two.glass"' in text


def test_command_tells_of_a_wrong_file_before_it_serves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no.glass").write_bytes(b"PK\x03\x04 broken")
    assert main(["view", "--no-browser", str(tmp_path / "no.glass")]) == 2
    assert "no.glass" in capsys.readouterr().err
