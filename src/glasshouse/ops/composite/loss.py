"""How losses are spelled with the core's ops; each as PyTorch defines it."""

from __future__ import annotations

from typing import Any

from glasshouse.errors import ShapeError, TypeMismatch
from glasshouse.ir.dtype import float16
from glasshouse.ops.composite.activation import log_sigmoid
from glasshouse.ops.composite.fill import masked_fill, zeros_like
from glasshouse.ops.composite.shape import unsqueeze
from glasshouse.ops.shape import reshaped


def reduce(loss: Any, reduction: str) -> Any:
    """The mean or the sum of a loss, or the loss itself."""
    if reduction == "none":
        return loss
    if reduction not in ("mean", "sum"):
        raise TypeMismatch(f"a reduction is mean, sum or none, not {reduction!r}")
    return loss.apply(reduction)


def mse_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    difference = x - target
    return reduce(difference * difference, reduction)


def l1_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    return reduce(abs(x - target), reduction)


def huber_loss(x: Any, target: Any, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Square within `delta`, straight beyond."""
    size = abs(x - target)
    loss = (size < delta).apply("where", size * size * 0.5, (size - 0.5 * delta) * delta)
    return reduce(loss, reduction)


def smooth_l1_loss(x: Any, target: Any, beta: float = 1.0, reduction: str = "mean") -> Any:
    """As huber_loss, divided by `beta`; with 0 it is l1_loss."""
    if beta == 0:
        return l1_loss(x, target, reduction)
    size = abs(x - target)
    loss = (size < beta).apply("where", size * size * (0.5 / beta), size - 0.5 * beta)
    return reduce(loss, reduction)


def bce_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    """Binary cross entropy of probabilities; logarithms count as at least -100."""
    # At 0 and 1 the gradient is PyTorch's, (x - target) / 1e-12, not 0 times infinity.
    steep = 1e4 if x.dtype is float16 else 1e12
    zero, one = x.apply("equal", 0.0), x.apply("equal", 1.0)
    inside = zero.apply("logical_or", one).apply("where", 0.5, x)
    yes = inside.apply("log").apply("clip", low=-100.0)
    no = (-inside).apply("log1p").apply("clip", low=-100.0)
    yes = zero.apply("where", x * steep - 100.0, one.apply("where", 0.0, yes))
    no = one.apply("where", (1.0 - x) * steep - 100.0, zero.apply("where", 0.0, no))
    return reduce(-(target * yes + (1.0 - target) * no), reduction)


def bce_with_logits_loss(x: Any, target: Any, reduction: str = "mean") -> Any:
    """Binary cross entropy of logits, without overflow."""
    return reduce((1.0 - target) * x - log_sigmoid(x), reduction)


def kl_div(x: Any, target: Any, log_target: bool = False, reduction: str = "mean") -> Any:
    """target * (log target - x), x being a log probability; 0 where the target is 0."""
    if log_target:
        loss = target.apply("exp") * (target - x)
    else:
        some = target > 0
        logs = some.apply("where", target, 1.0).apply("log")
        loss = some.apply("where", target * (logs - x), 0.0)
    if reduction == "batchmean":
        return loss.apply("sum", axes=list(range(1, x.ndim))).apply("mean")
    return reduce(loss, reduction)


def nll_loss(
    log_probs: Any, target: Any, weight: Any = None, ignore_index: int = -100,
    reduction: str = "mean",
) -> Any:  # fmt: skip
    """Minus the log probability of the target class, classes at axis 1 (axis 0 for one sample)."""
    axis = 1 if log_probs.ndim > 1 else 0
    wanted = (*log_probs.shape[:axis], *log_probs.shape[axis + 1 :])
    if target.ndim != len(wanted):
        what = f"nll_loss({log_probs.type}, {target.type}): the target needs {list(wanted)}"
        raise ShapeError(what, log_probs.builder.where())
    ignored = target.apply("equal", ignore_index)
    safe = ignored.apply("where", zeros_like(target), target)
    picked = log_probs.apply("gather", unsqueeze(safe, axis), axis=axis)
    loss = -reshaped(picked, target.shape)
    share = None if weight is None else weight.apply("take", safe)
    if share is not None:
        loss = loss * share
    loss = masked_fill(loss, ignored, 0.0)
    if reduction != "mean":
        return reduce(loss, reduction)
    counted = ignored.apply("logical_not").cast(loss.dtype)
    total = counted if share is None else counted * share
    return loss.apply("sum") / total.apply("sum")


def cross_entropy(
    logits: Any, target: Any, weight: Any = None, ignore_index: int = -100,
    label_smoothing: float = 0.0, reduction: str = "mean",
) -> Any:  # fmt: skip
    """nll_loss of log_softmax; a target of floats gives the probability of each class."""
    axis = 1 if logits.ndim > 1 else 0
    log_probs = logits.apply("log_softmax", axis=axis)
    classes = logits.shape[axis]
    if label_smoothing and not isinstance(classes, int):
        what = f"cross_entropy({logits.type}): smoothing needs a fixed number of classes"
        raise ShapeError(what, logits.builder.where())
    spread = [1] * (logits.ndim - axis - 1)
    if target.dtype.is_float:
        if label_smoothing:
            target = target * (1.0 - label_smoothing) + label_smoothing / float(classes)
        weighted = log_probs if weight is None else log_probs * reshaped(weight, (classes, *spread))
        return reduce(-(target * weighted).apply("sum", axes=[axis]), reduction)
    hard = nll_loss(log_probs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return hard
    ignored = target.apply("equal", ignore_index)
    weighted = log_probs if weight is None else log_probs * reshaped(weight, (classes, *spread))
    smooth = masked_fill(-weighted.apply("sum", axes=[axis]), ignored, 0.0)
    if reduction == "mean":
        counted = ignored.apply("logical_not").cast(smooth.dtype)
        if weight is not None:
            safe = ignored.apply("where", zeros_like(target), target)
            counted = counted * weight.apply("take", safe)
        smooth = smooth.apply("sum") / counted.apply("sum")
    else:
        smooth = reduce(smooth, reduction)
    return hard * (1.0 - label_smoothing) + smooth * (label_smoothing / float(classes))
