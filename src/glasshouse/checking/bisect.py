"""Narrows a failure: to the pass, the rule and the rewrite, or the kernel and the op, and to the
smallest graph that shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from glasshouse.checking.blame import Blame, blame, differs_from
from glasshouse.checking.cases import Case, cases
from glasshouse.checking.check import Subject, Verdict, check, numbers_of
from glasshouse.checking.finding import Finding
from glasshouse.checking.smallest import WrongPart, of_kernel, of_rewrite
from glasshouse.errors import GlasshouseError
from glasshouse.ir.graph import Graph
from glasshouse.numerics.tolerance import tolerance_of
from glasshouse.numerics.truth import values_of
from glasshouse.numerics.widen import Array
from glasshouse.passes import PassContext
from glasshouse.runtime.accuracy import measure_accuracy
from glasshouse.runtime.compiler import compile_optimized
from glasshouse.runtime.module import Module, step_name

Say = Callable[[str], None]


@dataclass
class Narrowed:
    """What a failure came down to."""

    verdict: Verdict
    finding: Finding | None = None
    cures: list[str] = field(default_factory=list)  # passes and rules that help when left out
    rewrites: list[str] = field(default_factory=list)
    part: WrongPart | None = None


def bisect(
    subject: Subject, module: Module, target: str, tolerance: float | None = None,
    say: Say | None = None,
) -> Narrowed:  # fmt: skip
    """Check, and narrow down the first thing that is wrong; from the state behind a first run."""
    with module.unchanged():
        if module.graph.updates and subject.inputs is not None:
            module.run_flat(module.arguments(subject.inputs))
        return _narrowed(subject, module, target, tolerance, say)


def _narrowed(
    subject: Subject, module: Module, target: str, tolerance: float | None, say: Say | None
) -> Narrowed:
    tell = say or (lambda text: None)
    verdict = check(subject, module, tolerance, say)
    found = next((f for f in verdict.findings if f.fails), None)
    out = Narrowed(verdict, found)
    if found is None or found.kind == "frontend":
        return out
    case = _case(subject, module, found.inputs)

    def fails(graph: Graph, inputs: Sequence[Array]) -> bool:
        try:
            made = compile_optimized(graph, target, tune=False)
        except GlasshouseError:
            return False
        alone = Subject("part", graph, inputs=inputs)
        return not check(alone, made, tolerance).good

    tell("leaving out passes, one at a time")
    out.cures = _cures(subject, case, target, tolerance)
    if found.kind == "pass":
        guilty = _blamed(module, case, found, tolerance)
        if guilty is not None:
            rules = list(dict.fromkeys(s.rule for s in guilty.rewrites if s.rule))
            out.cures += _rules_that_cure(subject, case, target, tolerance, rules)
            out.rewrites = [
                f"{s.pass_name} {s.rule}: {', '.join(f'%{i}' for i in s.before)} -> "
                f"{', '.join(f'%{i}' for i in s.after) or 'nothing new'} ({s.why})"
                for s in guilty.rewrites
            ]
            tell("looking for the smallest graph")
            out.part = of_rewrite(guilty, _before_inputs(module, case), fails)
    elif found.kernel:
        tell("looking for the smallest graph")
        named = found.kernel
        steps = [s for s in module.program.steps if step_name(s) == named]
        every = measure_accuracy(module, case.inputs).kernels
        bad = next((k for k in every if k.past or any(s.node is k.node for s in steps)), None)
        if bad is not None:
            out.part = of_kernel(module, bad.node, case.inputs, fails)
    if out.part is not None:
        ops = [n for n in out.part.graph.nodes if n.inputs]
        if found.kind == "kernel" and len(ops) == 1:
            out.finding = replace(found, op=ops[0].op.name)
    return out


def _before_inputs(module: Module, case: Case) -> list[Array]:
    return list(module.arguments(case.inputs))


def _case(subject: Subject, module: Module, name: str) -> Case:
    given = None if subject.inputs is None else numbers_of(module, subject.inputs)
    every = list(cases(subject.graph, given))
    return next((c for c in every if c.name == name), every[0])


def _blamed(module: Module, case: Case, found: Finding, tolerance: float | None) -> Blame | None:
    lineage = module.lineage
    if lineage is None:
        return None
    arrays, held = module.arguments(case.inputs), module.held()
    truth = values_of(lineage.traced, arrays, held)
    limit = tolerance_of(module.graph) if tolerance is None else tolerance
    test = differs_from(truth, arrays, held, limit)
    return blame(lineage, found.pass_name, test, budget=64)


def _is_right(
    subject: Subject, case: Case, target: str, tolerance: float | None, ctx: PassContext
) -> bool:
    try:
        with ctx:
            module = compile_optimized(subject.graph, target, tune=False)
        return check(Subject("", subject.graph, inputs=case.inputs), module, tolerance).good
    except GlasshouseError:
        return False


def _cures(subject: Subject, case: Case, target: str, tolerance: float | None) -> list[str]:
    """Passes without which the model is right, on the inputs that show the fault."""
    out = []
    for pass_ in PassContext(target=target).pipeline():
        ctx = PassContext(target=target)
        ctx.skip(pass_.name)
        if _is_right(subject, case, target, tolerance, ctx):
            out.append(f"pass {pass_.name}")
    return out


def _rules_that_cure(
    subject: Subject, case: Case, target: str, tolerance: float | None, rules: Sequence[str]
) -> list[str]:
    from glasshouse.passes.subgraph_rewrite import RULES

    out = []
    for rule in rules:
        if rule not in RULES:
            continue
        ctx = PassContext(target=target, options={"subgraph_rewrite": {"skip": (rule,)}})
        if _is_right(subject, case, target, tolerance, ctx):
            out.append(f"rule {rule}")
    return out
