"""Whether a compiled model is right, from the model's own code to the last kernel.

Three comparisons make a chain: PyTorch in float64 with the traced graph, the traced graph with the
graph after each pass, and each kernel with the ops that it computes. A fault breaks one link, and
that link has a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from glasshouse.checking.alarms import alarms
from glasshouse.checking.blame import blame, differs_from
from glasshouse.checking.cases import Case, cases
from glasshouse.checking.draws import draw_findings, drawing_ops
from glasshouse.checking.finding import Finding, place
from glasshouse.checking.frontend import frontend_findings, is_eager, type_findings, with_inputs
from glasshouse.checking.memory import plan_findings, run_findings
from glasshouse.checking.origins import origin_findings
from glasshouse.checking.stray import stray_findings
from glasshouse.checking.training_step import step_findings
from glasshouse.errors import GlasshouseError
from glasshouse.ir.dtype import from_storage
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.rewriter import Place
from glasshouse.numerics.measure import compare
from glasshouse.numerics.tolerance import tolerance_of
from glasshouse.numerics.truth import relative, values_of
from glasshouse.numerics.widen import Array, wide
from glasshouse.numpy_ref import run
from glasshouse.ops.random import RUN_SEED
from glasshouse.record.titles import full_titles
from glasshouse.runtime.accuracy import Accuracy, measure_accuracy
from glasshouse.runtime.module import Module, step_name
from glasshouse.runtime.seeds import repeated_draws
from glasshouse.runtime.stage_errors import StageError

Say = Callable[[str], None]


@dataclass
class CaseResult:
    """One set of inputs: the largest error of the results, and what the model's own type gives."""

    name: str
    error: float
    reference: float  # of the traced graph in its own types; NaN where it was not needed


@dataclass
class Verdict:
    """What was tried, and what was found."""

    name: str
    kernels: int
    cases: list[CaseResult] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not any(f.fails for f in self.findings)

    def add(self, found: Sequence[Finding], inputs: str = "") -> None:
        """Keep what is new: a fault that other inputs have shown already is the same one."""
        known = {f.culprit for f in self.findings}
        self.findings += [f.on(inputs) if inputs else f for f in found if f.culprit not in known]


@dataclass(frozen=True)
class Subject:
    """A model, its graph, and what it is called with."""

    name: str
    graph: Graph
    model: Any = None
    args: Sequence[Any] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[Any] | None = None  # of the graph; None: nobody gave any
    training: tuple[Any, Any] | None = None  # loss and optimiser, where it is a training step


def check(
    subject: Subject, module: Module, tolerance: float | None = None, say: Say | None = None
) -> Verdict:
    """Everything that can be compared, on all cases; `say` is called with the progress.

    What a run updates is compared from the state behind a first run on: the momentum of an
    optimiser is 0 before it, and what is done to it would not show.
    """
    with repeated_draws(), module.unchanged():
        if module.graph.updates and subject.inputs is not None:
            module.run_flat(module.arguments(subject.inputs))
        return _checked(subject, module, tolerance, say)


def _checked(subject: Subject, module: Module, tolerance: float | None, say: Say | None) -> Verdict:
    tell = say or (lambda text: None)
    out = Verdict(subject.name, len(module.program.kernels))
    given = None if subject.inputs is None else numbers_of(module, subject.inputs)
    tell("frontend")
    _check_frontend(subject, given, out)
    out.add(plan_findings(module))
    out.add(alarms(module))
    out.add(origin_findings(module))
    tried = list(cases(subject.graph, given))
    for case in tried:
        tell(case.name)
        try:
            _check_case(module, case, tolerance, out)
        except GlasshouseError as error:
            if case.name == "given":
                raise
            out.notes.append(f"not run on {case.name} inputs: {error.message}")
    found = run_findings(module, tried[0].inputs)
    if not found and not module.backend.elsewhere:
        found = stray_findings(module, tried[0].inputs)
    out.add(found, tried[0].name)
    return out


