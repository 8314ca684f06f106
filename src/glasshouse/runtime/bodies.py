"""How bodies of control flow are run: compiled, each as a module of its own.

The choice, the loop and the slices stay in Python. A body whose sizes only the graph around it
knows, or for which there is no compiler runs by its NumPy meaning, with a warning and a line in the
recording.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from glasshouse.errors import CompilerMissing, OnReference
from glasshouse.forking import ForkLock
from glasshouse.ir.dim import symbols_of
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Graph, Node
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
        types = [v.type.dtype for v in self.module.graph.inputs]
        stored = [to_storage(np.asarray(a), t) for a, t in zip(arrays, types, strict=True)]
        return tuple(
            self.module.run_flat([np.ascontiguousarray(a).reshape(a.shape) for a in stored])
        )


class Bodies:
    """The modules of a program's bodies, made when they are first needed."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._modules: dict[Graph, Module | str] = {}  # or why there is none
        self._apart: set[Graph] = set()  # groups that could not be lowered as one kernel
        self._making = ForkLock()

    def __call__(self, graph: Graph, sizes: Mapping[str, int]) -> Body:
        module = self._made(graph)
        return Body(graph, sizes) if isinstance(module, str) else CompiledBody(graph, sizes, module)

    def prepare(self, program: Program) -> None:
        """Compile all bodies now."""
        for step in program.steps:
            if isinstance(step, Fallback):
                if step.node.op.name == "fused":
                    self._apart |= {a for a in step.node.attrs.values() if isinstance(a, Graph)}
                why = self.uncompiled(step.node)
                if why:
                    where = step.node.origin.source
                    warnings.warn(
                        f"{step.node.op.label}{f' ({where})' if where else ''}: {why}",
                        OnReference,
                        stacklevel=2,
                    )

    def uncompiled(self, node: Node) -> str:
        """Why bodies of a node run by their NumPy meaning; "" where none does."""
        graphs = [a for a in node.attrs.values() if isinstance(a, Graph)]
        reasons = [made for made in map(self._made, graphs) if isinstance(made, str)]
        if not reasons:
            return ""
        what = " and ".join(dict.fromkeys(reasons))
        return f"{len(reasons)} of {len(graphs)} bodies run on the reference executor: {what}"

    def module_of(self, graph: Graph) -> Module | None:
        """None for a body that runs by its NumPy meaning."""
        made = self._made(graph)
        return None if isinstance(made, str) else made

    def _made(self, graph: Graph) -> Module | str:
        with self._making.lock:
            if graph not in self._modules:
                self._modules[graph] = _compiled(graph, self._threads, graph in self._apart)
            return self._modules[graph]


def _compiled(graph: Graph, threads: int | None, apart: bool = False) -> Module | str:
    """`apart`: op by op. Fused, it would be the same group again, and fall back again."""
    from glasshouse.runtime.compiler import compile_graph  # it makes modules, which have bodies

    values = [v for n in graph.nodes for v in n.outputs]
    known = {name for v in graph.inputs for dim in v.type.shape for name in symbols_of(dim)}
    known |= graph.size_givers.keys()
    wanted = {name for v in values for dim in v.type.shape for name in symbols_of(dim)}
    if not wanted <= known:
        return f"only the graph around it knows the size {', '.join(sorted(wanted - known))}"
    ctx = PassContext()
    if apart:
        ctx.skip("fuse_operator")
    try:
        return compile_graph(optimize(graph, ctx), threads=threads)
    except CompilerMissing:
        return "there is no compiler here"  # the graph around it was built elsewhere and loaded
