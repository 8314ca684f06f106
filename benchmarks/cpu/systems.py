"""Decides how each system runs a workload: one function a system, which gives the call to time.

A system that is not installed is left out. To add one, write a function and name it in SYSTEMS.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
Call = Callable[[], Any]


def glasshouse(model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    import glasshouse as gh

    module = gh.compile(model, *inputs)
    return lambda: module(*inputs)


def eager(model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    return lambda: model(*inputs)


def compiled(model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    made = torch.compile(model)
    return lambda: made(*inputs)


def compiled_max(model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    """max-autotune with frozen weights: the fastest mode of torch.compile for inference."""
    import torch._inductor.config as config

    config.freezing = True
    made = torch.compile(model, mode="max-autotune")
    return lambda: made(*inputs)


def onnxruntime(model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    """All optimisations; inputs and output bound once."""
    import onnxruntime as runtime

    names = [f"x{i}" for i in range(len(inputs))]
    path = str(folder / "model.onnx")
    torch.onnx.export(model, inputs, path, input_names=names, output_names=["y"], dynamo=True)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = THREADS, 1
    session = runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    arrays = [np.ascontiguousarray(x.numpy()) for x in inputs]
    for name, array in zip(names, arrays, strict=True):
        binding.bind_cpu_input(name, array)
    binding.bind_output("y", "cpu")

    def call(_: Any = arrays) -> Any:  # the session reads the arrays in place
        session.run_with_iobinding(binding)
        return binding.get_outputs()[0].numpy()

    return call


def openvino(model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    """At the precision of the workload; OpenVINO would take bfloat16 by itself where it can."""
    import openvino as ov

    low = any(x.dtype is torch.bfloat16 for x in inputs)
    given = tuple(x.float() if x.is_floating_point() else x for x in inputs)
    made = ov.convert_model(
        model.float(), example_input=given, input=[list(x.shape) for x in given]
    )
    hints = {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "bf16" if low else "f32",
    }  # fmt: skip
    request = ov.Core().compile_model(made, "CPU", hints).create_infer_request()
    arrays = [np.ascontiguousarray(x.numpy()) for x in given]
    for number, array in enumerate(arrays):
        request.set_input_tensor(number, ov.Tensor(array, shared_memory=True))

    def call(_: Any = arrays) -> Any:
        request.infer()
        return request.get_output_tensor(0).data

    return call


@dataclass(frozen=True)
class System:
    """How a system is built, what must be installed, and whether it takes bfloat16 models."""

    build: Callable[[Any, tuple[Any, ...], Path], Call]
    needs: tuple[str, ...] = ()
    low_precision: bool = True

    @property
    def installed(self) -> bool:
        return all(find_spec(name) is not None for name in self.needs)


SYSTEMS: dict[str, System] = {
    "glasshouse": System(glasshouse),
    "eager": System(eager),
    "compile": System(compiled),
    "compile-max": System(compiled_max),
    "onnxruntime": System(onnxruntime, ("onnxruntime", "onnxscript"), low_precision=False),
    "openvino": System(openvino, ("openvino",)),
}
