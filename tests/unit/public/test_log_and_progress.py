"""What a compilation tells: through `logging`, through GLASSHOUSE_LOG, and to whoever watches."""

import io
import logging
import os
import subprocess
import sys

import numpy as np

import glasshouse as gh
from glasshouse import watched
from glasshouse.show import progress


def test_a_compilation_is_logged(caplog):
    with caplog.at_level(logging.DEBUG, "glasshouse"):
        gh.compile(gh.relu, np.ones(3, np.float32))
    names = {r.name for r in caplog.records}
    assert names == {"glasshouse.compile", "glasshouse.passes", "glasshouse.build"}
    last = [r.getMessage() for r in caplog.records if r.name == "glasshouse.compile"]
    assert "nodes became 1 kernels" in last[-1]


def test_the_switch_prints_and_a_wrong_one_is_told():
    script = "import glasshouse, logging; logging.getLogger('glasshouse.x').info('hello')"
    said = {
        level: subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "GLASSHOUSE_LOG": level},
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for level in ("info", "error", "loud")
    }
    assert said["info"].endswith(" glasshouse.x: hello\n")
    assert said["error"] == ""
    assert said["loud"] == (
        "glasshouse: GLASSHOUSE_LOG is 'loud', and must be one of debug, info, warning, error\n"
    )


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_a_line_that_goes_away(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stderr", out)
    shown = progress.Progress()
    shown(1, 2, "k0_matmul")
    shown.end()
    line = "building 1/2  k0_matmul"
    assert out.getvalue() == f"\r{line}\r{' ' * len(line)}\r"


def test_a_file_sees_nothing_and_a_notebook_its_cell(monkeypatch):
    errors, cell = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    progress.Progress()(1, 2, "k0_matmul")
    assert errors.getvalue() == ""
    monkeypatch.setattr(sys, "stdout", cell)
    monkeypatch.setattr(watched, "in_notebook", lambda: True)
    progress.Progress()(1, 2, "k0_matmul")
    assert cell.getvalue() == "\rbuilding 1/2  k0_matmul"
    assert errors.getvalue() == ""