def numbers_of(module: Module, inputs: Sequence[Any]) -> list[Array]:
    """Inputs as numbers: those of types that NumPy lacks lie in memory as whole numbers."""
    stored = module.arguments(inputs)
    return [
        np.asarray(from_storage(a, v.type.dtype))
        for a, v in zip(stored, module.graph.inputs, strict=True)
    ]


def _check_frontend(subject: Subject, given: Sequence[Array] | None, out: Verdict) -> None:
    if given is None or not is_eager(subject.model, subject.args):
        return
    if subject.training is not None:
        found, said = step_findings(
            subject.model, *subject.training, subject.args, subject.keywords, subject.graph, given
        )
        out.add(found, "given")
        out.notes += [said] if said else []
        return
    if drawing_ops(subject.graph):
        found, said = draw_findings(
            subject.model, subject.args, subject.keywords, subject.graph, given
        )
        out.add(found, "given")
        if said:
            out.notes.append(said)
        return
    said = ""
    out.add(type_findings(subject.model, subject.args, subject.keywords, subject.graph), "given")
    for case in cases(subject.graph, given, seeds=1):
        truth = values_of(subject.graph, case.inputs)
        args, keywords = with_inputs(subject.args, subject.keywords, case.inputs)
        found, text = frontend_findings(subject.model, args, keywords, subject.graph, truth)
        out.add(found, case.name)
        said = said or text
        if found:
            return
    if said:
        out.notes.append(said)


def _check_case(module: Module, case: Case, tolerance: float | None, out: Verdict) -> None:
    measured = measure_accuracy(module, case.inputs, tolerance)
    found = _pass_findings(module, case, measured, tolerance)
    found += _kernel_findings(module, measured)
    result = _results(module, case, measured, tolerance)
    out.cases.append(result)
    limit = _limit(module, tolerance, result)
    nan = measured.first
    if nan is not None:
        ours = math.isinf(result.error) and math.isfinite(result.reference)
        what = f"first {nan}" if ours else f"first {nan}; the model's own type overflows"
        found.append(Finding("NaN", what, nan.op, place(nan.node), kernel=nan.kernel, fails=ours))
    elif measured.own_nan is not None:
        nan = measured.own_nan
        what = f"first {nan}; the model gives it in float64, too"
        found.append(Finding("NaN", what, nan.op, place(nan.node), fails=False))
    if not any(f.fails for f in found) and result.error > limit:
        found.append(_unexplained(module, case, measured, result, limit))
    out.add(found, case.name)


def _unexplained(
    module: Module, case: Case, measured: Accuracy, result: CaseResult, limit: float
) -> Finding:
    """Results that are wrong with every kernel within its bound.

    Behind a kernel whose inputs lie on a step (what is rounded halfway, what is compared with its
    equal) the bound allows either side; it is to blame if it took the other one. At an edge (a
    variance of 0) what each kernel rounds may be divided by an epsilon later: no fault.
    """
    far = [k for k in measured.kernels if k.own > limit and not k.overflows]
    if case.usual and far:
        (found,) = _kernel_findings(
            module, replace(measured, kernels=[replace(far[0], tolerance=0.0)])
        )
        return replace(found, what=f"{found.what}, on the other side of a step", tolerance=limit)
    what = "the results are further from float64 than rounding explains, though no pass and no "
    what += "kernel is"
    return Finding("output", what, error=result.error, tolerance=limit, fails=case.usual)


def _limit(module: Module, tolerance: float | None, result: CaseResult) -> float:
    """Ten times what the model itself loses in its own types, and at least the tolerance."""
    least = tolerance_of(module.graph) if tolerance is None else tolerance
    return max(least, 10 * result.reference) if math.isfinite(result.reference) else math.inf


