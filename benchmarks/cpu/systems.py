"""How each system runs a workload: one function a system, which gives the call to time.

A call gives the output; for a training workload it takes one step of SGD and gives the loss. A
system that is not installed is left out. To add one, write a function and name it in SYSTEMS.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from workloads import LEARNING_RATE, Workload

THREADS = int(os.environ.get("BENCH_THREADS", "2"))
Call = Callable[[], Any]


def _sgd(model: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), LEARNING_RATE)


class Compiled:
    """Our module, run into buffers that are made once, as ONNX Runtime and OpenVINO are run."""

    def __init__(self, module: Any, inputs: tuple[Any, ...]) -> None:
        self.module, self.inputs = module, inputs
        types = [v.type for v in module.graph.outputs]
        self.outputs = [torch.empty(t.shape, dtype=getattr(torch, t.dtype.name)) for t in types]

    def __call__(self) -> Any:
        self.module.run_with_tensors(self.inputs, self.outputs)
        return self.outputs[0]

    def deployed_mb(self, folder: Path) -> float | None:
        """The peak of a program that only loads the saved module and runs it."""
        if any(x.dtype is torch.bfloat16 for x in self.inputs):
            return None  # NumPy has no such arrays
        self.module.save(folder)
        np.savez(folder / "inputs.npz", *[x.numpy() for x in self.inputs])
        command = [sys.executable, str(Path(__file__).with_name("deployed.py")), str(folder)]
        return float(subprocess.run(command, check=True, capture_output=True).stdout)


def glasshouse(work: Workload, model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    import glasshouse as gh

    if work.training:
        module = gh.compile(gh.trace_training(model, work.loss, _sgd(model), *inputs))
    else:
        module = gh.compile(model, *inputs, precision="bfloat16" if work.allowed else None)
    return Compiled(module, inputs)


def eager(work: Workload, model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    """With autocast where bfloat16 is allowed."""
    if work.training:
        return _torch_training(work, model, model, inputs)

    def call() -> Any:
        with torch.autocast("cpu", torch.bfloat16, enabled=work.allowed):
            return model(*inputs)

    return call


def compiled(work: Workload, model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    return _compiled(work, model, inputs, {})


def compiled_max(work: Workload, model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    """max-autotune with frozen weights: the fastest mode of torch.compile for inference."""
    import torch._inductor.config as config

    config.freezing = not work.training
    return _compiled(work, model, inputs, {"mode": "max-autotune"})


def _compiled(work: Workload, model: Any, inputs: tuple[Any, ...], options: Any) -> Call:
    made = torch.compile(model, **options)
    if work.training:
        return _torch_training(work, model, made, inputs)
    return eager(work, made, inputs, Path())


def _torch_training(work: Workload, model: Any, run: Any, inputs: tuple[Any, ...]) -> Call:
    optimizer, loss_fn = _sgd(model), work.loss
    assert loss_fn is not None

    def call() -> Any:
        optimizer.zero_grad()
        loss = loss_fn(run(*inputs[:-1]), inputs[-1])
        loss.backward()
        optimizer.step()
        return loss.detach()

    return call


def onnxruntime(work: Workload, model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
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


def openvino(work: Workload, model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    """At the precision of the workload; OpenVINO would take bfloat16 by itself where it can."""
    import openvino as ov

    given = tuple(x.float() if x.is_floating_point() else x for x in inputs)
    made = ov.convert_model(
        model.float(), example_input=given, input=[list(x.shape) for x in given]
    )
    hints = {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": THREADS,
        "INFERENCE_PRECISION_HINT": "bf16" if work.low else "f32",
    }  # fmt: skip
    request = ov.Core().compile_model(made, "CPU", hints).create_infer_request()
    arrays = [np.ascontiguousarray(x.numpy()) for x in given]
    for number, array in enumerate(arrays):
        request.set_input_tensor(number, ov.Tensor(array, shared_memory=True))

    def call(_: Any = arrays) -> Any:
        request.infer()
        return request.get_output_tensor(0).data

    return call


def jax(work: Workload, model: Any, inputs: tuple[Any, ...], folder: Path) -> Call:
    """One jitted function; weights are arguments, those of a training step are given away."""
    import jax as runtime
    import jax_models

    def array(x: torch.Tensor) -> Any:
        if x.dtype is torch.bfloat16:
            return runtime.numpy.asarray(x.detach().float().numpy(), runtime.numpy.bfloat16)
        return runtime.numpy.asarray(x.detach().numpy())

    kind = type(model).__name__
    function = jax_models.MODELS[kind]
    weights = {name: array(value) for name, value in model.state_dict().items()}
    given = [array(x) for x in inputs]
    if not work.training:
        run = runtime.jit(function)
        return lambda: run(weights, *given).block_until_ready()
    more = {"training": True} if kind == "ResNet" else {}
    trained = {name: weights[name] for name, _ in model.named_parameters()}

    def step(p: Any, *xs: Any) -> Any:
        def loss(q: Any) -> Any:
            return jax_models.LOSSES[kind](function(q, *xs[:-1], **more), xs[-1])

        value, gradients = runtime.value_and_grad(loss)(p)
        return value, {n: p[n] - LEARNING_RATE * gradients[n] for n in p}

    update = runtime.jit(step, donate_argnums=0)

    def call() -> Any:
        nonlocal trained
        value, trained = update(trained, *given)
        return value.block_until_ready()

    return call


@dataclass(frozen=True)
class System:
    """How a system is built, what must be installed, and which workloads it can take."""

    build: Callable[[Workload, Any, tuple[Any, ...], Path], Call]
    needs: tuple[str, ...] = ()
    trains: bool = True
    takes_bf16: bool = True
    allows_bf16: bool = True

    @property
    def installed(self) -> bool:
        return all(find_spec(name) is not None for name in self.needs)

    def takes(self, work: Workload) -> bool:
        low = self.allows_bf16 if work.allowed else self.takes_bf16
        return (self.trains or not work.training) and (low or not work.low)


SYSTEMS: dict[str, System] = {
    "glasshouse": System(glasshouse),
    "eager": System(eager),
    "compile": System(compiled),
    "compile-max": System(compiled_max),
    "onnxruntime": System(
        onnxruntime,
        ("onnxruntime", "onnxscript"),
        trains=False,
        takes_bf16=False,
        allows_bf16=False,
    ),
    "openvino": System(openvino, ("openvino",), trains=False),
    "jax": System(jax, ("jax",), allows_bf16=False),
}
