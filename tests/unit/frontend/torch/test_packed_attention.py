"""Attention kernels of GPUs run anywhere: sequences in one row, shared heads, biases, rows that see
no key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from frontend_torch import as_array
from glasshouse.frontend.torch import capture, opaque_ops
from glasshouse.numpy_ref import run

efficient = torch.ops.aten._efficient_attention_forward
flash = torch.ops.aten._flash_attention_forward


class Call(torch.nn.Module):
    def __init__(self, op: Any, *rest: Any, **named: Any) -> None:
        super().__init__()
        self.op, self.rest, self.named = op, rest, named

    def forward(self, q: Any, k: Any, v: Any, **tensors: Any) -> Any:
        return self.op(q, k, v, *self.rest, **self.named, **tensors)[:2]


def _found(model: Call, *tensors: Any, **named: Any) -> list[Any]:
    captured = capture(model, list(tensors), named)
    assert not opaque_ops(captured.graph)
    given = captured.flat_inputs(tensors, named)
    return run(captured.graph, [as_array(t) for t in given])


def _wanted(q: Any, k: Any, v: Any, seen: Any, bias: Any = 0.0) -> tuple[Any, Any]:
    """[batch, length, heads, dim], by a loop over rows: a row without a key is zeros."""
    k, v = (x.repeat_interleave(q.shape[2] // x.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bmhd,bnhd->bhmn", q, k) * q.shape[-1] ** -0.5 + bias
    scores = scores.masked_fill(~seen, -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return torch.einsum("bhmn,bnhd->bmhd", weights, v), scores.logsumexp(-1)


def _close(found: Any, wanted: Any) -> None:
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-4, atol=1e-5)


def _random(*shape: int) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("mask_type", [0, 1, 2])
@pytest.mark.parametrize("lengths", [(5, 3), (3, 5), (4, 4), (1, 6)])
def test_causal_from_either_end(mask_type: int, lengths: tuple[int, int]) -> None:
    (m, n) = lengths
    q, k, v = _random(2, m, 3, 8), _random(2, n, 3, 8), _random(2, n, 3, 6)
    seen = torch.ones(m, n, dtype=torch.bool).tril((n, 0, n - m)[mask_type])
    rest = (None, None, None, None, None, 0.0, mask_type, True)
    out, kept = _found(Call(efficient, *rest), q, k, v)
    wanted, sums = _wanted(q, k, v, seen)
    _close(out, wanted)
    assert kept.shape == (2, 3, 32)
    _close(kept[..., :m], sums)
    assert np.isposinf(kept[..., m:]).all()


def test_sequences_of_one_row_see_themselves() -> None:
    begins_q, begins_k = (torch.tensor(b, dtype=torch.int32) for b in ([0, 2, 2, 5], [0, 3, 4, 6]))
    seen = torch.zeros(6, 7, dtype=torch.bool)
    seen[0:2, 0:3] = seen[2:5, 4:6] = True  # the second has no query, the last query no sequence
    q, k, v = _random(1, 6, 2, 4), _random(1, 7, 2, 4), _random(1, 7, 2, 4)
    model = Call(efficient, None, begins_q, begins_k, 3, 3, 0.0, 0, True)
    out, kept = _found(model, q, k, v)
    wanted, sums = _wanted(q, k, v, seen)
    _close(out[:, :5], wanted[:, :5])
    _close(kept[0, :, :2], sums[0, :, 0:2])
    _close(kept[2, :, :3], sums[0, :, 2:5])
    assert np.isposinf(kept[1]).all()
    flat = _found(Call(flash, begins_q, begins_k, 3, 3, 0.0, False, False), q[0], k[0], v[0])
    _close(flat[0][:5], wanted[0, :5])
    _close(flat[1][:, :5], sums[0, :, :5])


def test_bias_and_lengths_of_keys() -> None:
    q, k, v, bias = (
        _random(2, 3, 2, 4),
        _random(2, 5, 2, 4),
        _random(2, 5, 2, 4),
        _random(2, 2, 3, 5),
    )
    lengths = torch.tensor([5, 2], dtype=torch.int32)
    seen = torch.arange(5) < lengths.reshape(2, 1, 1, 1)
    model = Call(efficient, bias, None, None, None, None, 0.0, 0)
    out, kept = _found(model, q, k, v, seqlen_k=lengths)
    _close(out, _wanted(q, k, v, seen, bias)[0])
    assert kept.shape == (2, 2, 0)


def test_heads_that_share_keys() -> None:
    q, k, v = _random(2, 3, 4, 8), _random(2, 5, 2, 8), _random(2, 5, 2, 8)
    seen = torch.ones(3, 5, dtype=torch.bool).tril(2)
    found = _found(Call(flash, None, None, 3, 5, 0.0, True, False), q, k, v)
    for ours, theirs in zip(found, _wanted(q, k, v, seen), strict=True):
        _close(ours, theirs)


def test_a_seed_that_a_gradient_reads_is_pytorchs() -> None:
    """Dropout that is drawn here is not what PyTorch's gradient would draw again."""

    class Reads(torch.nn.Module):
        def forward(self, q: Any) -> Any:
            out = flash(q, q, q, None, None, 4, 4, 0.5, False, False)
            return out[0], out[2].to(torch.int64) + 1

    captured = capture(Reads(), [_random(1, 4, 1, 8)])
    assert opaque_ops(captured.graph) == {"aten._flash_attention_forward.default": 1}
