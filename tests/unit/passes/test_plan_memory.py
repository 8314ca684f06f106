"""Where values lie: never two living ones in one place, and no more memory than needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings

from generators import Case, cases
from glasshouse.ir import Graph, GraphBuilder, Value
from glasshouse.lower.plan import Arrival, MemoryPlan, upper_bytes
from glasshouse.lower.program import Call, Packed, Program
from glasshouse.passes import PassContext, optimize
from glasshouse.passes.pipeline import optimize_program
from glasshouse.passes.plan_memory import plan_memory


def program_of(graph: Graph, **options: object) -> Program:
    ctx = PassContext(options={"resolve_variant": {"measure": "none"}, "plan_memory": options})
    return optimize_program(graph, ctx, over_graph=False)


def lifetimes(program: Program) -> dict[Value, tuple[int, int]]:
    """From the step that makes a value to the last one that reads it or a view of it."""
    out: dict[Value, tuple[int, int]] = {}
    for i, step in enumerate(program.steps):
        reads = step.inputs if isinstance(step, Call) else step.node.inputs
        for operand in (*reads, *step.node.outputs):
            if not isinstance(operand, Packed):
                value = program.buffer_of(operand)
                out[value] = (out.get(value, (i, i))[0], i)
    return out


def check(program: Program, plan: MemoryPlan) -> None:
    lives = lifetimes(program)
    size = {v: upper_bytes(v.type.nbytes) for v in plan.arena}
    placed = list(plan.arena)
    for i, a in enumerate(placed):
        for b in placed[i + 1 :]:
            (begin_a, end_a), (begin_b, end_b) = lives[a], lives[b]
            if begin_b <= end_a and begin_a <= end_b:
                x, y = plan.arena[a], plan.arena[b]
                assert x + size[a] <= y or y + size[b] <= x, (a, b)
    for value, offset in plan.arena.items():
        assert offset % 64 == 0
        assert offset + size[value] <= plan.work_offset
    assert plan.work_offset <= plan.tensor_bytes


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(max_ops=20))
def test_living_values_never_share_memory(case: Case) -> None:
    for graph in (case.graph, optimize(case.graph)):
        program = program_of(graph)
        check(program, program.memory)
        check(program, plan_memory(program, reuse=False))


def chain(count: int) -> Graph:
    b = GraphBuilder()
    x = b.input("float32", (16, 16))
    for _ in range(count):
        x = x.apply("softmax")
    return b.finish(x)


def test_a_long_chain_needs_two_buffers() -> None:
    program = program_of(chain(50))
    assert program.memory.work_offset == 2 * 16 * 16 * 4
    assert program.memory.tensor_bytes == 49 * 16 * 16 * 4
    assert plan_memory(program, reuse=False).work_offset == 49 * 16 * 16 * 4


def test_many_values_are_planned_too() -> None:
    assert program_of(chain(3000)).memory.work_offset == 2 * 16 * 16 * 4


def test_a_variable_is_written_over_its_old_value_only_when_allowed() -> None:
    b = GraphBuilder()
    x = b.input("float32", (16,))
    total = b.variable(np.zeros(16, np.float32), name="total")
    b.update(total, total + x)
    graph = b.finish(x * 2.0)
    assert [u.how for u in program_of(graph).memory.updates] == [Arrival.IN_PLACE]
    assert [u.how for u in program_of(graph, in_place=False).memory.updates] == [Arrival.TURNS]


def test_outputs_lie_in_the_callers_memory() -> None:
    b = GraphBuilder()
    x = b.input("float32", (4, 4))
    y = x.apply("softmax")
    plan = program_of(b.finish(y, y, x)).memory
    assert plan.direct == [True, False, False]
    assert not plan.arena


def test_without_the_pass_no_memory_is_used_twice() -> None:
    ctx = PassContext()
    ctx.skip("plan_memory")
    program = optimize_program(chain(5), ctx)
    again = replace(program, plan=plan_memory(program))
    assert program.memory.work_offset == 2 * again.memory.work_offset
    assert "plan_memory" not in ctx.results


def test_what_was_decided_is_kept_in_the_context() -> None:
    ctx = PassContext()
    program = optimize_program(chain(3), ctx)
    assert ctx.results["plan_memory"] is program.plan
    assert ctx.results["mark_views"] is program.aliases
    assert ctx.results["assign_layouts"] is program.orders
