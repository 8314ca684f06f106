"""Windows along axes: overlapping, apart, of one element and of all, of images, with gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import glasshouse as gh

WINDOWS = {
    "overlapping": lambda x: x.unfold(1, 5, 2),
    "apart": lambda x: x.unfold(2, 2, 3) * 2,
    "one": lambda x: x.unfold(0, 1, 1),
    "all": lambda x: x.unfold(-1, 7, 4),
    "of windows": lambda x: x.unfold(1, 3, 3).unfold(2, 3, 2).sum(-1),
    "folded": lambda x: F.fold(F.unfold(x, 2), (9, 7), 2),
    "padded image": lambda x: F.unfold(x, (3, 2), dilation=(2, 1), padding=(1, 2), stride=(2, 3)),
}


def _values() -> torch.Tensor:
    x = torch.randn(3, 9, 7, generator=torch.Generator().manual_seed(0))
    x[0, 0, 0], x[1, 2, 3], x[2, 8, 6], x[0, 4, 4] = float("nan"), float("inf"), -0.0, 1e-42
    return x


@pytest.mark.parametrize("name", list(WINDOWS))
def test_windows_have_the_elements_of_pytorchs(name: str) -> None:
    images = "fold" in name or "image" in name
    x = _values()[None] if images else _values()
    wanted = WINDOWS[name](x)
    found = torch.as_tensor(gh.compile(WINDOWS[name], x, progress=False)(x))
    torch.testing.assert_close(found, wanted, equal_nan=True)
    # Not row-major, and integers.
    if not images:
        for other in (
            x.transpose(0, 2).contiguous().transpose(0, 2),
            torch.arange(189).view(x.shape),
        ):
            found = torch.as_tensor(gh.compile(WINDOWS[name], other, progress=False)(other))
            torch.testing.assert_close(found, WINDOWS[name](other), equal_nan=True)


class _Framed(torch.nn.Module):
    def __init__(self, x: torch.Tensor) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(x.clone())

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        frames = self.x.unfold(1, 5, 2)
        columns = F.unfold(self.x[None, None], 3, stride=2, padding=1, dilation=(1, 2))
        return (frames * weight).sum() + (columns**2).sum()


def test_gradients_are_added_up_where_windows_overlap() -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(*s, generator=generator) for s in ((6, 12), (6, 4, 5)))
    ours, theirs = _Framed(x), _Framed(x)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    loss = theirs(weight)
    loss.backward()
    optimizer.step()
    step = gh.compile(
        gh.trace_training(ours, None, torch.optim.SGD(ours.parameters(), lr=0.1), weight),
        progress=False,
    )
    torch.testing.assert_close(torch.as_tensor(step(weight)), loss.detach())
    torch.testing.assert_close(torch.as_tensor(step(weight)), theirs(weight).detach())
