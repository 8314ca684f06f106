"""Small ONNX models for the tests: made by hand, so that each says one thing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL  # noqa: E741  # as in ONNX's own


def info(name: str, dtype: int, shape: Sequence[Any] | None) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name: str, data: Any) -> Any:
    return numpy_helper.from_array(np.asarray(data), name)


def model(
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    weights: Sequence[Any] = (),
    opset: int = 21,
    **options: Any,
) -> Any:
    graph = helper.make_graph(list(nodes), "small", list(inputs), list(outputs), list(weights))
    domains = {"": opset, **options.pop("domains", {})}
    opsets = [helper.make_opsetid(d, v) for d, v in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, **options)


node = helper.make_node


def values(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def save(proto: Any, path: Any) -> str:
    onnx.save_model(proto, str(path))
    return str(path)
