"""A module that is imported for annotations is loaded when it is used, and is itself then."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from glasshouse.frontend.torch.tracing.late_import import imported_late

MADE = {
    "heavy/__init__.py": """
        class Graph:
            kind = "whole"
            def __init__(self, n=0):
                self.n = n
        """,
    "heavy/parts.py": "PARTS = 3\n",
    "annotated.py": """
        import heavy as h
        def f(g: h.Graph, more: h.Graph | None = None, kinds: h.Graph[int] = None) -> h.Graph:
            return h.Graph(7)
        """,
    "used.py": """
        import heavy
        class Own(heavy.Graph):
            pass
        FIRST, KIND = heavy.Graph(2), heavy.Graph.kind
        """,
    "submodule.py": "from heavy.parts import PARTS\n",
}
NAMES = ("heavy", "heavy.parts", "annotated", "used", "submodule")


@pytest.fixture(autouse=True)
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, text in MADE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in NAMES:
        sys.modules.pop(name, None)


def _imported(name: str) -> Any:
    with imported_late("heavy"):
        return __import__(name)


def test_annotations_do_not_load_it() -> None:
    annotated = _imported("annotated")
    assert "heavy" not in sys.modules
    assert repr(annotated.f.__annotations__["return"]) == "heavy.Graph"
    made = annotated.f(None)
    assert type(made) is sys.modules["heavy"].Graph
    assert made.n == 7


def test_what_uses_it_at_once_has_the_module_itself() -> None:
    used = _imported("used")
    graph = sys.modules["heavy"].Graph
    assert issubclass(used.Own, graph)
    assert (type(used.FIRST), used.FIRST.n, used.KIND) == (graph, 2, "whole")


def test_submodules_load_it() -> None:
    assert _imported("submodule").PARTS == 3


def test_another_thread_meanwhile_has_the_module_itself() -> None:
    def read() -> Any:
        import heavy  # type: ignore[import-not-found]  # written by the fixture

        return heavy.Graph(1).n

    with imported_late("heavy"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(read).result() == 1


def test_a_loaded_or_absent_module_is_left_alone() -> None:
    import heavy

    with imported_late("heavy"):
        assert sys.modules["heavy"] is heavy
    with imported_late("no_such_module_anywhere"), pytest.raises(ImportError):
        import_module("no_such_module_anywhere")


def test_it_goes_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), imported_late("heavy"):
        raise ZeroDivisionError
    assert "heavy" not in sys.modules
