"""Each pass on small printed graphs: tests/golden/<pass>/<case>.txt holds before and after.

To write all results anew, GLASSHOUSE_UPDATE_GOLDEN=1 pytest tests/golden, and then read the diff.
Constants get the same random data in every run, and each case is also run: the numbers after the
pass are those before it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from glasshouse.ir import CONSTANT, VARIABLE, Graph, Value, parse_graph, print_graph, verify
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.printer import value_names
from glasshouse.lower.program import Call, Program
from glasshouse.numerics import compare_all, random_inputs, tolerance_of
from glasshouse.numpy_ref import run
from glasshouse.passes import PIPELINE, Instrument, Target, pass_named
from glasshouse.passes.base import Pass, ProgramPass
from glasshouse.passes.context import PassContext
from glasshouse.passes.lower import Lower
from glasshouse.passes.pipeline import apply_pass
from glasshouse.passes.subgraph_rewrite import RULES

FOLDER = Path(__file__).parent
CASES = sorted(FOLDER.glob("*/*.txt"))
MACHINE = Target("cpu", cores=4, operations=200e9, bandwidth=48e9, launch=2e-6)  # whatever runs it
UPDATE = os.environ.get("GLASSHOUSE_UPDATE_GOLDEN")


class Decisions(Instrument):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def rewritten(self, graph, step) -> None:
        self.lines.append(f"+ {step.rule}: {step.why}")

    def rejected(self, graph, step) -> None:
        self.lines.append(f"- {step.rule}: {step.why}")


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_golden(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    head, before, wanted = _parts(text)
    options: dict[str, object] = dict(re.findall(r"^# option (\w+) = (.*)$", head, re.MULTILINE))
    graph = parse_graph(before)
    _fill(graph)
    inputs = random_inputs(graph)
    outputs = run(graph, inputs)
    after = graph.copy()
    watch = Decisions()
    if "target" in pass_named(path.parent.name).options():
        options["target"] = MACHINE
    pass_ = pass_named(path.parent.name, options)
    decided = _decided(pass_, after) if isinstance(pass_, ProgramPass) else []
    if not isinstance(pass_, ProgramPass):
        apply_pass(pass_, after, [watch])
    printed = print_graph(after, bodies=True)
    got = "\n".join([printed, *decided, *_unique(watch.lines)])
    assert compare_all(run(after, inputs), outputs).scaled <= tolerance_of(after)
    verify(after)
    if UPDATE:
        path.write_text(f"{head}before:\n{before}\nafter:\n{got}\n", encoding="utf-8")
    else:
        assert got == wanted
    assert parse_graph(printed), "what a pass leaves can be read back"


def _parts(text: str) -> tuple[str, str, str]:
    head, _, rest = text.partition("before:\n")
    before, _, after = rest.partition("\nafter:\n")
    return head, before.strip("\n"), after.strip("\n")


def _unique(lines: list[str]) -> list[str]:
    return list(dict.fromkeys(lines))


def _fill(graph: Graph) -> None:
    """Random data for constants without data; positive, so that it may be a variance."""
    rng = np.random.default_rng(0)
    for node in graph.nodes:
        if node.op in (CONSTANT, VARIABLE) and node.attrs["data"] is None:
            shape = [int(str(d)) for d in node.output.type.shape]
            dtype = node.output.type.dtype
            data = rng.uniform(0.5, 1.5, shape) if dtype.is_float else rng.integers(0, 2, shape)
            node.attrs["data"] = to_storage(data.astype(dtype.carrier), dtype)


def _decided(pass_: Pass, graph: Graph) -> list[str]:
    """What a pass over programs wrote into one, with the names of the printed graph."""
    ctx = PassContext(target=MACHINE, options={"resolve_variant": {"measure": "none"}})
    names: dict[Value, str] = value_names(graph)
    program = Program(graph)
    for step in [*ctx.pipeline(), Lower()]:
        if isinstance(step, ProgramPass) and not step.lowered and step.name != pass_.name:
            program = step.decide(program, ctx)
    if not pass_.lowered:
        program = pass_.decide(program, ctx)
    program = Lower().decide(program, ctx)
    if pass_.lowered:
        program = pass_.decide(program, ctx)
    if pass_.name == "assign_layouts":
        return [f"= {names[v]} lies as {list(o)}" for v, o in program.orders.items()]
    if pass_.name == "mark_views":
        lines = [f"= {names[v]} is {names[w]}" for v, w in program.aliases.items()]
        return [*lines, f"= {len(program.steps)} kernels"]
    if pass_.name == "resolve_variant":
        return [
            f"= {names[step.outputs[0]]} by {choice.name} of {[c.name for c in choice.candidates]}"
            for step in program.steps
            if isinstance(step, Call)
            for choice in step.choices
        ]
    plan = program.memory
    lines = [f"= arena {plan.work_offset}, sum {plan.tensor_bytes}"]
    lines += [f"= {names[v]} at {offset}" for v, offset in plan.arena.items()]
    lines += [f"= {names[v]} in place {p} of the table" for v, p in plan.table.items()]
    lines += [f"= {names[v]} without bound" for v in plan.unbounded]
    lines += [
        f"= {names[u.variable.output]} becomes {names[u.new]} {u.how.value}" for u in plan.updates
    ]
    return [*lines, f"= outputs written by kernels: {plan.direct}"]


def test_every_rule_and_pass_has_a_case() -> None:
    used = {
        line[2:].partition(":")[0]
        for path in FOLDER.glob("subgraph_rewrite/*.txt")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("+ ")
    }
    assert set(RULES) <= used
    assert {path.parent.name for path in CASES} >= set(PIPELINE) - {"recompute"}
