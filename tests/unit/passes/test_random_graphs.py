"""Random graphs over the registry keep their meaning under every pass and under the pipeline."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from generators import EXCLUDED, Case, case_of, cases
from glasshouse.ir import print_graph, verify
from glasshouse.ir.op import REGISTRY
from glasshouse.numerics import compare_all
from glasshouse.numpy_ref import run
from glasshouse.passes import Instrument, PassContext, optimize
from glasshouse.passes.pipeline import apply_pass

SETTINGS = settings(
    max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


def check_every_pass(case: Case, tolerance: float) -> None:
    wanted = run(case.graph, case.inputs)
    before = print_graph(case.graph)
    piped = case.graph.copy()
    for pass_ in PassContext().graph_passes():
        single = case.graph.copy()
        for graph in (single, piped):
            apply_pass(pass_, graph, [Instrument()])
            for node in graph.nodes:
                if node.op.name == "fused":
                    verify(node.attrs["body"])
            error = compare_all(run(graph, case.inputs), wanted)
            assert error.scaled <= tolerance, (
                f"{pass_.name}: {error}\n{print_graph(graph, bodies=True)}"
            )
    assert print_graph(case.graph) == before


@SETTINGS
@given(cases())
def test_meaning_is_kept(case: Case) -> None:
    check_every_pass(case, 1e-9)


@SETTINGS
@given(cases(symbolic=True, max_ops=8))
def test_meaning_is_kept_with_symbolic_sizes(case: Case) -> None:
    check_every_pass(case, 1e-9)


@settings(SETTINGS, max_examples=20)
@given(cases(dtype="float32", max_ops=8))
def test_narrow_types_stay_close(case: Case) -> None:
    wanted = run(case.graph, case.inputs)
    after = optimize(case.graph, PassContext(precision="bfloat16"))
    verify(after)
    got = run(after, case.inputs)
    assert [a.shape for a in got] == [a.shape for a in wanted]
    assert [a.dtype for a in got] == [a.dtype for a in wanted]


def test_the_generator_reaches_the_whole_registry() -> None:
    seen: set[str] = set()
    for seed in range(1500):
        seen.update(n.op.name for n in case_of(seed, 12).graph.nodes)
        if seen >= set(REGISTRY) - set(EXCLUDED):
            break
    assert set(REGISTRY) - set(EXCLUDED) - seen == set()
