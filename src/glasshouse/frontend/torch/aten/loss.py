"""How ATen's losses are spelled; a reduction is 0 (none), 1 (mean) or 2 (sum)."""

from __future__ import annotations

from typing import Any

from glasshouse.frontend.torch.aten.arithmetic import as_index
from glasshouse.frontend.torch.aten.index import from_front
from glasshouse.frontend.torch.aten.registry import apply, aten, common
from glasshouse.ir.dtype import bool_, int64
from glasshouse.ops import composite
from glasshouse.ops.composite.loss import reduce
from glasshouse.ops.create import full_near

_HOW = ("none", "mean", "sum")


@aten("mse_loss")
def mse_loss(x: Any, y: Any, reduction: int = 1) -> Any:
    x, y = common(x, y)
    return composite.mse_loss(x, y, _HOW[reduction])


@aten("l1_loss")
def l1_loss(x: Any, y: Any, reduction: int = 1) -> Any:
    x, y = common(x, y)
    return composite.l1_loss(x, y, _HOW[reduction])


@aten("smooth_l1_loss")
def smooth_l1_loss(x: Any, y: Any, reduction: int = 1, beta: float = 1.0) -> Any:
    x, y = common(x, y)
    return composite.smooth_l1_loss(x, y, float(beta), _HOW[reduction])


@aten("huber_loss")
def huber_loss(x: Any, y: Any, reduction: int = 1, delta: float = 1.0) -> Any:
    x, y = common(x, y)
    return composite.huber_loss(x, y, float(delta), _HOW[reduction])


aten("kl_div")(
    lambda x, y, reduction=1, log_target=False: composite.kl_div(x, y, log_target, _HOW[reduction])
)


@aten("binary_cross_entropy")
def binary_cross_entropy(x: Any, y: Any, weight: Any = None, reduction: int = 1) -> Any:
    loss = composite.bce_loss(x, y, "none")
    return reduce(loss if weight is None else loss * weight, _HOW[reduction])


@aten("binary_cross_entropy_with_logits")
def bce_with_logits(
    x: Any, y: Any, weight: Any = None, pos_weight: Any = None, reduction: int = 1
) -> Any:
    logs = composite.log_sigmoid(x)
    if pos_weight is None:
        loss = (1.0 - y) * x - logs
    else:
        factor = (pos_weight - 1.0) * y + 1.0
        loss = (1.0 - y) * x - factor * logs
    return reduce(loss if weight is None else loss * weight, _HOW[reduction])


@aten("nll_loss", "nll_loss2d", "nll_loss_nd")
def nll_loss(
    x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100
) -> Any:
    target = from_front(target, ignore_index)
    return composite.nll_loss(x, target, weight, ignore_index, _HOW[reduction])


@aten("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    target = from_front(target, ignore_index)
    loss = composite.nll_loss(x, target, weight, ignore_index, _HOW[reduction])
    if reduction == 0:
        return loss, full_near(x, (), 0, x.dtype)
    ignored = target.apply("equal", ignore_index)
    counted = ignored.apply("logical_not").cast(x.dtype)
    if weight is not None:
        safe = apply("where", ignored, full_near(x, target.shape, 0, int64), target.cast(int64))
        counted = counted * weight.apply("take", safe)
    return loss, counted.apply("sum")


@aten("cross_entropy_loss")
def cross_entropy(
    x: Any, target: Any, weight: Any = None, reduction: int = 1, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    if target.dtype.is_float and _HOW[reduction] == "mean" and x.ndim > 1:
        # Probabilities: the mean is over samples, not over what remains after the classes.
        total = composite.cross_entropy(
            x, target, weight, ignore_index, float(label_smoothing), "none"
        )
        return total.apply("mean")
    if not target.dtype.is_float:
        target = from_front(target, ignore_index)
    return composite.cross_entropy(
        x, target, weight, ignore_index, float(label_smoothing), _HOW[reduction]
    )


@aten("soft_margin_loss")
def soft_margin_loss(x: Any, y: Any, reduction: int = 1) -> Any:
    return reduce((-(x * y)).apply("exp").apply("log1p"), _HOW[reduction])


@aten("poisson_nll_loss")
def poisson_nll_loss(
    x: Any, y: Any, log_input: bool, full: bool, eps: float, reduction: int
) -> Any:
    import math

    loss = x.apply("exp") - y * x if log_input else x - y * (x + eps).apply("log")
    if full:
        safe = apply("where", y > 1, y, 1.0)
        logs = safe.apply("log")
        term = safe * logs - safe + (logs + math.log(2 * math.pi)) * 0.5
        loss = loss + apply("where", y > 1, term, 0.0)
    return reduce(loss, _HOW[reduction])


@aten("multilabel_margin_loss", "multilabel_margin_loss_forward")
def multilabel_margin_loss(x: Any, target: Any, reduction: int = 1) -> Any:
    """Each class that is named before the first -1 against each that is not."""
    rows = x if x.ndim == 2 else composite.reshape(x, [1, -1])
    names = as_index(target if target.ndim == 2 else composite.reshape(target, [1, -1]))
    named = names.apply("less", 0).cast(int64).apply("cumsum", axis=1).apply("equal", 0)
    safe = apply("where", named, names.cast(int64), full_near(x, (), 0, int64))
    hits = safe.apply("one_hot", depth=rows.shape[1]).cast(bool_)
    is_target = (hits & composite.unsqueeze(named, -1)).apply("any", axes=[1])
    scores = composite.unsqueeze(rows.apply("gather", safe, axis=1), -1)
    apart = (1.0 - scores + composite.unsqueeze(rows, 1)).apply("relu")
    counts = composite.unsqueeze(named, -1) & composite.unsqueeze(is_target, 1).apply("logical_not")
    loss = apply("where", counts, apart, 0.0).apply("sum", axes=[1, 2]) / float(rows.shape[1])
    if x.ndim < 2:
        loss = composite.reshape(loss, [])
    return reduce(loss, _HOW[reduction])


@aten("multi_margin_loss")
def multi_margin_loss(
    x: Any, target: Any, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: int = 1
) -> Any:
    """The class that is named against each other one."""
    rows = x if x.ndim == 2 else composite.reshape(x, [1, -1])
    classes = rows.shape[1]
    names = composite.reshape(as_index(target), [-1, 1])
    # Relu, since a margin that is just kept has no gradient.
    apart = (float(margin) - rows.apply("gather", names, axis=1) + rows).apply("relu")
    if p == 2:
        apart = apart * apart
    if weight is not None:
        apart = apart * weight.apply("take", names)
    hits = composite.squeeze(names.apply("one_hot", depth=classes), 1).cast(bool_)
    loss = apply("where", hits, 0.0, apart).apply("sum", axes=[1]) / float(classes)
    if target.ndim == 0:
        loss = composite.reshape(loss, [])
    return reduce(loss, _HOW[reduction])


@aten("margin_ranking_loss")
def margin_ranking_loss(
    x: Any, y: Any, target: Any, margin: float = 0.0, reduction: int = 1
) -> Any:
    return reduce(((-target) * (x - y) + margin).apply("clip", low=0), _HOW[reduction])


@aten("hinge_embedding_loss")
def hinge_embedding_loss(x: Any, target: Any, margin: float = 1.0, reduction: int = 1) -> Any:
    # A target that is neither 1 nor -1 counts as both.
    far = apply("where", target.apply("equal", 1), 0.0, (margin - x).apply("clip", low=0.0))
    near = apply("where", target.apply("equal", -1), 0.0, x)
    return reduce(far + near, _HOW[reduction])
