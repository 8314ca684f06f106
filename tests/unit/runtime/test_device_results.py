"""Memory for results on a device: parts of a block, tensors of their own, inputs written over."""

from __future__ import annotations

import torch

from fake_cuda import HostTorch
from glasshouse.runtime.device_results import LARGE, DeviceResults

FLOAT = torch.float32
SHAPES = [(3, 5), (), (2, 3, 4), (0, 2), (LARGE,), (7,), (1, 1)]


def made(over: bool = False, together: tuple[int, ...] = (0, 2, 3, 4, 5, 6)) -> list[torch.Tensor]:
    described = [(torch.Size(s), torch.int64 if n == 5 else FLOAT) for n, s in enumerate(SHAPES)]
    results = DeviceResults(described, together, {6: 1}, HostTorch())
    return results.make([torch.zeros(2), torch.zeros(1, 1)], over)


def test_they_are_what_empty_tensors_are() -> None:
    for tensor, shape in zip(made(), SHAPES, strict=True):
        assert tuple(tensor.shape) == shape
        assert tensor.is_contiguous()
        assert tensor.data_ptr() % 16 == 0
        assert not tensor._is_view()
        assert not tensor.requires_grad
    assert made()[5].dtype is torch.int64


def test_small_ones_of_a_type_share_a_block() -> None:
    found = made()
    places = [t.untyped_storage().data_ptr() for t in found]
    assert places[0] == places[2]
    assert len(set(places) - {0}) == 5, "the others have memory of their own"
    assert len({t.untyped_storage().data_ptr() for t in made(together=()) if t.numel()}) == 6


def test_parts_do_not_lie_on_each_other_and_change_by_themselves() -> None:
    found = made()
    first, second = found[0], found[2]
    first.fill_(1)
    second.fill_(2)
    assert bool((first == 1).all())
    assert second._version == 1, "what is written to one does not count for the other"
    assert first._version == 1


def test_an_input_is_written_over_where_that_is_asked_for() -> None:
    given = [torch.zeros(2), torch.zeros(1, 1)]
    results = DeviceResults([(torch.Size((1, 1)), FLOAT)], (0,), {0: 1}, HostTorch())
    assert results.make(given, True)[0] is given[1]
    assert results.make(given, False)[0] is not given[1]
