"""What fused nodes hold, what they must not, and that groups never wait for each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import primitive_models
from generators import Case, cases
from glasshouse.ir import CONSTANT, Graph, GraphBuilder, Kind, Origin, print_graph
from glasshouse.numerics import compare_all, random_inputs
from glasshouse.numpy_ref import run
from glasshouse.passes import PassContext, optimize, pass_named
from glasshouse.passes.fuse_operator import anchor_of
from glasshouse.passes.pipeline import apply_pass


def fused(graph: Graph, *watching, **options) -> Graph:
    out = graph.copy()
    apply_pass(pass_named("fuse_operator", options), out, watching)
    return out


def bodies(graph: Graph) -> list[Graph]:
    return [n.attrs["body"] for n in graph.nodes if n.op.name == "fused"]


def test_nodes_inside_keep_ids_attributes_and_origins() -> None:
    before = primitive_models.bert(layers=1)
    originals = {n.id: n for n in before.nodes}
    seen = 0
    for body in bodies(fused(before)):
        for node in body.nodes:
            if node not in {v.node for v in body.inputs}:
                original = originals[node.id]
                assert (node.op, node.origin) == (original.op, original.origin)
                assert dict(node.attrs) == dict(original.attrs)
                seen += 1
            else:
                assert node.id not in originals
    assert seen > 20


def test_a_fused_node_reads_like_its_ops() -> None:
    b = GraphBuilder()
    x = b.input("float32", (8, 8))
    w = b.weight(np.ones((8, 8), np.float32))
    after = fused(b.finish((x @ w + 1.0).apply("gelu")))
    text = print_graph(after)
    assert 'FusedMatmul*(x, c, fusion="Matmul Add Gelu")' in text
    (body,) = bodies(after)
    anchor = anchor_of(body)
    assert anchor is not None
    assert anchor.op.name == "matmul"
    assert [n.output.type.numel for n in body.nodes if n.op is CONSTANT] == [1]


@pytest.mark.parametrize("rows", [(), (4,)])
def test_a_search_whose_steps_look_up_by_the_last_is_one_kernel(rows: tuple[int, ...]) -> None:
    b = GraphBuilder()
    table, x = b.input("float32", (*rows, 1000)), b.input("float32", (*rows, 100_000))
    at = (x * 8.0).cast("int64")
    for _ in range(12):  # each is read twice, at one index
        found = table.apply("gather" if rows else "take", at, axis=-1)
        at = (found > x).cast("int64") + at
    after = fused(b.finish(at))
    assert [n.op.name for n in after.nodes if n.op.kind is not Kind.SOURCE] == ["fused"]


def check_contract(graph: Graph) -> None:
    """The promises of docs/design/0004-passes.md that lowering relies on."""
    for node in graph.nodes:
        if node.op.name != "fused":
            continue
        body: Graph = node.attrs["body"]
        assert len(body.inputs) == len(node.inputs)
        anchors = [n for n in body.nodes if n.op.kind in (Kind.CONTRACTION, Kind.REDUCTION)]
        assert len(anchors) <= 1
        assert all(n.op.kind is not Kind.OPAQUE for n in body.nodes), "bodies do not nest"
        main = body.outputs[0]
        for other in body.outputs[1:]:
            assert other.type.shape == main.type.shape
        needed = {v.node for v in body.outputs}
        for inner in reversed(body.nodes):
            assert inner in needed or inner.op.kind is Kind.SOURCE
            needed.update(v.node for v in inner.inputs)
        if anchors:
            spine = {anchors[0].output}
            for inner in body.nodes:
                read = [v for v in inner.inputs if v in spine]
                if read and inner is not anchors[0]:
                    if inner.op.kind is Kind.ELEMENTWISE:
                        assert all(v.type.shape == inner.output.type.shape for v in read)
                    else:
                        assert inner.op.name in ("reshape", "permute", "rearrange")
                    spine.add(inner.output)
            assert main in spine


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases(max_ops=20))
def test_groups_keep_the_contract(case: Case) -> None:
    after = fused(case.graph)
    check_contract(after)
    for node in after.nodes:
        assert len(set(node.inputs)) == len(node.inputs) or node.op.name != "fused"
    check_contract(optimize(case.graph))


@pytest.mark.parametrize("model", ["bert", "gpt2", "vit", "llama", "resnet_block"])
def test_models_keep_the_contract(model: str) -> None:
    graph = getattr(primitive_models, model)()
    check_contract(fused(graph))
    check_contract(optimize(graph))


def test_groups_never_wait_for_each_other() -> None:
    """u feeds v directly and through w: u and v in one kernel would need w in the middle."""
    b = GraphBuilder()
    x = b.input("float32", (8, 8))
    u = x.apply("softmax").apply("exp")
    w = u.apply("softmax", axis=0)
    v = u + w
    graph = b.finish(v, u)
    after = fused(graph)  # verify, inside, would find the cycle
    inputs = random_inputs(graph)
    assert compare_all(run(after, inputs), run(graph, inputs)).scaled < 1e-6


def test_partitions_are_never_mixed(watch) -> None:
    b = GraphBuilder()
    x = b.input("float32", (8, 8))
    with b.at(Origin(labels=(("partition", "a"),))):
        y = x.apply("exp")
    with b.at(Origin(labels=(("partition", "b"),))):
        z = y.apply("tanh")
    after = fused(b.finish(z), watch)
    assert not bodies(after)
    assert [r.why for r in watch.rejects] == ["different partition: 'a' and 'b'"]


def test_every_edge_between_kernels_has_a_reason_with_numbers(watch) -> None:
    graph = primitive_models.llama()
    apply_pass(pass_named("subgraph_rewrite"), graph)
    after = fused(graph, watch)
    home = {n.id: k.id for k in after.nodes if k.op.name == "fused" for n in k.attrs["body"].nodes}
    told = {r.nodes for r in watch.rejects if r.rule == "fuse"}
    for node in graph.nodes:
        for value in node.inputs:
            maker = value.node
            if maker.op.kind is Kind.SOURCE or home.get(maker.id, -1) == home.get(node.id, -2):
                continue
            copied = sum(1 for k in bodies(after) if k.find(maker.id)) > 1
            assert (maker.id, node.id) in told or copied
    assert all(r.why and r.numbers["bytes"] > 0 for r in watch.rejects)


def test_without_copies_and_early_outputs_each_op_is_in_one_kernel_with_one_output() -> None:
    ctx = PassContext(options={"fuse_operator": {"copies": False, "early_outputs": False}})
    after = optimize(primitive_models.vit(), ctx)
    ids = [n.id for body in bodies(after) for n in body.nodes if n.op is not CONSTANT]
    assert len(ids) == len(set(ids))
    assert all(len(body.outputs) == 1 for body in bodies(after))


@pytest.mark.parametrize(
    ("length", "axis", "stored"), [(64, -1, True), (64, 0, False), (3, -1, False)]
)
def test_a_long_row_of_pieces_is_stored_before_it_is_folded(
    length: int, axis: int, stored: bool
) -> None:
    """Inside of the fold each element would be chosen by its place, one at a time."""
    b = GraphBuilder()
    x, sink = b.input("float32", (8, length)), b.input("float32", (8, 1))
    row = x.apply("exp").apply("concat", sink, axis=-1)
    graph = b.finish(row.apply("softmax", axis=axis))
    after = optimize(graph, PassContext(target="cpu"))
    kernels = {n.op.name for n in after.nodes} | {
        n.op.name for body in bodies(after) for n in body.nodes if anchor_of(body) is None
    }
    assert ("concat" in kernels) is stored
