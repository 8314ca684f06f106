"""Embeddings with a `max_norm`: rows that are read are shortened where they lie, the others not."""

from __future__ import annotations

import copy

import pytest
import torch

from glasshouse.frontend.torch import capture, opaque_ops


@pytest.mark.parametrize("norm_type", [1.0, 2.0, float("inf")])
def test_rows_are_shortened_in_place(norm_type: float) -> None:
    torch.manual_seed(0)
    theirs = torch.nn.Embedding(7, 4, max_norm=1.5, norm_type=norm_type).requires_grad_(False)
    ours = copy.deepcopy(theirs)
    indices = torch.tensor([[2, 5, 2], [0, 6, 5]])
    before = theirs.weight.clone()
    wanted = theirs(indices)
    changed = (theirs.weight != before).any(1).tolist()
    assert True in [changed[i] for i in (0, 2, 5, 6)]
    assert False in changed

    assert not opaque_ops(capture(ours, [indices]).graph)
    compiled = torch.compile(ours, backend="glasshouse")
    for _ in range(2):  # rows that are short already stay
        torch.testing.assert_close(compiled(indices), wanted)
    torch.testing.assert_close(ours.weight, theirs.weight)
    assert torch.equal(ours.weight[[1, 3, 4]], before[[1, 3, 4]])
