"""How a graph is simplified: rules and merges, round after round, until nothing changes."""

from __future__ import annotations

from dataclasses import dataclass, field

import glasshouse.passes.subgraph_rewrite.rules  # noqa: F401  # registers the rules
from glasshouse.backend.base import target_named
from glasshouse.errors import PassError
from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.target import Target
from glasshouse.passes.base import Pass, register_pass
from glasshouse.passes.subgraph_rewrite.choose_rows import choose_rows
from glasshouse.passes.subgraph_rewrite.duplicates import merge_duplicates, remove_dead
from glasshouse.passes.subgraph_rewrite.engine import apply_rules
from glasshouse.passes.subgraph_rewrite.in_float32 import in_float32
from glasshouse.passes.subgraph_rewrite.merge_products import merge_products
from glasshouse.passes.subgraph_rewrite.merge_siblings import merge_siblings
from glasshouse.passes.subgraph_rewrite.norms_in_products import norms_in_products
from glasshouse.passes.subgraph_rewrite.rule import RULES
from glasshouse.passes.subgraph_rewrite.select_ranks import select_ranks

__all__ = ["RULES", "SubgraphRewrite"]


@register_pass()
@dataclass(frozen=True)
class SubgraphRewrite(Pass):
    """Simplify: algebra, constants into weights, known patterns into one op, siblings into one."""

    skip: tuple[str, ...] = ()  # names of rules to leave out
    max_growth: int = 1 << 20  # bytes that folding a constant may add
    max_rounds: int = 10
    merge: bool = True  # matmuls and convolutions of one value
    target: Target = field(default_factory=lambda: target_named("cpu"))

    def run(self, graph: Graph, rw: Rewriter) -> None:
        unknown = set(self.skip) - set(RULES)
        if unknown:
            raise PassError(f"there are no rules {sorted(unknown)}", hint=f"rules: {list(RULES)}")
        rules = [r for r in RULES.values() if r.name not in self.skip]
        # What could be folded before is FoldConstant's; rules fold what they bring together.
        given = {n.id: n.inputs for n in graph.nodes}
        choose_rows(graph, rw, self.target)
        in_float32(graph, rw, self.target)
        remove_dead(graph, rw)
        select_ranks(graph, rw, self.target)
        for _ in range(self.max_rounds):
            before = rw.steps
            remove_dead(graph, rw)
            merge_duplicates(graph, rw)
            apply_rules(graph, rw, rules, self.max_growth, given)
            if self.merge:
                merge_products(graph, rw, self.target)
                merge_siblings(graph, rw, self.target)
            if rw.steps == before:
                break
        if self.merge:
            norms_in_products(graph, rw, self.target)
            remove_dead(graph, rw)
