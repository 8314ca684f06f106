"""What a trace holds of stacks: each once, and no text of files that Python did not hold before."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest
import torch

from glasshouse.frontend.torch.stacks import users_lines
from glasshouse.frontend.torch.tracing.capture import export


def test_texts_of_files_that_stacks_name_are_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linecache, "cache", {})
    held, read = tmp_path / "held.py", tmp_path / "read.py"
    for file in (held, read):
        file.write_text("first = 1\n", encoding="utf-8")
    assert linecache.getline(str(held), 1) == "first = 1\n"
    assert linecache.getline(torch.__file__, 1)
    with users_lines():
        assert torch.__file__ not in linecache.cache
        assert linecache.getline(str(read), 1) == "first = 1\n"
        linecache.cache["<cell 1>"] = (4, None, ["x=1\n"], "<cell 1>")
    assert set(linecache.cache) == {str(held), "<cell 1>"}
    assert linecache.getline(str(read), 1) == "first = 1\n"


class _Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2) for _ in range(3)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x).tanh()
        return x


def test_stacks_of_a_loop_are_one_string_and_read_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    was = linecache.updatecache

    def updatecache(filename: str, module_globals: dict[str, object] | None = None) -> list[str]:
        read.append(filename)
        return was(filename, module_globals)

    monkeypatch.setattr(linecache, "updatecache", updatecache)
    monkeypatch.setattr(linecache, "cache", {})
    program = export(_Layers(), (torch.ones(2, 2),), {}, None)
    traces = [n.stack_trace for n in program.graph.nodes if n.name.startswith("tanh")]
    assert len(traces) == 3
    assert all(t is traces[0] for t in traces)
    assert f'File "{__file__}", line ' in traces[0]
    assert traces[0].endswith("in forward")
    assert torch.nn.modules.linear.__file__ not in read
