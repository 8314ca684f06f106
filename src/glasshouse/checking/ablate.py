"""What each pass and each rule brings: measured by leaving it out, all variants taking turns."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from glasshouse.errors import GlasshouseError
from glasshouse.ir.graph import Graph
from glasshouse.lower.program import Call
from glasshouse.numerics.measure import compare
from glasshouse.numerics.truth import relative, values_of
from glasshouse.numerics.widen import wide
from glasshouse.passes import PassContext
from glasshouse.passes.subgraph_rewrite import RULES
from glasshouse.record.reader import Recording
from glasshouse.record.schema import RewriteRow
from glasshouse.runtime.compiler import compile_optimized
from glasshouse.runtime.module import Module
from glasshouse.runtime.turns import take_turns
from glasshouse.show.confidence import Ratio, each_end, ratio

Say = Callable[[str], None]


@dataclass(frozen=True)
class Left:
    """The model without one pass or rule; "" is the model with all of them."""

    name: str
    seconds: float  # the median
    slower: Ratio | None  # over the whole; None for the whole itself and what is the same
    same: bool  # whether its code is the whole's: then its time is, too
    error: float  # of the results against float64
    kernels: int
    nodes: int
    bytes: float  # that kernels move
    arena: int
    compile_seconds: float


def ablate(
    graph: Graph, inputs: Sequence[Any], target: str = "cpu", rounds: int = 30,
    rules: bool = True, say: Say | None = None,
) -> tuple[list[Left], list[str], Module]:  # fmt: skip
    """The whole and every variant, the most valuable first; and what could not be left out."""
    tell = say or (lambda text: None)
    whole, took = _compiled(graph, target, PassContext(target=target))
    built: list[tuple[str, Module, float]] = [("", whole, took)]
    refused: list[str] = []
    for name, make in _variants(whole, target, rules):
        tell(f"without {name}")
        try:
            module, took = _compiled(graph, target, make())
            built.append((name, module, took))
        except GlasshouseError as error:
            refused.append(f"{name}: {error.message}")
    tell(f"{rounds} turns of {len(built)} programs")
    arrays = whole.arguments(inputs)
    with ExitStack() as stack:  # errors are those of one state, which training would change
        for _, module, _ in built:
            stack.enter_context(module.unchanged())
        timed = [m for i, (_, m, _) in enumerate(built) if i == 0 or not same_code(whole, m)]
        times = take_turns([partial(m.run_flat, arrays) for m in timed], rounds)
    clock = {id(m): times[:, i] for i, m in enumerate(timed)}
    truth = values_of(graph, arrays, whole.held())
    sure = each_end(len(timed) - 1)
    out = [
        _row(name, module, took, clock.get(id(module)), times[:, 0], sure, arrays, truth)
        for name, module, took in built
    ]
    return [out[0], *sorted(out[1:], key=lambda r: (r.same, -r.seconds))], refused, whole


def same_code(a: Module, b: Module) -> bool:
    """Whether two modules run the same kernels in the same order on the same places of memory."""
    return a.source.main == b.source.main and dict(a.source.kernels) == dict(b.source.kernels)


def into_recording(recording: Recording, rows: Sequence[Left]) -> Recording:
    """The recording with what each pass brings among its facts."""
    from glasshouse.record.writer import RecordingBuilder

    builder = RecordingBuilder.of(recording)
    for row in rows:
        if row.same:
            builder.facts[f"without {row.name}"] = f"the same code, error {row.error:.1e}"
        elif row.slower is not None:
            builder.facts[f"without {row.name}"] = (
                f"{row.slower.middle:.2f} of the time ({row.slower.low:.2f} to "
                f"{row.slower.high:.2f}), {row.kernels} kernels, error {row.error:.1e}"
            )
    return builder.finish()


def _compiled(graph: Graph, target: str, ctx: PassContext) -> tuple[Module, float]:
    begin = time.perf_counter()
    with ctx:
        module = compile_optimized(graph, target)
    return module, time.perf_counter() - begin


def _variants(
    whole: Module, target: str, rules: bool
) -> list[tuple[str, Callable[[], PassContext]]]:
    """Passes, and rules that did something, each with the context that leaves it out."""
    out: list[tuple[str, Callable[[], PassContext]]] = []

    def without(name: str) -> Callable[[], PassContext]:
        def make() -> PassContext:
            ctx = PassContext(target=target)
            ctx.skip(name)
            return ctx

        return make

    def without_rule(rule: str) -> Callable[[], PassContext]:
        options = {"subgraph_rewrite": {"skip": (rule,)}}
        return lambda: PassContext(target=target, options=options)

    passes = PassContext(target=target).pipeline()
    out += [(f"pass {p.name}", without(p.name)) for p in passes]
    base = whole.base_recording
    if rules and base is not None:
        fired = Counter(r.rule for g in base.graphs for r in g.table(RewriteRow))
        out += [(f"rule {r}", without_rule(r)) for r in fired if r in RULES]
    return out


def _row(
    name: str, module: Module, took: float, times: Any, base: Any, sure: float, arrays: Any,
    truth: Any,
) -> Left:  # fmt: skip
    with module.unchanged():
        made = [np.array(a) for a in module.run_flat(arrays)]
    wanted = [truth.by_place[p] for p in truth.results[: len(made)]]
    pairs = zip(made, wanted, module.graph.outputs, strict=True)
    errors = [relative(compare(wide(a, v.type.dtype), b)) for a, b, v in pairs]
    calls = [s for s in module.program.steps if isinstance(s, Call)]
    return Left(
        name, float(np.median(base if times is None else times)),
        ratio(base, times, sure) if name and times is not None else None, times is None,
        max(errors, default=math.nan), len(module.program.steps), len(module.graph),
        float(sum(float(c.bytes_read + c.bytes_written) for c in calls)), module.plan.arena_bytes,
        took,
    )  # fmt: skip
