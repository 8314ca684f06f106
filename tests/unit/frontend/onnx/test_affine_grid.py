"""AffineGrid is a product where the size of its image is known, and an opaque node otherwise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from glasshouse.frontend.onnx import import_model
from glasshouse.numpy_ref import run
from unit.frontend.onnx.onnx_models import F, I, info, model, node, values, weight


@pytest.mark.filterwarnings("ignore:Since version:UserWarning")  # an axis of one pixel
@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("size", [(2, 5, 4, 7), (2, 1, 1, 6), (3, 2, 3, 4, 5)])
def test_places(size: tuple[int, ...], corners: int) -> None:
    rank = len(size) - 2
    shape = (size[0], rank, rank + 1)
    made = node("AffineGrid", ["theta", "size"], ["y"], align_corners=corners)
    proto = model([made], [info("theta", F, shape)], [info("y", F, None)], [weight("size", size)])
    imported = import_model(proto)
    assert not imported.refused
    theta = values(*shape)
    wanted = functional.affine_grid(torch.from_numpy(theta), list(size), bool(corners))
    np.testing.assert_allclose(run(imported.graph, [theta])[0], wanted, rtol=1e-5, atol=1e-6)


def test_a_size_that_is_known_when_it_runs() -> None:
    inputs = [info("theta", F, (1, 2, 3)), info("size", I, (4,))]
    made = node("AffineGrid", ["theta", "size"], ["y"])
    imported = import_model(model([made], inputs, [info("y", F, (1, "h", "w", 2))]))
    theta, size = values(1, 2, 3), np.array([1, 1, 3, 5])
    wanted = functional.affine_grid(torch.from_numpy(theta), size.tolist(), align_corners=False)
    found = run(imported.graph, [theta, size])[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
