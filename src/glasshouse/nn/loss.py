"""The losses as layers."""

from __future__ import annotations

from typing import Any

from glasshouse.nn import functional as F
from glasshouse.nn.module import Module


class _Loss(Module):
    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class MSELoss(_Loss):
    """The squared difference."""

    repeats = True

    def forward(self, x: Any, target: Any) -> Any:
        return F.mse_loss(x, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute difference."""

    repeats = True

    def forward(self, x: Any, target: Any) -> Any:
        return F.l1_loss(x, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Square near 0, straight beyond."""

    repeats = True

    def forward(self, x: Any, target: Any) -> Any:
        return F.smooth_l1_loss(x, target, reduction=self.reduction)


class BCELoss(_Loss):
    """Binary cross entropy of probabilities."""

    repeats = True

    def forward(self, x: Any, target: Any) -> Any:
        return F.bce_loss(x, target, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits."""

    repeats = True

    def forward(self, x: Any, target: Any) -> Any:
        return F.bce_with_logits_loss(x, target, reduction=self.reduction)


class KLDivLoss(_Loss):
    """The divergence of a target distribution from log probabilities."""

    repeats = True

    def forward(self, x: Any, target: Any) -> Any:
        return F.kl_div(x, target, reduction=self.reduction)


class NLLLoss(_Loss):
    """Minus the log probability of the target class."""

    repeats = True

    def forward(self, x: Any, target: Any) -> Any:
        return F.nll_loss(x, target, reduction=self.reduction)


class CrossEntropyLoss(_Loss):
    """The negative log likelihood of logits."""

    repeats = True

    def __init__(
        self,
        weight: Any = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, logits: Any, target: Any) -> Any:
        return F.cross_entropy(
            logits, target, self.weight, self.ignore_index, self.label_smoothing, self.reduction
        )
