"""What is said of a model: how it was captured, what is opaque in it, how exact its graph runs."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from frontend_torch import as_array
from glasshouse.frontend.dynamo.execute import Runner
from glasshouse.frontend.torch import Captured, capture, opaque_ops
from glasshouse.frontend.torch.tracing.capture import LooseCapture
from glasshouse.ir import verify
from glasshouse.numpy_ref import run
from hf_models import build


@dataclass(frozen=True)
class Measured:
    """Errors are relative to the largest element of each output; the largest of all outputs."""

    name: str
    model: str
    by_running: bool  # captured by running it once, because torch.export refuses it
    nodes: int
    opaque: Counter[str]
    reference: float
    compiled: float | str  # or why there is none


def measure(name: str, compiled: bool = True) -> Measured:
    """Trace a model, run its graph on the reference and compiled, compare both with PyTorch."""
    model, inputs = build(name)
    with torch.no_grad():
        wanted = copy.deepcopy(model)(**copy.deepcopy(inputs))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        captured = capture(model, (), inputs)
    verify(captured.graph)
    flat = captured.flat_inputs((), copy.deepcopy(inputs))
    reference = error(captured.results(run(captured.graph, [as_array(f) for f in flat])), wanted)
    return Measured(
        name,
        type(model).__name__,
        any(isinstance(w.message, LooseCapture) for w in said),
        len(captured.graph),
        opaque_ops(captured.graph),
        reference,
        compiled_error(captured, inputs, wanted) if compiled else "not measured",
    )


def compiled_error(captured: Captured, inputs: dict[str, Any], wanted: Any) -> float | str:
    runner = Runner(captured, "compiled")
    if runner.module is None:
        return "sizes depend on data"
    results = runner(pytree.tree_leaves(((), copy.deepcopy(inputs))))
    return error(pytree.tree_unflatten(results, captured.out_spec), wanted)


def error(got: Any, wanted: Any) -> float:
    """The largest difference of all tensors, each relative to its largest element."""
    left, right = pytree.tree_leaves(got), pytree.tree_leaves(wanted)
    assert len(left) == len(right)
    return max(_difference(a, b) for a, b in zip(left, right, strict=True))


def _difference(got: Any, wanted: Any) -> float:
    if not isinstance(wanted, torch.Tensor):
        assert got == wanted
        return 0.0
    a, b = (np.asarray(as_array(x), np.float64) for x in (got, wanted))
    assert a.shape == b.shape
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return float((np.abs(a - b)[~same]).max() / (size or 1.0))
