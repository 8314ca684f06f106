"""How each system runs a row of the zoo: one function a system, which gives the call to time.

Every system has a model of its own, since a training step changes weights.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
from benchmarks.zoo.models import Case, Row

import glasshouse as gh

Call = Callable[[], Any]


class Loss(torch.nn.Module):
    """The mean of squares of what a model gives."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any) -> torch.Tensor:
        found = self.module(*inputs)
        found = found[0] if isinstance(found, tuple) else found
        return found.float().pow(2).mean()


class Ours:
    """A compiled module, called; `module` is what a profile is taken of."""

    def __init__(self, module: Any, inputs: tuple[Any, ...]) -> None:
        self.module, self.inputs = module, inputs

    def __call__(self) -> Any:
        return self.module(*self.inputs)

    def profile(self) -> list[tuple[float, str]]:
        """Seconds and names of the kernels, the longest first."""
        steps = getattr(self.module, "profile", lambda *_, **__: [])(*self.inputs, count=3)
        return sorted(((s.seconds, s.name) for s in steps), reverse=True)


def _torch(row: Row, case: Case, backend: str) -> Call:
    module, inputs = case
    if not row.training:
        run = module.eval() if backend == "plain" else torch.compile(module.eval(), backend=backend)

        def call() -> Any:
            with torch.no_grad():
                return run(*inputs)

        return call
    loss = Loss(module.train())
    run = loss if backend == "plain" else torch.compile(loss, backend=backend)
    optimizer = torch.optim.SGD(loss.parameters(), lr=1e-4)

    def step() -> Any:
        optimizer.zero_grad()
        found = run(*inputs)
        found.backward()
        optimizer.step()
        return found

    return step


def eager(row: Row, case: Case) -> Call:
    return _torch(row, case, "plain")


def inductor(row: Row, case: Case) -> Call:
    return _torch(row, case, "inductor")


def dynamo(row: Row, case: Case) -> Call:
    """What guards and calls of `torch.compile` cost at least: PyTorch's ops, one after the other;
    of a training step by way of AOTAutograd, which backends need for gradients."""
    return _torch(row, case, "aot_eager" if row.training else "eager")


def glasshouse(row: Row, case: Case) -> Call:
    module, inputs = case
    if not row.training:
        return Ours(gh.compile(module.eval(), *inputs, progress=False), inputs)
    loss = Loss(module.train())
    optimizer = torch.optim.SGD(loss.parameters(), lr=1e-4)
    return Ours(
        gh.compile(gh.trace_training(loss, None, optimizer, *inputs), progress=False), inputs
    )


def backend(row: Row, case: Case) -> Call:
    """`torch.compile(model, backend="glasshouse")`."""
    return _torch(row, case, "glasshouse")


def _onnx(row: Row, case: Case) -> tuple[bytes, dict[str, Any]]:
    assert not row.training, "no training steps"
    module, inputs = case
    names, file = [f"x{i}" for i in range(len(inputs))], io.BytesIO()
    torch.onnx.export(module.eval(), inputs, file, input_names=names, dynamo=False)
    return file.getvalue(), {n: x.numpy() for n, x in zip(names, inputs, strict=True)}


def onnxruntime(row: Row, case: Case) -> Call:
    import onnxruntime as runtime

    model, given = _onnx(row, case)
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = torch.get_num_threads(), 1
    session = runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, given)


def openvino(row: Row, case: Case) -> Call:
    import openvino as ov

    model, given = _onnx(row, case)
    hints = {"INFERENCE_NUM_THREADS": torch.get_num_threads(), "INFERENCE_PRECISION_HINT": "f32"}
    made = ov.Core().compile_model(ov.Core().read_model(model), "CPU", hints)
    return lambda: made(given)


SYSTEMS: dict[str, Callable[[Row, Case], Call]] = {
    f.__name__: f for f in (eager, glasshouse, backend, inductor, dynamo, onnxruntime, openvino)
}


def make(name: str, row: Row) -> Call:
    """The call of one system on a model of its own."""
    return SYSTEMS[name](row, row.case())
