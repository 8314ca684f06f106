"""8-bit floats in ONNX files: casts that saturate or do not, and quantised tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import glasshouse as gh
from glasshouse.ir import GraphBuilder

KINDS = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2)
VALUES = np.array(
    [0, -0.0, 1, -3.3, 448, 463, 464, 465, 480, 57344, 61439, 61440, 65536, 1e9, -1e9, np.inf,
     -np.inf, np.nan, 2.0**-9, 2.0**-10, 1.5 * 2.0**-10, 2.0**-16, 2.0**-17, 1e-30],
    np.float32,
)  # fmt: skip


def model_of(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 6]) for name in "xy")
    graph = helper.make_graph(nodes, "float8", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def check(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    x = VALUES.reshape(4, 6)
    (wanted,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_array_equal(gh.compile(str(path), x)(x), wanted)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_casts(kind: int, saturate: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=kind, saturate=saturate),
        helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT),
    ]
    check(model_of(nodes, []), tmp_path)


@pytest.mark.parametrize("saturate", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_quantised_tensors(kind: int, axis: int | None, saturate: int, tmp_path: Path) -> None:
    sizes = [] if axis is None else [(4, 6)[axis]]
    scales = [0.25] if axis is None else [0.25 * (i + 1) for i in range(sizes[0])]
    constants = [
        helper.make_tensor("s", TensorProto.FLOAT, sizes, scales),
        helper.make_tensor("z", kind, sizes, [0.0] * len(scales)),
    ]
    along = {} if axis is None else {"axis": axis}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], saturate=saturate, **along),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **along),
    ]
    check(model_of(nodes, constants), tmp_path)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_what_is_exported_casts_the_same(name: str, tmp_path: Path) -> None:
    builder = GraphBuilder()
    x = builder.input("float32", (VALUES.size,))
    graph = builder.finish(x.cast(name).cast("float32"))
    path = tmp_path / "made.onnx"
    gh.export_onnx(graph, path)
    made = onnx.load(path)
    (theirs,) = ReferenceEvaluator(made).run(None, {made.graph.input[0].name: VALUES})
    np.testing.assert_array_equal(theirs, gh.compile(graph)(VALUES))
