"""Graphs written as ONNX give the same numbers in ONNX Runtime, and come back with their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.errors import Unsupported
from glasshouse.frontend.onnx.export import export_model
from glasshouse.frontend.onnx.exporting.emitter import TABLE
from glasshouse.ir.op import REGISTRY
from glasshouse.nn import models
from glasshouse.numpy_ref import run
from ops.harness import apply, attrs_of, typed_inputs, types_of
from ops.samples import SAMPLES
from unit.frontend.onnx.onnx_models import values


def runtime(model: Any, inputs: list[Any]) -> list[Any]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    data = model if isinstance(model, str) else model.SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: np.asarray(x) for i, x in zip(session.get_inputs(), inputs, strict=True)}
    found: list[Any] = session.run(None, feeds)
    return found


def check(graph: gh.Graph, *inputs: Any, tolerance: float = 1e-4) -> Any:
    model = export_model(graph)
    onnx.checker.check_model(model, full_check=True)
    expected = run(graph, list(inputs))
    again = gh.trace(model)
    for found in (runtime(model, list(inputs)), run(again, list(inputs))):
        for have, want in zip(found, expected, strict=True):
            assert have.dtype == want.dtype
            np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)
    return again


# ------------------------------------------------------------------------------------------- models
def test_mlp_with_an_open_batch() -> None:
    mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    graph = gh.trace(mlp, gh.spec(("batch", 8)))
    for batch in (1, 3):
        again = check(graph, values(batch, 8))
    assert str(again.outputs[0].type) == "float32[batch, 4]"


def test_resnet18_keeps_its_modules(tmp_path: Path) -> None:
    net = models.resnet18(num_classes=10).eval()
    x = values(1, 3, 32, 32)
    graph = gh.trace(net, x)
    gh.export_onnx(graph, tmp_path / "resnet.onnx")
    expected = run(graph, [x])[0]
    found = runtime(str(tmp_path / "resnet.onnx"), [x])[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    again = gh.trace(str(tmp_path / "resnet.onnx"))
    paths = [{n.origin.source.path for n in g if n.op.name == "conv"} for g in (graph, again)]
    assert paths[0] == paths[1]
    assert "layer1.0.conv1" in {p.removeprefix("model.") for p in paths[1]}


def test_bert_of_one_layer() -> None:
    config = models.BertConfig(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=16,
    )  # fmt: skip
    bert = models.Bert(config).eval()
    ids = np.random.default_rng(0).integers(0, 50, (2, 7))
    check(gh.trace(bert, gh.spec(("batch", "length"), "int64")), ids)
    check(gh.trace(bert, ids), ids)


def test_control_flow_is_nested_graphs() -> None:
    rnn_graph = gh.trace(_loop_model())
    check(rnn_graph, np.float32(1), np.float32(2))


def _loop_model() -> Any:
    from unit.frontend.onnx.onnx_models import B, F, I, info, model, node, weight

    body = onnx.helper.make_graph(
        [node("Add", ["v", "step"], ["w"]), node("Less", ["w", "limit"], ["d"])],
        "body", [info("i", I, []), info("c", B, []), info("v", F, [])],
        [info("d", B, []), info("w", F, [])],
    )  # fmt: skip
    return model(
        [node("Loop", ["", "", "x"], ["y"], body=body)],
        [info("x", F, []), info("step", F, [])], [info("y", F, [])],
        [weight("limit", np.float32(10))],
    )  # fmt: skip


def test_what_onnx_cannot_say_is_said() -> None:
    def noisy(x: Any) -> Any:
        return nn.functional.dropout(x, 0.5, training=True)

    with pytest.raises(Unsupported, match="cannot be written as ONNX"):
        export_model(gh.trace(noisy, values(3)))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialiasing_comes_back_as_a_resize(mode: str) -> None:
    def smaller(x: Any) -> Any:
        return x.apply("resize", size=(5, 7), mode=mode, antialias=True)

    x = values(2, 3, 19, 30)
    again = check(gh.trace(smaller, x), x)
    assert [n.op.name for n in again.nodes if n.op.name in ("matmul", "resize")] == ["resize"]


# ---------------------------------------------------------------------------------------- op by op
# (op, number of the sample) -> why it is not compared.
HOLES = {
    ("floor_divide", 6): "infinite quotients: ONNX's Floor of inf is inf, NumPy's // gives NaN",
    ("remainder", 6): "infinite quotients, as for floor_divide",
    ("sign", 4): "ONNX Runtime's sign of NaN is NaN, the core's is 0",
    ("mean", 8): "ONNX Runtime's mean of nothing is 0, the core's is NaN",
    ("variance", 8): "the variance of nothing, as for mean",
    ("argmax", 4): "ONNX Runtime does not take NaN for the largest",
    ("argmin", 4): "ONNX Runtime does not take NaN for the smallest",
    ("nth", 3): "ONNX's TopK does not order NaN",
    ("nth", 5): "ONNX's TopK takes no bool",
    ("sort", 3): "ONNX's TopK does not order NaN",
    ("sort", 4): "ONNX's TopK does not order NaN",
    ("sort", 7): "ONNX's TopK takes no bool",
    ("sort", 8): "ONNX's TopK takes no bool",
    ("topk", 5): "ONNX's TopK takes no scalar",
    ("group_norm", 3): "ONNX Runtime's GroupNormalization takes no empty batch",
    ("scan", 2): "ONNX Runtime's Scan takes no length of 0",
    ("conv_transpose", 3): "ONNX Runtime refuses an output_padding that reaches the stride",
}
_REFUSED = (
    "NOT_IMPLEMENTED",
    "uneven parts",
    "does not quantise to int32",
    "whole range of a type",
    "antialiases otherwise",
)


@pytest.mark.parametrize("name", sorted(set(TABLE) & set(SAMPLES)))
def test_samples_of_every_op(name: str) -> None:
    op = REGISTRY[name]
    compared = 0
    for number, sample in enumerate(SAMPLES[name]):
        # One type: what is compared is how an op is written, and float32 is what runtimes have.
        dtype = "float32" if "float32" in sample.dtypes else sample.dtypes[0]
        inputs = typed_inputs(sample, dtype)
        builder, node = apply(op, types_of(inputs, {}), attrs_of(op, sample, {}))
        graph = builder.finish(*node.outputs)
        if (name, number) in HOLES:
            with pytest.raises(Exception):  # noqa: B017  # a hole that is none is found
                check(graph, *[a for _, a in inputs])
            continue
        try:
            check(graph, *[a for _, a in inputs])
            compared += 1
        except Exception as error:
            if not any(said in str(error) for said in _REFUSED):
                raise AssertionError(f"sample {number}") from error
    assert compared or name == "adaptive_max_pool"  # whose samples are all of uneven parts


def test_holes_are_real_samples() -> None:
    assert all(number < len(SAMPLES[name]) for name, number in HOLES)
