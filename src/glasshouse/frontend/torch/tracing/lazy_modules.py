"""Graph modules that are made while a model is exported, without Python code for them.

PyTorch writes and compiles a function for every graph module that it makes, which for a program of
1,600 nodes takes a fifth of the export and 18 MB, eleven times over; ours are read as graphs and
never called. Its lazy kind does so when the module is first called, but not when somebody asks for
what else is found while code is written: export's strict way does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.export import exported_program

try:
    from torch.fx import _lazy_graph_module as found
except ImportError:  # not every version of PyTorch has them: then code is compiled as it was
    found = None

LAZY: Any = found
"""PyTorch's module with its lazy kind of graph module."""
_KIND: Any = object if found is None else found._LazyGraphModule
_MAKER = "_create_graph_module_for_export"
_WITH_CODE = frozenset({"_in_spec", "_out_spec", "_code", "_lineno_map", "_prologue_start"})


class Unwritten(_KIND):
    """A lazy graph module that also writes its code when something is asked that comes with it."""

    def __getattr__(self, name: str) -> Any:
        if name in _WITH_CODE and self._needs_recompile():
            self.real_recompile()
            return getattr(self, name)
        return super().__getattr__(name)


@contextmanager
def lazy_modules() -> Iterator[None]:
    """While it lasts, PyTorch's exporter makes graph modules without code, if it can."""
    maker = getattr(exported_program, _MAKER, None)
    if maker is None or LAZY is None:
        yield
        return
    setattr(exported_program, _MAKER, Unwritten)
    LAZY._LazyGraphModule = Unwritten
    try:
        with LAZY._use_lazy_graph_module(True):
            yield
    finally:
        LAZY._LazyGraphModule = _KIND
        setattr(exported_program, _MAKER, maker)
