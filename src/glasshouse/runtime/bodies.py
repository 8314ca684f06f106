"""How bodies of control flow are run: compiled, each as a module of its own.

The choice, the loop and the slices stay in Python. A body whose types have no arrays of their own
(bfloat16), whose sizes only the graph around it knows, or for which there is no compiler runs by
its NumPy meaning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from glasshouse.errors import CompilerMissing
from glasshouse.forking import ForkLock
from glasshouse.ir.dim import symbols_of
from glasshouse.ir.graph import Graph
from glasshouse.lower.program import Fallback, Program
from glasshouse.numpy_ref.executor import Body
from glasshouse.passes import PassContext, optimize
from glasshouse.runtime.arrays import Array

if TYPE_CHECKING:
    from glasshouse.runtime.module import Module


class CompiledBody(Body):
    """A body as a function of arrays, which a module computes."""

    def __init__(self, graph: Graph, sizes: Mapping[str, int], module: Module) -> None:
        super().__init__(graph, sizes)
        self.module = module

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        return tuple(
            self.module.run_flat([np.ascontiguousarray(a).reshape(np.shape(a)) for a in arrays])
        )


class Bodies:
    """The modules of a program's bodies, made when they are first needed."""

    def __init__(self) -> None:
        self._modules: dict[Graph, Module | None] = {}
        self._making = ForkLock()

    def __call__(self, graph: Graph, sizes: Mapping[str, int]) -> Body:
        module = self.module_of(graph)
        return Body(graph, sizes) if module is None else CompiledBody(graph, sizes, module)

    def prepare(self, program: Program) -> None:
        """Compile all bodies now."""
        for step in program.steps:
            if isinstance(step, Fallback):
                for attr in step.node.attrs.values():
                    if isinstance(attr, Graph):
                        self.module_of(attr)

    def module_of(self, graph: Graph) -> Module | None:
        """None for a body that runs by its NumPy meaning."""
        with self._making.lock:
            if graph not in self._modules:
                self._modules[graph] = _compiled(graph)
            return self._modules[graph]


def _compiled(graph: Graph) -> Module | None:
    from glasshouse.runtime.compiler import compile_graph  # it makes modules, which have bodies

    values = [v for n in graph.nodes for v in n.outputs]
    known = {name for v in graph.inputs for dim in v.type.shape for name in symbols_of(dim)}
    known |= graph.size_givers.keys()
    wanted = {name for v in values for dim in v.type.shape for name in symbols_of(dim)}
    ends = [*graph.inputs, *graph.outputs]
    if not wanted <= known or any(v.type.dtype.storage != v.type.dtype.carrier for v in ends):
        return None
    try:
        return compile_graph(optimize(graph, PassContext()))
    except CompilerMissing:
        return None  # the graph around it was built elsewhere and loaded
