"""How passes are run: on a copy, verified, watched."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from glasshouse.errors import GraphError
from glasshouse.ir import Graph, Rewriter, print_graph
from glasshouse.passes import Pass, PassContext, PassSequence, optimize, run_passes
from glasshouse.passes.fold_constant import FoldConstant
from glasshouse.passes.pipeline import optimize_program
from glasshouse.passes.subgraph_rewrite import SubgraphRewrite


@dataclass(frozen=True)
class BreakTypes(Pass):
    """Change a type behind the rewriter's back."""

    def run(self, graph: Graph, rw: Rewriter) -> None:
        graph.nodes[-1].outputs[0].type = graph.inputs[0].type


def test_optimize_gives_a_new_graph_and_keeps_ids(small) -> None:
    before = print_graph(small)
    after = optimize(small)
    assert print_graph(small) == before
    assert after is not small
    kept = {n.id: n.op for n in after.nodes}.items() & {n.id: n.op for n in small.nodes}.items()
    assert {op.name for _, op in kept} >= {"input", "constant"}
    assert after.inputs[0].node.id == small.inputs[0].node.id


def test_the_context_of_the_with_block_is_used(small, watch) -> None:
    with PassContext(passes=["fold_constant"]) as ctx:
        ctx.add(watch)
        optimize(small)
    optimize(small)
    assert watch.events == ["begin", "begin FoldConstantPass 0", "end FoldConstantPass 0", "end"]


def test_passes_over_programs_come_last_with_lowering_between(small, watch) -> None:
    ctx = PassContext(["plan_memory", "mark_views", "fold_constant"], instruments=[watch])
    program = optimize_program(small, ctx)
    names = ["FoldConstant", "MarkViews", "Lower", "PlanMemory"]
    assert watch.events[1:-1] == [f"{w} {n}Pass 0" for n in names for w in ("begin", "end")]
    assert ctx.results["plan_memory"] is program.plan


def test_a_sequence_is_told_once_with_its_parts(small, watch) -> None:
    both = PassSequence((FoldConstant(), SubgraphRewrite()), "Simplify")
    optimize(small, PassContext(passes=[both], instruments=[watch]))
    assert watch.events == [
        "begin", "begin Simplify 0", "begin FoldConstantPass 1", "end FoldConstantPass 1",
        "begin SubgraphRewritePass 1", "end SubgraphRewritePass 1", "end Simplify 0", "end",
    ]  # fmt: skip
    assert watch.rewrites


def test_a_pass_that_breaks_the_graph_is_named(small, watch) -> None:
    with pytest.raises(GraphError, match="after BreakTypes"):
        optimize(small, PassContext(passes=[BreakTypes()], instruments=[watch]))
    assert watch.events[-1] == "failed BreakTypesPass: GraphError"


def test_a_broken_graph_is_refused_before_the_first_pass(small) -> None:
    BreakTypes().run(small, Rewriter(small))
    with pytest.raises(GraphError, match="broken graph"):
        run_passes(small, [FoldConstant()])