def _results(module: Module, case: Case, measured: Accuracy, tolerance: float | None) -> CaseResult:
    """How far the results of a plain call are from the traced graph in float64."""
    lineage = module.lineage
    traced = module.graph if lineage is None else lineage.traced
    held = module.held()
    with module.unchanged():
        made = [np.array(a) for a in module.run_flat(case.inputs)]
        new = module.held()
        made += [np.array(new[n.attrs["name"] or f"%{n.id}"]) for n in traced.updates]
    truth = values_of(traced, module.arguments(case.inputs), held)
    wanted = [truth.by_place[p] for p in truth.results]
    results = [*traced.outputs, *traced.updates.values()]
    seeds = {v for n, v in traced.updates.items() if n.attrs["name"] == RUN_SEED}
    pairs = [
        p for p in zip(made, wanted, results, strict=True)
        if p[1].shape == p[0].shape and p[2] not in seeds  # the next run draws its own
    ]  # fmt: skip
    error = max((relative(compare(wide(a, v.type.dtype), b)) for a, b, v in pairs), default=0.0)
    least = tolerance_of(module.graph) if tolerance is None else tolerance
    if error <= least:
        return CaseResult(case.name, error, math.nan if measured.first is None else 0.0)
    state = {
        n.attrs["name"] or f"%{n.id}": from_storage(held[n.attrs["name"] or f"%{n.id}"],
        n.output.type.dtype) for n in traced.updates if (n.attrs["name"] or f"%{n.id}") in held
    }  # fmt: skip
    plain = run(traced, module.arguments(case.inputs), variables=state)
    plain += [state[n.attrs["name"] or f"%{n.id}"] for n in traced.updates]
    reference = max(
        (relative(compare(np.asarray(a), b)) for a, b in zip(plain, wanted, strict=True)),
        default=0.0,
    )
    return CaseResult(case.name, error, reference)


def _pass_findings(
    module: Module, case: Case, measured: Accuracy, tolerance: float | None
) -> list[Finding]:
    """The first pass after which the graph is wrong, with the rule and the op that made it so."""
    wrong = next((s for s in measured.stages if s.wrong), None)
    lineage = module.lineage
    if wrong is None or lineage is None:
        return []
    arrays, held = module.arguments(case.inputs), module.held()
    truth = values_of(lineage.traced, arrays, held)
    test = differs_from(truth, arrays, held, wrong.tolerance)
    found = blame(lineage, wrong.pass_.name, test)
    node = found.node if found else _traced_node(lineage.traced, lineage.stands_for, wrong)
    name = wrong.pass_.name
    what = f"{wrong.pass_.title} changes what the model computes"
    if found and found.rewrites:
        last = found.rewrites[-1]
        many = len(found.rewrites)
        what += f": {last.why}" if many == 1 else f": {many} rewrites together, last: {last.why}"
    return [
        Finding(
            "pass", what, node.op.name if node else "", place(node) if node else "", name,
            found.rule if found else "", error=wrong.error, tolerance=wrong.tolerance,
        )
    ]  # fmt: skip


def _traced_node(
    traced: Graph, stands_for: Mapping[Place, Place], wrong: StageError
) -> Node | None:
    at = wrong.first or wrong.place
    return traced.find(stands_for.get(at, at)[0])


def _kernel_findings(module: Module, measured: Accuracy) -> list[Finding]:
    """The first kernel whose own error is more than rounding: what follows reads its result."""
    bad = next((k for k in measured.kernels if k.past), None)
    if bad is None:
        return []
    number = next((i for i, s in enumerate(module.program.steps) if s.node is bad.node), -1)
    if number < 0:
        return [
            Finding(
                "memory", "a value shares the memory of another, and is not what lies there",
                bad.node.op.name, place(bad.node), pass_name="mark_views", error=bad.own,
                tolerance=0.0,
            )
        ]  # fmt: skip
    step = module.program.steps[number]
    title = full_titles(s.node for s in module.program.steps)[number]
    wrong = f", {bad.wrong} elements are not finite" if bad.wrong else ""
    wrong += f", {bad.differ} whole numbers differ" if bad.differ else ""
    return [
        Finding(
            "kernel", f"{title} does not compute its ops{wrong}", bad.node.op.name,
            place(bad.node), kernel=step_name(step), error=bad.own, tolerance=bad.tolerance,
        )
    ]  # fmt: skip
