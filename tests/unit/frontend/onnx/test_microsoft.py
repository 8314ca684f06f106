"""Ops that ONNX Runtime's tools write mean here what they mean there."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest

import glasshouse as gh
from glasshouse.numpy_ref import run
from unit.frontend.onnx.onnx_models import F, info, model, node, values, weight

U8 = 2
SCALES = [
    weight("s", np.float32(0.05)), weight("z", np.uint8(120)),
    weight("s2", np.float32(0.1)), weight("z2", np.uint8(100)),
    weight("so", np.float32(0.08)), weight("zo", np.uint8(110)),
]  # fmt: skip
SHAPE = [2, 4, 3, 5]


def real(op: str, *others: str, **attrs: Any) -> Any:
    made = node(op, ["x", *others], ["y"], domain="com.microsoft", **attrs)
    stored = [weight(n, values(5, seed=i)) for i, n in enumerate(("a", "b", "c"))]
    stored += [weight("same", values(*SHAPE, seed=7)), weight("m", values(5, 6, seed=8))]
    return model([made], [info("x", F, SHAPE)], [info("y", F, None)], stored,
                 domains={"com.microsoft": 1})  # fmt: skip


def quantised(op: str, *operands: str, **attrs: Any) -> Any:
    made = node(op, list(operands), ["y"], domain="com.microsoft", **attrs)
    other = weight("other", np.random.default_rng(3).integers(0, 256, SHAPE).astype(np.uint8))
    return model([made], [info("x", U8, SHAPE)], [info("y", U8, None)], [*SCALES, other],
                 domains={"com.microsoft": 1})  # fmt: skip


@pytest.mark.parametrize(
    "proto",
    [
        real("Gelu"), real("QuickGelu"), real("BiasGelu", "a"), real("FastGelu", "a"),
        real("FusedMatMul", "m", alpha=0.5),
        quantised("QLinearAdd", "x", "s", "z", "other", "s2", "z2", "so", "zo"),
        quantised("QLinearMul", "x", "s", "z", "other", "s2", "z2", "so", "zo"),
        quantised("QLinearSigmoid", "x", "s", "z", "so", "zo"),
        quantised("QLinearLeakyRelu", "x", "s", "z", "so", "zo", alpha=0.2),
        quantised("QLinearGlobalAveragePool", "x", "s", "z", "so", "zo"),
        quantised("QLinearConcat", "so", "zo", "x", "s", "z", "other", "s2", "z2", axis=1),
    ],
    ids=lambda proto: proto.graph.node[0].op_type,
)  # fmt: skip
def test_equal_to_onnx_runtime(proto: Any) -> None:
    options = ort.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = ort.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    whole = proto.graph.input[0].type.tensor_type.elem_type == U8
    x = (
        np.random.default_rng(1).integers(0, 256, SHAPE).astype(np.uint8)
        if whole
        else values(*SHAPE)
    )
    expected = session.run(None, {"x": x})[0]
    graph = gh.trace(proto)
    assert not [n for n in graph if n.op.name == "opaque"]
    found = run(graph, [x])[0]
    assert found.dtype == expected.dtype
    # Whole numbers may differ by one where a half is rounded in another order.
    np.testing.assert_allclose(
        found.astype(np.float64), expected.astype(np.float64), rtol=1e-4, atol=1 if whole else 1e-4
    )


@pytest.mark.parametrize("columns", [False, True], ids=["one scale", "a scale for each column"])
def test_quantised_products_equal_onnx_runtime(columns: bool) -> None:
    random = np.random.default_rng(5)
    stored = [
        *SCALES[:2], weight("so", np.float32(0.4)), weight("zo", np.uint8(110)),
        # 7 bits: on processors without VNNI, ONNX Runtime sums pairs of products in 16 bits, and
        # two products of 255 and a weight beyond 64 do not fit there.
        weight("w", random.integers(-64, 65, (3, 6)).astype(np.int8)),
        weight("ws", np.float32([0.02, 0.03, 0.01]) if columns else np.float32(0.02)),
        weight("wz", np.zeros(3, np.int8) if columns else np.int8(3)),
        weight("bias", np.int32([100, -200, 5])),
    ]  # fmt: skip
    operands = ["x", "s", "z", "w", "ws", "wz", "bias", "so", "zo"]
    made = node("QGemm", operands, ["y"], domain="com.microsoft", transB=1, transA=0, alpha=1.0)
    proto = model(
        [made], [info("x", U8, [4, 6])], [info("y", U8, None)], stored,
        domains={"com.microsoft": 1},
    )  # fmt: skip
    x = random.integers(0, 256, (4, 6)).astype(np.uint8)
    session = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(run(gh.trace(proto), [x])[0], session.run(None, {"x": x})[0])
