"""Ops by name: found in a process that imported only the graph, and near misses named."""

from __future__ import annotations

import subprocess
import sys

import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import ParseError, TypeMismatch
from glasshouse.ir import GraphBuilder, parse_graph

TEXT = "Graph(x: float32[2]){\n  y: float32[2] = Tanh(x)\n  return y\n}"

BUILDER = "from glasshouse.ir import GraphBuilder; b = GraphBuilder()"


@pytest.mark.parametrize(
    "code",
    [
        f"import glasshouse as gh; gh.parse_graph({TEXT!r})",
        f"{BUILDER}; b.finish(b.input('float32', [2]).apply('tanh') + 1.0)",
        f"{BUILDER}; b.apply('arange', start=0, stop=4, step=1, dtype='int64')",
    ],
)
def test_a_process_that_only_imported_the_graph(code: str) -> None:
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_name_that_is_nearly_right() -> None:
    b = GraphBuilder()
    x = b.input("float32", [2])
    with pytest.raises(TypeMismatch, match=r"no op 'tanhh'\n  did you mean 'tanh'\?"):
        x.apply("tanhh")
    with pytest.raises(TypeMismatch, match="no op 'aranje'"):
        b.apply("aranje", start=0, stop=4)
    with pytest.raises(ParseError, match=r"no op 'Tanhh'\n  at line 2: .*\n  did you mean 'Tanh'"):
        parse_graph(TEXT.replace("Tanh", "Tanhh"))
