"""Where values lie: never two living ones in one place, and no more room than needed."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from generators import Case, cases
from glasshouse.ir import Graph, GraphBuilder, Kind, Value
from glasshouse.passes import PassContext, optimize
from glasshouse.passes.mark_views import find_views
from glasshouse.passes.plan_memory import MemoryPlan, plan_memory


def lifetimes(graph: Graph, plan: MemoryPlan) -> dict[Value, tuple[int, int]]:
    """From the node that makes a value to the last one that reads it or a view of it."""
    out: dict[Value, tuple[int, int]] = {}
    for i, node in enumerate(graph.nodes):
        for value in node.inputs:
            base = plan.views.base(value)
            if base in out:
                out[base] = (out[base][0], i)
        for value in node.outputs:
            if node.op.kind is not Kind.SOURCE and value not in plan.views.views:
                out[value] = (i, i)
    return out


def check(graph: Graph, plan: MemoryPlan) -> None:
    lives = lifetimes(graph, plan)
    placed = [v for v in lives if v in plan.slots]
    for i, a in enumerate(placed):
        for b in placed[i + 1 :]:
            (begin_a, end_a), (begin_b, end_b) = lives[a], lives[b]
            # A value written over its operand begins where the other ends.
            over = plan.in_place.get(b) is a
            together = begin_b < end_a if over else begin_b <= end_a
            if together and begin_a <= end_b:
                x, y = plan.slots[a], plan.slots[b]
                assert x.offset + x.size <= y.offset or y.offset + y.size <= x.offset, (a, b)
    for value, slot in plan.slots.items():
        assert slot.offset % 64 == 0
        assert slot.offset + slot.size <= plan.arena
        assert (
            slot.size >= value.type.numel * value.type.dtype.itemsize or value in plan.views.views
        )
    assert plan.live <= plan.arena <= max(plan.total, 64)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(max_ops=20))
def test_living_values_never_share_memory(case: Case) -> None:
    check(case.graph, plan_memory(case.graph))
    fused = optimize(case.graph)
    check(fused, plan_memory(fused))


def chain(count: int) -> Graph:
    b = GraphBuilder()
    x = b.input("float32", (16, 16))
    for _ in range(count):
        x = x.apply("softmax")
    return b.finish(x)


def test_a_long_chain_needs_two_buffers() -> None:
    plan = plan_memory(chain(50))
    assert plan.arena == 2 * 16 * 16 * 4
    assert plan.total == 49 * 16 * 16 * 4


def test_many_values_are_planned_too() -> None:
    plan = plan_memory(chain(3000))
    assert plan.arena == 2 * 16 * 16 * 4


def test_elementwise_ops_write_in_place_only_when_allowed() -> None:
    b = GraphBuilder()
    x = b.input("float32", (16,)).apply("softmax")
    graph = b.finish(x.apply("exp").apply("softmax"))
    exp = next(n for n in graph.nodes if n.op.name == "exp")
    assert plan_memory(graph).in_place == {exp.output: exp.inputs[0]}
    assert plan_memory(graph, in_place=False).in_place == {}


def test_outputs_and_what_they_view_lie_outside() -> None:
    b = GraphBuilder()
    x = b.input("float32", (4, 4)).apply("softmax")
    graph = b.finish(x.apply("reshape", shape=(16,)))
    plan = plan_memory(graph)
    assert [v.node.op.name for v in plan.outside] == ["softmax"]
    assert not plan.slots


def test_the_pass_gives_both_tables() -> None:
    ctx = PassContext()
    after = optimize(chain(3), ctx)
    assert ctx.results["plan_memory"].arena == plan_memory(after).arena
    assert ctx.results["mark_views"].views == find_views(after).views
