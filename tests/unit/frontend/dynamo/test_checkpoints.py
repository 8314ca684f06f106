"""Checkpointed parts of a model that is trained through `torch.compile`."""

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from glasshouse.frontend import dynamo


def _attended(x: torch.Tensor) -> torch.Tensor:
    q, k, v = x.chunk(3, -1)
    return torch.tanh(F.scaled_dot_product_attention(q, k, v, is_causal=True)).sum()


def _dropped(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.5) * 3.0


def _fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()


def test_attention_inside_of_a_checkpoint_is_compiled() -> None:
    _fresh()
    x = torch.randn(2, 2, 5, 12, requires_grad=True)
    _attended(x).backward()
    expected, x.grad = x.grad, None
    run = torch.compile(
        lambda x: checkpoint(_attended, x, use_reentrant=False),
        backend="glasshouse", options={"executor": "compiled"},
    )  # fmt: skip
    run(x).backward()
    torch.testing.assert_close(x.grad, expected)
    assert [g.phase for g in dynamo.compiled_graphs()] == ["forward", "backward"]


def test_what_a_checkpoint_draws_is_the_same_in_its_gradient() -> None:
    _fresh()
    x = torch.ones(64, requires_grad=True)
    run = torch.compile(
        lambda x: checkpoint(_dropped, x, use_reentrant=False),
        backend="glasshouse", options={"executor": "compiled"},
    )  # fmt: skip
    for _ in range(3):
        y = run(x)
        x.grad = None
        y.sum().backward()
        assert 0 < int((y == 0).sum()) < 64
        torch.testing.assert_close(x.grad, y.detach())
