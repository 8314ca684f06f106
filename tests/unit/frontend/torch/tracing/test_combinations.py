"""Combinations are captured whole: their number is that of the size."""

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import as_array
from glasshouse.numpy_ref import run


class _Combined(nn.Module):
    def __init__(self, r: int, repeated: bool) -> None:
        super().__init__()
        self.r, self.repeated = r, repeated

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.combinations(x, self.r, with_replacement=self.repeated)


@pytest.mark.parametrize("repeated", [False, True], ids=["once", "repeated"])
@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 2, 5])
def test_equals_pytorch(count: int, r: int, repeated: bool) -> None:
    model, x = _Combined(r, repeated), torch.randn(count)
    (found,) = run(gh.trace(model, x), [as_array(x)])
    np.testing.assert_array_equal(found, model(x))


def test_one_module_and_no_parts() -> None:
    model, x = _Combined(2, False), torch.randn(6)
    compiled = gh.compile(model, x, progress=False)
    assert compiled.graph
    other = torch.randn(6)
    torch.testing.assert_close(compiled(other), model(other))
