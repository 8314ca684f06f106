"""Graph modules that are made while a model is exported, without Python code for them.

PyTorch writes and compiles a function for every graph module that it makes, which for a program of
1,600 nodes takes a fifth of the export and 18 MB, eleven times over; ours are read as graphs and
never called. Its lazy kind does so when the module is first called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.export import exported_program

try:
    from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
except ImportError:  # not every version of PyTorch has them: then code is compiled as it was
    _LazyGraphModule = None

_MAKER = "_create_graph_module_for_export"


@contextmanager
def lazy_modules() -> Iterator[None]:
    """While it lasts, PyTorch's exporter makes lazy graph modules, if it can."""
    before = getattr(exported_program, _MAKER, None)
    if before is None or _LazyGraphModule is None:
        yield
        return
    setattr(exported_program, _MAKER, _LazyGraphModule)
    try:
        with _use_lazy_graph_module(True):
            yield
    finally:
        setattr(exported_program, _MAKER, before)
