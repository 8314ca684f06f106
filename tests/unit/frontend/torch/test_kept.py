"""What a mask keeps and which elements there are, as PyTorch has it: NaN, -0, whole numbers at the
ends of their range, masks of rows, strides, nothing kept, nothing there."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from glasshouse.frontend.torch import kept  # noqa: E402


def samples() -> list[Any]:
    torch.manual_seed(0)
    special = torch.tensor([0.0, -0.0, float("nan"), 1.0, float("-inf")])
    x = special[torch.randint(0, 5, (3000,))]
    return [
        x, x.double(), x.bfloat16(), x > 0, x.view(30, 100), x.view(30, 100).T,
        x.view(5, 3, 200)[::2], x[:7], torch.zeros(2000), torch.ones(2000),
        torch.empty(0, 2000), torch.tensor(1.0), torch.randint(-3, 3, (40, 50)),
        torch.randint(0, 2, (3000,), dtype=torch.uint8),
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(samples())))
def test_nonzero(number: int) -> None:
    x = samples()[number]
    found = kept.nonzero(x)
    assert found.dtype is torch.int64
    assert torch.equal(found, torch.nonzero(x))


@pytest.mark.parametrize("number", range(len(samples())))
def test_what_a_mask_keeps(number: int) -> None:
    x = samples()[number]
    bits = x.view(x.shape) if not x.is_floating_point() else x.nan_to_num(7.0)
    mask = torch.rand(x.shape) > 0.5
    assert torch.equal(kept.masked_select(bits, mask), torch.masked_select(bits, mask))
    rows = torch.rand(x.shape[:1]) > 0.5
    if x.dim():
        assert torch.equal(kept.by_mask(bits, [mask]), bits[mask])
        assert torch.equal(kept.by_mask(bits, [rows]), bits[rows])
        one = torch.tensor([True])
        assert torch.equal(kept.masked_select(bits, one), torch.masked_select(bits, one))


def test_masks_that_do_not_fit_are_pytorchs_errors() -> None:
    with pytest.raises(IndexError):
        kept.by_mask(torch.ones(5, 2000), [torch.ones(4, dtype=torch.bool)])
    with pytest.raises(RuntimeError):
        kept.masked_select(torch.ones(2000), torch.ones(3, dtype=torch.bool))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_unique(inverse: bool, counts: bool) -> None:
    ends = torch.tensor([-(2**63), 2**63 - 1, 0, -1])
    for x in (
        torch.randint(-900, 1000, (60, 70)), torch.randint(5, 9, (3000,)), torch.full((2000,), -7),
        ends.repeat(600), torch.randint(0, 256, (3000,), dtype=torch.uint8), torch.ones(2000),
        torch.randint(-128, 128, (50, 60), dtype=torch.int8).T, torch.rand(3000) > 0.5,
        torch.empty(0, dtype=torch.int64), torch.randint(0, 4, (10,)), torch.randperm(2000) + 2**40,
    ):  # fmt: skip
        found = kept.unique(x, True, inverse, counts)
        wanted = torch._unique2(x, True, inverse, counts)
        asked = [True, inverse, counts]
        for ours, theirs, is_asked in zip(found, wanted, asked, strict=True):
            assert ours.dtype is theirs.dtype
            assert not is_asked or torch.equal(ours, theirs)
