"""Passes by name, their options, and their place in a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from glasshouse.backend.base import target_named
from glasshouse.errors import PassError, Unsupported
from glasshouse.ir import Graph, Rewriter
from glasshouse.lower.target import Target
from glasshouse.passes import PIPELINE, Pass, PassContext, pass_named, register_pass
from glasshouse.passes.base import PASSES
from glasshouse.passes.fuse_operator import FuseOperator

MINE = Target("cpu", cores=3, operations=1e9, bandwidth=1e9, launch=1e-6)


@dataclass(frozen=True)
class DoNothing(Pass):
    """Leave the graph
    as it is."""

    times: int = 1

    def run(self, graph: Graph, rw: Rewriter) -> None:
        pass


@pytest.fixture
def registered():
    before = list(PIPELINE)
    register_pass(after="fold_constant")(DoNothing)
    yield
    PASSES.pop("do_nothing")
    PIPELINE[:] = before


def test_a_pass_names_and_describes_itself() -> None:
    made = DoNothing(times=3)
    assert made.name == "do_nothing"
    assert made.title == "DoNothingPass"
    assert made.doc == "Leave the graph as it is."
    assert made.options() == {"times": "3"}


def test_the_default_pipeline_is_in_order() -> None:
    wanted = ["fold_constant", "subgraph_rewrite", "auto_mix_precision", "fuse_operator",
              "eliminate_barrier", "assign_layouts", "mark_views", "resolve_variant",
              "plan_memory"]  # fmt: skip
    assert [name for name in PIPELINE if name in wanted] == wanted
    assert all(PASSES[name].__doc__ for name in PIPELINE)


def test_a_registered_pass_takes_its_place(registered) -> None:
    assert PIPELINE.index("do_nothing") == PIPELINE.index("fold_constant") + 1
    assert DoNothing() in PassContext().pipeline()


def test_registering_again_changes_nothing(registered) -> None:
    register_pass(after="fold_constant")(DoNothing)
    assert PIPELINE.count("do_nothing") == 1


def test_another_pass_of_the_same_name_is_refused(registered) -> None:
    other = dataclass(frozen=True)(type("DoNothing", (DoNothing,), {"__qualname__": "Other"}))
    with pytest.raises(PassError, match="already"):
        register_pass()(other)


def test_options_come_as_values_or_text() -> None:
    assert pass_named("fuse_operator", {"max_inputs": "5"}) == FuseOperator(max_inputs=5)
    assert pass_named("FuseOperatorPass", {"max_inputs": 5}).max_inputs == 5
    assert pass_named("fuse_operator", {"copies": "False"}).copies is False
    assert pass_named("subgraph_rewrite", {"skip": "('add-negative',)"}).skip == ("add-negative",)
    assert pass_named("subgraph_rewrite", {"target": "cpu"}).target.name == "cpu"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("no_such_pass", {}, "there is no pass 'no_such_pass'"),
        ("fuse_operator", {"inputs": "5"}, "has no option 'inputs'"),
        ("fuse_operator", {"max_inputs": "many"}, "must be int, got 'many'"),
    ],
)
def test_mistakes_in_options_are_named(name, options, said) -> None:
    with pytest.raises(PassError, match=said):
        pass_named(name, options)


def test_a_context_places_skips_and_configures() -> None:
    ctx = PassContext(options={"fuse_operator": {"max_ops": 7}}, target=MINE)
    ctx.insert(DoNothing(), before="fuse_operator")
    ctx.skip("plan_memory", "mark_views")
    passes = {p.name: p for p in ctx.pipeline()}
    names = list(passes)
    assert names.index("do_nothing") == names.index("fuse_operator") - 1
    assert "plan_memory" not in passes
    assert passes["fuse_operator"].max_ops == 7
    assert passes["fuse_operator"].target.cores == MINE.cores
    assert "plan_memory" in [p.name for p in PassContext().pipeline()]


def test_mistakes_in_a_context_are_named() -> None:
    with pytest.raises(PassError, match="after 'nowhere'"):
        PassContext().insert("fold_constant", after="nowhere")
    with pytest.raises(PassError, match="no pass 'nowhere' to leave out"):
        PassContext().skip("nowhere")
    with pytest.raises(PassError, match="unknown passes: nowhere"):
        PassContext(options={"nowhere": {}}).pipeline()
    with pytest.raises(PassError, match="precision must be"):
        PassContext(precision="int8")


def test_contexts_nest() -> None:
    assert PassContext.current() is None
    with PassContext() as outer:
        with PassContext() as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current() is None


def test_a_target_weighs_operations_against_bytes() -> None:
    target = Target("t", cores=1, operations=100.0, bandwidth=10.0, launch=1.0)
    assert target.operations_per_byte == 10
    assert target.launch_bytes == 10
    assert target.seconds(operations=200, bytes=10) == 3
    assert target.seconds(operations=0, bytes=100) == 11


def test_a_target_that_is_not_there_is_refused_and_never_a_label() -> None:
    for ask in (target_named, lambda name: PassContext(target=name)):
        with pytest.raises(Unsupported, match="there is no target 'vulkan'"):
            ask("vulkan")
    with pytest.raises(Unsupported, match="no target 'tpu'"):
        PassContext(target=Target("tpu", cores=1, operations=1.0, bandwidth=1.0, launch=1.0))


def test_own_figures_take_the_tables_of_the_backend_of_their_name() -> None:
    whole = PassContext(target=MINE).target
    assert whole.cores == 3
    assert "matmul" in whole.tiles
