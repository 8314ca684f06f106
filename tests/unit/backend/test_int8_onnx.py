"""A quantised ONNX model, as exporters write it: whole numbers inside, ONNX Runtime's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import glasshouse as gh

STEP = 0.05


class Model:
    """Nodes and initializers of a model with QuantizeLinear and DequantizeLinear around each op."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.data: dict[str, np.ndarray] = {}

    def node(self, op: str, inputs: list[str], **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def keep(self, array: np.ndarray) -> str:
        name = f"c{len(self.data)}"
        self.data[name] = array
        return name

    def through_bytes(self, x: str, zero: int) -> str:
        params = [self.keep(np.array(STEP, np.float32)), self.keep(np.array(zero, np.uint8))]
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [x, *params]), *params])

    def weights(self, *shape: int) -> str:
        data = self.keep(self.rng.integers(-127, 128, shape).astype(np.int8))
        scale = self.keep(self.rng.uniform(0.001, 0.003, shape[0]).astype(np.float32))
        zero = self.keep(np.zeros(shape[0], np.int8))
        return self.node("DequantizeLinear", [data, scale, zero], axis=0)

    def bias(self, size: int) -> str:
        return self.keep(self.rng.standard_normal(size).astype(np.float32))


def residual_network(path: Path) -> None:
    m = Model()
    x = m.through_bytes("x", 120)
    first = m.node("Conv", [x, m.weights(16, 3, 3, 3), m.bias(16)], pads=[1] * 4)
    inner = m.through_bytes(m.node("Relu", [first]), 0)
    second = m.node("Conv", [inner, m.weights(16, 16, 3, 3)], pads=[1] * 4)
    added = m.node("Relu", [m.node("Add", [m.through_bytes(second, 100), inner])])
    pooled = m.node("GlobalAveragePool", [m.through_bytes(added, 0)])
    flat = m.through_bytes(m.node("Flatten", [pooled]), 0)
    out = m.through_bytes(m.node("Gemm", [flat, m.weights(10, 16), m.bias(10)], transB=1), 128)
    graph = helper.make_graph(
        m.nodes, "quantised",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(a, name) for name, a in m.data.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def test_equals_onnx_runtime(tmp_path: Path) -> None:
    path = tmp_path / "quantised.onnx"
    residual_network(path)
    x = np.random.default_rng(1).standard_normal((1, 3, 12, 12)).astype(np.float32)
    module = gh.compile(str(path), x)
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    assert np.abs(module(x) - theirs).max() <= STEP * 1.001
    texts = module.source.kernels.values()
    assert sum("gh::TilesI8" in text or "gh::i8_conv(" in text for text in texts) == 3


def integer_products(path: Path) -> None:
    """What ONNX Runtime's `quantize_dynamic` writes for a convolution and a linear layer."""
    m = Model()

    def quantised(x: str) -> tuple[str, str, str]:
        names = tuple(f"{x}_{part}" for part in ("bytes", "scale", "zero"))
        m.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], list(names)))
        return names[0], names[1], names[2]

    def real(product: str, scale: str, columns: np.ndarray) -> str:
        factor = m.node("Mul", [scale, m.keep(columns)])
        return m.node("Mul", [m.node("Cast", [product], to=TensorProto.FLOAT), factor])

    data, scale, zero = quantised("x")
    taps = m.keep(m.rng.integers(-127, 128, (16, 3, 3, 3)).astype(np.int8))
    total = m.node("ConvInteger", [data, taps, zero], pads=[1] * 4)
    image = m.node("Relu", [real(total, scale, np.full((16, 1, 1), 0.01, np.float32))])
    flat = m.node("Flatten", [m.node("GlobalAveragePool", [image])])
    data, scale, zero = quantised(flat)
    weight = m.keep(m.rng.integers(-127, 128, (16, 10)).astype(np.int8))
    total = m.node("MatMulInteger", [data, weight, zero, m.keep(np.array(0, np.int8))])
    out = real(total, scale, np.linspace(0.001, 0.01, 10, dtype=np.float32))
    graph = helper.make_graph(
        m.nodes, "dynamic",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 12, 12])],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(a, name) for name, a in m.data.items()],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def test_products_of_integers_run_on_bytes(tmp_path: Path) -> None:
    path = tmp_path / "dynamic.onnx"
    integer_products(path)
    x = np.random.default_rng(1).standard_normal((1, 3, 12, 12)).astype(np.float32)
    module = gh.compile(str(path), x)
    (theirs,) = onnxruntime.InferenceSession(path).run(None, {"x": x})
    np.testing.assert_allclose(module(x), theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())
    texts = module.source.kernels.values()
    assert sum("gh::TilesI8" in text or "gh::i8_conv(" in text for text in texts) == 2
