"""networkx is not imported with AOTAutograd, and is there for whoever uses it."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from glasshouse.frontend.torch import late_networkx

SMALL = "colorsys"  # stands for networkx: a module that nothing here has imported


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(late_networkx, "NAME", SMALL)
    monkeypatch.delitem(sys.modules, SMALL, raising=False)
    yield
    sys.modules.pop(SMALL, None)


def _module(name: str) -> dict[str, Any]:
    """A module that imports it and names one of its attributes in a signature."""
    found: dict[str, Any] = {"__name__": name}
    text = f"import {SMALL} as nx\ndef late(x: nx.rgb_to_hsv):\n    return nx.rgb_to_hsv(1, 1, 1)\n"
    exec(compile(text, name, "exec", dont_inherit=True), found)  # signatures are evaluated
    return found


def test_signatures_do_not_load_it() -> None:
    with late_networkx.late_networkx():
        found = _module(f"{late_networkx._TYPES}graph_info_provider")
        assert isinstance(sys.modules[SMALL], late_networkx._Late)
        assert importlib.util.find_spec(SMALL) is not None  # Dynamo looks for its spec
        assert inspect.getmodule(inspect.currentframe()) is sys.modules[__name__]
        assert isinstance(sys.modules[SMALL], late_networkx._Late)
    assert SMALL not in sys.modules
    assert found["late"](None) == (0.0, 0.0, 1)
    import colorsys

    assert sys.modules[SMALL] is colorsys
    assert found["nx"].rgb_to_hsv is colorsys.rgb_to_hsv


def test_anybody_else_is_given_the_module_itself() -> None:
    with late_networkx.late_networkx():
        found = _module("somewhere.else")
        assert found["late"].__annotations__["x"] is sys.modules[SMALL].rgb_to_hsv
        assert not isinstance(sys.modules[SMALL], late_networkx._Late)
    assert SMALL in sys.modules


def test_a_module_that_is_not_installed_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_networkx, "NAME", "no_such_module_anywhere")
    with late_networkx.late_networkx(), pytest.raises(ImportError):
        import no_such_module_anywhere  # noqa: F401


def test_what_is_there_already_is_kept() -> None:
    import colorsys

    with late_networkx.late_networkx():
        assert sys.modules[SMALL] is colorsys
    assert sys.modules[SMALL] is colorsys
