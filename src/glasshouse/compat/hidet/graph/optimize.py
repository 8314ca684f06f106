"""`hidet.graph.PassContext` and `hidet.graph.optimize`."""

from __future__ import annotations

from typing import Any

import glasshouse as gh
from glasshouse.compat.hidet.graph.flow_graph import FlowGraph
from glasshouse.ir.graph import Graph

__all__ = ["PassContext", "optimize"]


class PassContext(gh.PassContext):
    """The context under Hidet's names: each setter does what it says, or is not there."""

    def __init__(self) -> None:
        super().__init__()

    def set_precision(self, dtype: Any) -> PassContext:
        """None means float32."""
        super().set_precision("float32" if dtype is None else dtype)
        return self

    def set_use_attention(self, flag: bool = False) -> PassContext:
        """Whether attention is recognised; here it is unless switched off."""
        skipped = set(self.options.setdefault("subgraph_rewrite", {}).get("skip", ()))
        change = skipped.discard if flag else skipped.add
        change("recognise-attention")
        self.options["subgraph_rewrite"]["skip"] = tuple(sorted(skipped))
        return self

    def set_verbose(self) -> PassContext:
        """Print each pass and its time."""
        self.profile_pass_instrument(print_stdout=True)
        return self


def optimize(graph: Graph) -> FlowGraph:
    """The graph, optimised by the context that holds now, for the device that it runs on."""
    device = graph.device if isinstance(graph, FlowGraph) else "cpu"
    ctx = gh.PassContext.current() or PassContext()
    before = ctx.target
    try:
        if device != "cpu":
            ctx.target = gh.PassContext(target=device).target
        return FlowGraph.of(gh.optimize(graph, ctx), device)
    finally:
        ctx.target = before
