"""CTC's loss with shapes that are known: PyTorch's kernels, with room for the longest target.

PyTorch's own op gives, beside the loss, a table whose size is that of the longest target length,
which only the data tell: nothing can be captured that contains it. Here that table is as large as
the targets allow. While a model is captured its calls of `ctc_loss` become calls of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

CALLS = (torch.ctc_loss, functional.ctc_loss)
"""What a model calls; `nn.CTCLoss` is the second one."""

_LIBRARY = torch.library.Library("glasshouse", "FRAGMENT")
_OPERANDS = "Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths"
_OPTIONS = "int blank, bool zero_infinity"
_LIBRARY.define(f"ctc_loss({_OPERANDS}, {_OPTIONS}) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"ctc_loss_grad(Tensor grad, {_OPERANDS}, Tensor loss, Tensor table, {_OPTIONS}) -> Tensor"
)


def _loss(
    log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, longest: torch.Tensor,
    blank: int, zero_infinity: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Losses [B] and the forward table [B, T, 2 S + 1]."""
    loss, table = _used(log_probs, targets, lengths, longest, blank, zero_infinity)
    missing = _width(targets) - table.shape[-1]
    return loss, functional.pad(table, (0, missing)) if missing else table


def _used(
    log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor, longest: torch.Tensor,
    blank: int, zero_infinity: bool,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """The same with as much of the table as the longest target needs."""
    found: tuple[torch.Tensor, torch.Tensor] = torch._C._VariableFunctions._ctc_loss(
        log_probs, targets, lengths.tolist(), longest.tolist(), blank, zero_infinity
    )
    return found


def _grad(
    grad: torch.Tensor, log_probs: torch.Tensor, targets: torch.Tensor, lengths: torch.Tensor,
    longest: torch.Tensor, loss: torch.Tensor, table: torch.Tensor, blank: int, zero_infinity: bool,
) -> torch.Tensor:  # fmt: skip
    most = longest.tolist()
    used = table[..., : 2 * max(most, default=0) + 1].contiguous()
    found: torch.Tensor = torch.ops.aten._ctc_loss_backward(
        grad.contiguous(), log_probs, targets, lengths.tolist(), most, loss, used, blank,
        zero_infinity,
    )  # fmt: skip
    return found


def _width(targets: torch.Tensor) -> Any:
    """Columns of the table: labels of one target, which may be all that are concatenated."""
    return 2 * targets.shape[-1] + 1


for _name, _function in (("ctc_loss", _loss), ("ctc_loss_grad", _grad)):
    _LIBRARY.impl(_name, _function, "CPU")
    _LIBRARY.impl(_name, _function, "CUDA")


def direct(target: str, results: Sequence[int]) -> Callable[..., Any] | None:
    """What computes these results of an op of this file, without PyTorch's dispatcher of ops that
    are written in Python (20 us); None for other ops."""
    if target == "glasshouse.ctc_loss.default":
        return _loss if 1 in results else _used
    return _grad if target == "glasshouse.ctc_loss_grad.default" else None


@torch.library.register_fake("glasshouse::ctc_loss", lib=_LIBRARY)
def _loss_shapes(log_probs: Any, targets: Any, *_: Any) -> Any:
    steps, batch = log_probs.shape[:2]
    table = log_probs.new_empty(batch, steps, _width(targets))
    return log_probs.new_empty(batch), table


@torch.library.register_fake("glasshouse::ctc_loss_grad", lib=_LIBRARY)
def _grad_shapes(grad: Any, log_probs: Any, *_: Any) -> Any:
    return torch.empty_like(log_probs)


def _saved(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs[:4], *output)
    ctx.options = inputs[4:]
    ctx.mark_non_differentiable(output[1])


def _backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
    found = torch.ops.glasshouse.ctc_loss_grad(grad, *ctx.saved_tensors, *ctx.options)
    return found, None, None, None, None, None


torch.library.register_autograd(
    "glasshouse::ctc_loss", _backward, setup_context=_saved, lib=_LIBRARY
)


def ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Any, target_lengths: Any,
    blank: int = 0, reduction: str | int = "mean", zero_infinity: bool = False,
) -> torch.Tensor:  # fmt: skip
    """As `torch.nn.functional.ctc_loss`; `reduction` may be its number."""
    single = log_probs.dim() == 2
    if single:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    lengths, longest = (
        torch.as_tensor(given, dtype=torch.int64).reshape(-1)
        for given in (input_lengths, target_lengths)
    )
    loss = torch.ops.glasshouse.ctc_loss(
        log_probs, targets, lengths, longest, blank, zero_infinity
    )[0]
    if zero_infinity:
        loss = torch.where(loss == float("inf"), torch.zeros_like(loss), loss)
    if reduction in ("mean", 1):
        return (loss / longest.clamp(min=1).to(loss.dtype)).mean()
    if reduction in ("sum", 2):
        return loss.sum()
    return loss.squeeze(0) if single else loss
