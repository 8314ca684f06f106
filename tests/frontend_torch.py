"""Helpers for tests that trace PyTorch models: run the graph on the reference, compare."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from glasshouse.frontend.torch import Captured, capture
from glasshouse.frontend.torch.dtypes import WITHOUT_NUMPY
from glasshouse.ir import verify
from glasshouse.numpy_ref import run


def outputs_of(graph: Any, inputs: Any, **options: Any) -> Any:
    return run(graph, [as_array(x) for x in inputs], **options)


def as_array(given: Any) -> Any:
    """What the reference executor takes; bfloat16 as the float32 that carries it."""
    if not isinstance(given, torch.Tensor):
        return given
    given = given.detach().resolve_conj()
    if given.is_complex():
        given = torch.view_as_real(given)
    return given.float().numpy() if given.dtype in WITHOUT_NUMPY else given.numpy()


def same_as_torch(
    model: Any, *args: Any, tolerance: float = 1e-4, train: bool = False,
    dynamic_shapes: Any = None, others: Any = (), **kwargs: Any,
) -> Captured:  # fmt: skip
    """Trace a model, run the graph, and compare every tensor that the model returns.

    `others` are further arguments to run with: the same graph must be right for them.
    """
    model = model.train(train) if isinstance(model, torch.nn.Module) else model
    captured = capture(model, args, kwargs, dynamic_shapes)
    verify(captured.graph)
    for given in [(args, kwargs), *[(o, {}) for o in others]]:
        compare(captured, model, *given, tolerance)
    return captured


def compare(captured: Captured, model: Any, args: Any, kwargs: Any, tolerance: float) -> None:
    flat = captured.flat_inputs(args, kwargs)
    outputs = outputs_of(captured.graph, [t.clone() for t in flat])
    got = captured.results(outputs)
    with torch.no_grad():
        wanted = copy.deepcopy(model)(*copy.deepcopy(args), **copy.deepcopy(kwargs))
    assert_same(got, wanted, tolerance)


def assert_same(got: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    left, right = pytree.tree_leaves(got), pytree.tree_leaves(wanted)
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        if isinstance(b, torch.Tensor):
            a, b = as_array(a), as_array(b)
            assert np.shape(a) == b.shape
            np.testing.assert_allclose(
                np.asarray(a, np.float64), b.astype(np.float64), tolerance, tolerance
            )
        else:
            assert a == b
