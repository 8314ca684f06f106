"""The multi-label margin loss that is trained, in ops whose gradients are right.

PyTorch's decomposition of it, which all its compilers take, counts the places behind the first -1
of a row of labels as the label 0: losses and gradients are others than those that PyTorch computes
op by op. So calls of it become calls of this before gradients are taken.
"""

from __future__ import annotations

import torch
from torch import Tensor, fx
from torch.nn import _reduction
from torch.nn.functional import multilabel_margin_loss

from glasshouse.frontend.torch.replaced_calls import replace_calls

_REDUCTIONS = {"none": lambda x: x, "mean": Tensor.mean, "sum": Tensor.sum}


def margin_loss(
    input: Tensor,  # as PyTorch names it
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Each class that is named before the first -1 against each that is not."""
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
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


def keep_margin_loss(module: fx.GraphModule) -> None:
    """Calls of PyTorch's loss become calls of this."""
    replace_calls(module, {multilabel_margin_loss}, _replaced)


def _replaced(node: fx.Node) -> bool:
    node.target = margin_loss
    return True
