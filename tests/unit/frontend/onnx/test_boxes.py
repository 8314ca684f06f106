"""Boxes of detectors: what is kept and what is pooled is what ONNX's reference evaluator says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import glasshouse as gh
from glasshouse.numpy_ref import run
from unit.frontend.onnx.onnx_models import F, I, info, model, node, weight

Array = np.ndarray[Any, Any]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def both(proto: Any, *arrays: Array) -> tuple[Array, Array]:
    """Our result and the evaluator's."""
    ours = run(gh.trace(proto, *arrays), list(arrays))[0]
    feeds = dict(zip((i.name for i in proto.graph.input), arrays, strict=True))
    return ours, ReferenceEvaluator(proto).run(None, feeds)[0]


def suppression(
    boxes: Array,
    scores: Array,
    most: Any = (9,),
    overlap: Any = (0.4,),
    least: Any = (0.3,),
    **how: Any,
) -> Any:
    weights = [
        weight("most", np.array(most, np.int64)), weight("overlap", np.array(overlap, np.float32)),
        weight("least", np.array(least, np.float32)),
    ]  # fmt: skip
    made = node("NonMaxSuppression", ["b", "s", "most", "overlap", "least"], ["y"], **how)
    inputs = [info("b", F, boxes.shape), info("s", F, scores.shape)]
    return model([made], inputs, [info("y", I, ["kept", 3])], weights)


def some_boxes(count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Corners in any order, some boxes without area; scores with equals."""
    boxes = rng.integers(0, 12, (2, count, 4)).astype(np.float32)
    scores = np.round(rng.random((2, 3, count)), 1).astype(np.float32)
    return boxes, scores


@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize("centered", [0, 1])
def test_boxes_that_are_kept(count: int, centered: int, rng: np.random.Generator) -> None:
    boxes, scores = some_boxes(count, rng)
    ours, wanted = both(suppression(boxes, scores, center_point_box=centered), boxes, scores)
    np.testing.assert_array_equal(ours, wanted.reshape(-1, 3))
    assert (len(ours) > 12) == (count > 100)


def test_numbers_may_be_scalars_and_none_are_kept_by_default(rng: np.random.Generator) -> None:
    boxes, scores = some_boxes(20, rng)
    single = run(gh.trace(suppression(boxes, scores)), [boxes, scores])[0]
    scalar = run(gh.trace(suppression(boxes, scores, 9, 0.4, 0.3)), [boxes, scores])[0]
    np.testing.assert_array_equal(scalar, single)
    bare = model(
        [node("NonMaxSuppression", ["b", "s"], ["y"])],
        [info("b", F, boxes.shape), info("s", F, scores.shape)], [info("y", I, ["kept", 3])],
    )  # fmt: skip
    assert run(gh.trace(bare), [boxes, scores])[0].shape == (0, 3)


def pooling(opset: int, shapes: Any, **how: Any) -> Any:
    made = node("RoiAlign", ["x", "r", "b"], ["y"], output_height=3, output_width=4, **how)
    inputs = [info(n, t, s) for n, t, s in zip("xrb", (F, F, I), shapes, strict=True)]
    return model([made], inputs, [info("y", F, None)], opset=opset)


@pytest.mark.parametrize("samples", [0, 3])
@pytest.mark.parametrize(
    "opset, mode, said",
    [(12, "output_half_pixel", False), (16, "half_pixel", False), (22, "output_half_pixel", True)],
)
def test_means_of_regions(
    opset: int, mode: str, said: bool, samples: int, rng: np.random.Generator
) -> None:
    """Regions that reach out of the image, lie beside it, or have no size. What files say today is
    what those of older versions mean without saying it, which the evaluator does not know."""
    x = rng.standard_normal((2, 5, 9, 13)).astype(np.float32)
    regions = np.array(
        [[2, 3, 17, 11], [-9, -4, 40, 30], [60, 60, 80, 90], [5, 5, 5, 5], [0.3, 7, 25.6, 8.2]],
        np.float32,
    )
    given = [x, regions, np.array([1, 0, 1, 0, 1])]
    how: dict[str, Any] = {"spatial_scale": 0.5, "sampling_ratio": samples}
    named = {"coordinate_transformation_mode": mode}
    shapes = [a.shape for a in given]
    ours = run(gh.trace(pooling(opset, shapes, **how, **(named if said else {}))), given)[0]
    wanted = both(pooling(22, shapes, **how, **named), *given)[1]
    np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)
