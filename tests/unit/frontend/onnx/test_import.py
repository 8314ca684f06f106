"""ONNX models become graphs that run: shapes, names, functions, and what cannot be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

import glasshouse as gh
from glasshouse.errors import CaptureError, FormatError, GlasshouseError, LimitExceeded
from glasshouse.frontend.onnx import import_model
from glasshouse.numpy_ref import run
from unit.frontend.onnx.onnx_models import B, F, I, info, model, node, save, values, weight


def mlp() -> Any:
    return model(
        [
            node("Gemm", ["x", "w1", "b1"], ["h"], name="/net/0/Gemm", transB=1),
            node("Relu", ["h"], ["r"], name="/net/1/Relu"),
            node("Gemm", ["r", "w2"], ["y"], name="/net/2/Gemm"),
        ],
        [info("x", F, ["batch", 4])], [info("y", F, ["batch", 2])],
        [weight("w1", values(8, 4)), weight("b1", values(8, seed=1)), weight("w2", values(8, 2))],
    )  # fmt: skip


def test_a_file_runs_for_every_batch_size(tmp_path: Any) -> None:
    graph = gh.trace(save(mlp(), tmp_path / "mlp.onnx"))
    assert graph.name == "mlp"
    assert graph.output_names == ["y"]
    assert str(graph.outputs[0].type) == "float32[batch, 2]"
    for batch in (1, 5):
        x = values(batch, 4, seed=batch)
        h = np.maximum(x @ values(8, 4).T + values(8, seed=1), 0)
        np.testing.assert_allclose(run(graph, [x])[0], h @ values(8, 2), rtol=1e-5, atol=1e-6)


def test_examples_give_the_sizes() -> None:
    assert str(gh.trace(mlp(), values(3, 4)).outputs[0].type) == "float32[3, 2]"
    assert str(gh.trace(mlp(), x=values(7, 4)).outputs[0].type) == "float32[7, 2]"
    assert str(gh.trace(mlp(), gh.spec(("n", 4))).outputs[0].type) == "float32[n, 2]"
    with pytest.raises(CaptureError, match=r"has the shape \[batch, 4\], the example has \[3, 5\]"):
        gh.trace(mlp(), values(3, 5))
    with pytest.raises(CaptureError, match="has no inputs for z"):
        gh.trace(mlp(), z=values(3, 4))


def test_weights_are_not_copied() -> None:
    proto = mlp()
    graph = gh.trace(proto)
    held = {n.attrs["name"]: n.attrs["data"] for n in graph if n.op.name == "constant"}
    assert set(held) == {"w1", "b1", "w2"}
    assert not any(array.flags.owndata for array in held.values())


def test_names_and_paths_come_from_node_names() -> None:
    relu = next(n for n in gh.trace(mlp()) if n.op.name == "relu")
    assert relu.origin.name == "/net/1/Relu"
    assert relu.origin.source.path == "net.1"
    assert relu.origin.label("onnx op") == "Relu"


def test_names_classes_and_lines_come_from_metadata() -> None:
    proto = model([node("Relu", ["x"], ["y"], name="n")], [info("x", F, [2])], [info("y", F, [2])])
    for key, value in {
        "name_scopes": "['', 'encoder', 'encoder.layer.0', 'relu']",
        "class_hierarchy": "['m.Bert', 'm.Encoder', 'm.Layer', 'aten.relu']",
        "stack_trace": 'File "model.py", line 12, in forward\n'
        '  File "site-packages/torch/nn/functional.py", line 9, in relu',
    }.items():
        entry = proto.graph.node[0].metadata_props.add()
        entry.key, entry.value = f"pkg.torch.onnx.{key}", value
    source = next(n for n in gh.trace(proto) if n.op.name == "relu").origin.source
    assert source.path == "encoder.layer.0"
    assert [s.cls for s in source.scopes] == ["Encoder", "Layer"]
    assert (source.frames[-1].file, source.frames[-1].line) == ("model.py", 12)
    assert source.below[0].line == 9


def reshaping() -> Any:
    """[b, s, 8] -> [b, s, 2, 4] by the arithmetic that exporters write."""
    return model(
        [
            node("Shape", ["x"], ["shape"]), node("Gather", ["shape", "zero"], ["b"]),
            node("Gather", ["shape", "one"], ["s"]), node("Gather", ["shape", "two"], ["d"]),
            node("Div", ["d", "heads"], ["each"]),
            *[node("Unsqueeze", [n, "at"], [f"{n}1"]) for n in ("b", "s", "each")],
            node("Concat", ["b1", "s1", "heads1", "each1"], ["wanted"], axis=0),
            node("Reshape", ["x", "wanted"], ["apart"]),
            node("Transpose", ["apart"], ["moved"], perm=[0, 2, 1, 3]),
            node("Slice", ["moved", "starts", "ends", "axes"], ["y"]),
        ],
        [info("x", F, ["b", "s", 8])], [info("y", F, None)],
        [
            *[weight(n, np.int64(v)) for n, v in (("zero", 0), ("one", 1), ("two", 2))],
            weight("heads", np.int64(2)), weight("heads1", np.array([2])),
            weight("at", np.array([0])), weight("starts", np.array([1])),
            weight("ends", np.array([2**63 - 1])), weight("axes", np.array([2])),
        ],
    )  # fmt: skip


def test_shape_arithmetic_leaves_symbolic_shapes_and_no_nodes() -> None:
    graph = gh.trace(reshaping())
    assert str(graph.outputs[0].type) == "float32[b, 2, s - 1, 4]"
    assert [n.op.name for n in graph] == ["input", "reshape", "permute", "slice"]
    x = values(2, 5, 8)
    wanted = x.reshape(2, 5, 2, 4).transpose(0, 2, 1, 3)[:, :, 1:]
    np.testing.assert_array_equal(run(graph, [x])[0], wanted)


def test_a_shape_that_is_read_as_a_tensor_is_computed_when_it_runs() -> None:
    proto = model(
        [node("Shape", ["x"], ["s"]), node("Mul", ["s", "two"], ["y"])],
        [info("x", F, ["n", 3])], [info("y", I, [2])], [weight("two", np.array([2]))],
    )  # fmt: skip
    np.testing.assert_array_equal(run(gh.trace(proto), [values(5, 3)])[0], [10, 6])


def test_functions_are_inlined_with_the_call_in_the_path() -> None:
    inner = helper.make_function(
        "own", "Scaled", ["a"], ["c"],
        [node("Constant", [], ["k"]), node("Mul", ["a", "k"], ["c"], name="product")],
        [helper.make_opsetid("", 21)], ["by"],
    )  # fmt: skip
    attribute = inner.node[0].attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "value_float", "by", 1
    proto = model(
        [
            node("Scaled", ["x"], ["m"], name="first", domain="own", by=2.0),
            node("Scaled", ["m"], ["y"], name="second", domain="own", by=0.25),
        ],
        [info("x", F, [3])], [info("y", F, [3])], domains={"own": 1}, functions=[inner],
    )  # fmt: skip
    graph = gh.trace(proto)
    assert [n.op.name for n in graph if n.inputs] == ["multiply", "multiply"]
    assert [n.origin.source.path for n in graph if n.inputs] == ["first", "second"]
    assert [n.origin.source.scopes[0].cls for n in graph if n.inputs] == ["Scaled", "Scaled"]
    np.testing.assert_array_equal(run(graph, [np.float32([2, 4, 8])])[0], [1, 2, 4])


def test_an_op_without_spelling_runs_through_onnx_and_says_so() -> None:
    proto = model([node("NonZero", ["x"], ["y"])], [info("x", F, ["n"])], [info("y", I, None)])
    imported = import_model(proto)
    assert imported.refused == (("NonZero", "no spelling"),)
    opaque = imported.graph.outputs[0].node
    assert opaque.op.name == "opaque"
    assert opaque.attrs["target"] == "onnx::NonZero"
    found = run(imported.graph, [np.float32([0, 3, 0, 5, 1])])[0]
    np.testing.assert_array_equal(found, [[1, 3, 4]])


@pytest.mark.parametrize("domain", ["", "com.acme"])
def test_an_op_that_nobody_knows_is_refused_by_name(domain: str) -> None:
    unknown = node("Magic", ["x"], ["y"], name="layer/magic", domain=domain)
    domains = {"com.acme": 1} if domain else {}
    proto = model([unknown], [info("x", F, [3])], [info("y", F, [3])], domains=domains)
    said = rf"Magic 'layer/magic': there is no op 'Magic' in domain '{domain or 'ai.onnx'}'"
    with pytest.raises(CaptureError, match=said):
        gh.trace(proto)
    graph = gh.trace(proto, allow_unknown=True)
    assert graph.outputs[0].node.attrs["target"] == "onnx::Magic"
    with pytest.raises(GlasshouseError):
        run(graph, [np.zeros(3, np.float32)])


def test_inputs_that_decide_shapes_can_be_fixed() -> None:
    proto = model(
        [node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)],
        [info("x", F, [2, 3]), info("axes", I, [1])], [info("y", F, None)],
    )  # fmt: skip
    open_axes = import_model(proto)
    assert open_axes.wanted == ("axes",)
    x = values(2, 3)
    np.testing.assert_allclose(run(open_axes.graph, [x, np.array([1])])[0], x.sum(1), rtol=1e-5)
    graph = gh.trace(proto, fixed={"axes": np.array([1])})
    assert [n.op.name for n in graph] == ["input", "sum"]
    with pytest.raises(CaptureError, match="there is no input nothing to fix"):
        gh.trace(proto, fixed={"nothing": np.array([1])})


def test_a_known_condition_leaves_one_branch() -> None:
    then, other = (
        helper.make_graph([node(op, ["x"], [f"{op}_out"])], op, [], [info(f"{op}_out", F, [2])])
        for op in ("Neg", "Exp")
    )
    made = node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
    stored = model(
        [made], [info("x", F, [2])], [info("y", F, [2])], [weight("flag", np.array(True))]
    )
    assert [n.op.name for n in gh.trace(stored)] == ["input", "negative"]
    given = model([made], [info("x", F, [2]), info("flag", B, [])], [info("y", F, [2])])
    graph = gh.trace(given)
    assert [n.op.name for n in graph] == ["input", "input", "cond"]
    x = np.float32([1, 2])
    np.testing.assert_array_equal(run(graph, [x, np.array(True)])[0], -x)
    np.testing.assert_allclose(run(graph, [x, np.array(False)])[0], np.exp(x), rtol=1e-6)


@pytest.mark.parametrize("counted", [True, False])
def test_loops_become_scans_or_while_loops(counted: bool) -> None:
    body = helper.make_graph(
        [
            node("Add", ["v", "step"], ["w"]),
            node("Identity", ["c"], ["d"]) if counted else node("Less", ["w", "limit"], ["d"]),
        ],
        "body", [info("i", I, []), info("c", B, []), info("v", F, [])],
        [info("d", B, []), info("w", F, [])],
    )  # fmt: skip
    proto = model(
        [node("Loop", ["count" if counted else "", "", "x"], ["y"], body=body)],
        [info("x", F, []), info("step", F, [])], [info("y", F, [])],
        [weight("count", np.int64(4)), weight("limit", np.float32(10))],
    )  # fmt: skip
    graph = gh.trace(proto)
    assert ("scan" if counted else "while_loop") in [n.op.name for n in graph]
    wanted = 9.0 if counted else 11.0
    assert run(graph, [np.float32(1), np.float32(2)])[0] == wanted


# ----------------------------------------------------------------------------------- what cannot be
@pytest.mark.parametrize(
    ("content", "said"), [(b"not a model", "not an ONNX model"), (b"", "not an ONNX model")]
)
def test_a_file_that_is_no_model(tmp_path: Any, content: bytes, said: str) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=said):
        gh.trace(str(path))


def test_a_cut_off_file(tmp_path: Any) -> None:
    data = mlp().SerializeToString()
    for length in range(0, len(data), 7):
        path = tmp_path / "cut.onnx"
        path.write_bytes(data[:length])
        try:
            gh.trace(str(path))
        except GlasshouseError:
            continue


def test_a_missing_file_and_a_wrong_object() -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        gh.trace("nowhere.onnx")
    with pytest.raises(CaptureError, match="GraphProto cannot be traced"):
        gh.trace(mlp().graph)


def one(op: str, operands: list[str], dtype: int, shape: list[int] | None, **options: Any) -> Any:
    """A model of one node, which says nothing of its output."""
    domain = options.pop("domain", "")
    return model(
        [node(op, operands, ["y"], domain=domain)], [info("x", dtype, shape)],
        [info("y", dtype, None)], **options,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("proto", "said"),
    [
        (one("Relu", ["q"], F, [2]), "'q' is read and nothing makes it"),
        (one("MatMul", ["x", "x"], F, [2, 3]), "MatMul: .*the inner sizes differ"),
        (one("Relu", ["x"], 8, [2]), "input 'x' has the element type string"),
        (one("Odd", ["x"], F, [2], domain="own"), "Odd: the type of its output 0 is not known"),
        (one("Relu", ["x"], F, None), "the rank of input 'x' is not known"),
        (one("Add", ["x", "x"], F, [2], opset=1), "Add of opset 1 is too old"),
    ],
)
def test_what_is_wrong_is_said(proto: Any, said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        gh.trace(proto)


def test_damaged_bytes_end_in_one_of_our_errors(tmp_path: Any) -> None:
    data = bytearray(reshaping().SerializeToString())
    random = np.random.default_rng(0)
    path = tmp_path / "damaged.onnx"
    refused = 0
    for _ in range(300):
        copy = bytearray(data)
        for place in random.integers(0, len(data), 3):
            copy[place] = random.integers(0, 256)
        path.write_bytes(copy)
        try:
            gh.trace(str(path))
        except GlasshouseError:
            refused += 1
    assert refused > 100


def test_functions_that_unfold_without_end_are_refused() -> None:
    def calls(name: str, inner: str) -> Any:
        nodes = [node(inner, ["a"], ["b"], domain="own"), node(inner, ["b"], ["c"], domain="own")]
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
        return helper.make_function("own", name, ["a"], ["c"], nodes, opsets)

    itself = one("F", ["x"], F, [2], domain="own", domains={"own": 1}, functions=[calls("F", "F")])
    with pytest.raises(CaptureError, match="nested more than 100 deep"):
        gh.trace(itself)


def test_bodies_in_bodies_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many with each level: 16 levels in 7 MB would take minutes."""
    body = helper.make_graph([node("Identity", ["x"], ["y"])], "b", [], [info("y", F, [2])])
    for _ in range(6):
        choice = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
        body = helper.make_graph([choice], "b", [], [info("y", F, [2])])
    proto = model([], [info("x", F, [2]), info("c", B, [])], [info("y", F, [2])])
    proto.graph.node.extend(body.node)
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(run(gh.trace(proto), [x, np.array(True)])[0], x)
    monkeypatch.setenv("GLASSHOUSE_LIMITS", "graphs=100")
    with pytest.raises(LimitExceeded, match="asks for 101 graphs and stages"):
        gh.trace(proto)


@pytest.mark.parametrize(("op", "attrs"), [("Div", {}), ("Mod", {"fmod": 1}), ("Mod", {})])
def test_integers_at_their_limits_divide(op: str, attrs: dict[str, int]) -> None:
    """Towards zero, and the least number too, which has no magnitude."""
    x = np.array([-(2**63), -(2**63), -(2**63), 2**63 - 1, -7, 7, -7], np.int64)
    y = np.array([2, 3, -5, -2, 2, -2, -2], np.int64)
    proto = model(
        [node(op, ["x", "y"], ["z"], **attrs)], [info("x", I, [7]), info("y", I, [7])],
        [info("z", I, [7])],
    )  # fmt: skip
    rest = np.fmod(x, y)
    wanted = {"Div": (x - rest) // y, "Mod": rest if attrs else np.remainder(x, y)}[op]
    np.testing.assert_array_equal(run(gh.trace(proto), [x, y])[0], wanted)
