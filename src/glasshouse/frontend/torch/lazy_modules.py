"""Graph modules that are made while a model is exported, without Python code for them.

PyTorch writes and compiles a function for every graph module that it makes, which for a program of
1,600 nodes takes a fifth of the export and 18 MB, eleven times over; ours are read as graphs and
never called. Its lazy kind does so when the module is first called.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.export import exported_program
from torch.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module


@contextmanager
def lazy_modules() -> Iterator[None]:
    """While it lasts, PyTorch's exporter makes lazy graph modules."""
    before = exported_program._create_graph_module_for_export
    exported_program._create_graph_module_for_export = _LazyGraphModule
    try:
        with _use_lazy_graph_module(True):
            yield
    finally:
        exported_program._create_graph_module_for_export = before
