"""The margin losses of many classes that are trained, in ops whose gradients are right.

PyTorch's decompositions of them, which all its compilers take, give others than PyTorch computes
op by op. With several labels, the places behind the first -1 of a row count as the label 0; with
one, a margin that is just kept has a gradient. So calls of them become calls of these before
gradients are taken.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx
from torch.nn import _reduction
from torch.nn.functional import multi_margin_loss, multilabel_margin_loss

from glasshouse.frontend.dynamo.replaced_calls import replace_calls

_REDUCTIONS = {"none": lambda x: x, "mean": Tensor.mean, "sum": Tensor.sum}


def margin_loss(
    input: Tensor,  # as PyTorch names it
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Each class that is named before the first -1 against each that is not."""
    reduction = _reduced(size_average, reduce, reduction)
    rows, labels = torch.atleast_2d(input), torch.atleast_2d(target)
    classes = rows.shape[1]
    named = (labels < 0).cumsum(1) == 0
    labels = labels.where(named, 0)
    hits = (labels.unsqueeze(-1) == torch.arange(classes, device=labels.device)).logical_and(
        named.unsqueeze(-1)
    )
    counts = named.unsqueeze(-1).logical_and(hits.any(1).logical_not().unsqueeze(1))
    # Relu, since a margin that is just kept has no gradient.
    apart = (1 - rows.gather(1, labels).unsqueeze(-1) + rows.unsqueeze(1)).relu()
    losses = apart.where(counts, 0).sum((1, 2)) / classes
    return _REDUCTIONS[reduction](losses if input.dim() == 2 else losses.squeeze(0))


def one_label_loss(
    input: Tensor,  # as PyTorch names it
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The class that is named against each other one."""
    reduction = _reduced(size_average, reduce, reduction)
    rows, labels = torch.atleast_2d(input), torch.atleast_1d(target).unsqueeze(1)
    classes = rows.shape[1]
    apart = (margin - rows.gather(1, labels) + rows).relu()
    if p == 2:
        apart = apart * apart
    if weight is not None:
        apart = apart * weight[labels]
    others = torch.arange(classes, device=labels.device) != labels
    losses = apart.where(others, 0).sum(1) / classes
    return _REDUCTIONS[reduction](losses if target.dim() == 1 else losses.squeeze(0))


_OURS = {multilabel_margin_loss: margin_loss, multi_margin_loss: one_label_loss}


def _reduced(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """How losses are put together, also as older scripts say it."""
    if size_average is None and reduce is None:
        return reduction
    said: str = _reduction.legacy_get_string(size_average, reduce)
    return said


def keep_margin_losses(module: fx.GraphModule) -> None:
    """Calls of PyTorch's losses become calls of these."""
    replace_calls(module, _OURS, _replaced)


def _replaced(node: fx.Node) -> bool:
    node.target = _OURS[node.target]
    return True
