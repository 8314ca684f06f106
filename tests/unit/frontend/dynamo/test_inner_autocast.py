"""Autocast inside of what `torch.compile` captures."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from glasshouse.frontend import dynamo


class Mixed(nn.Module):
    """Regions beside and inside of each other; what some of them are told is not to cast."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> Sequence[torch.Tensor]:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.first(x)
            scores = (y @ y.t()).softmax(-1)
            with torch.autocast("cpu", enabled=False):
                whole = self.second(y.float())
            z = self.second(y)
        return y, scores, whole, z, self.second(x)


@pytest.mark.parametrize("executor", ["reference", "compiled"])
@pytest.mark.parametrize("around", [False, True])
def test_results_are_of_the_types_that_pytorch_gives(executor: str, around: bool) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, x = Mixed().eval(), torch.randn(3, 8)
    made = torch.compile(model, backend="glasshouse", options={"executor": executor})
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=around):
        for got, wanted in zip(made(x), model(x), strict=True):
            assert got.dtype is wanted.dtype
            torch.testing.assert_close(got, wanted, atol=2e-2, rtol=2e-2)
        assert torch.is_autocast_enabled("cpu") == around


def test_a_region_in_which_tracing_fails_is_closed() -> None:
    torch._dynamo.reset()
    dynamo.reset()

    def fails(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.ops.glasshouse_test.refused(x @ x)

    with torch.library._scoped_library("glasshouse_test", "FRAGMENT") as library:
        library.define("refused(Tensor x) -> Tensor")
        library.impl("refused", lambda x: x.clone(), "CPU")
        tried = []

        def meta(x: torch.Tensor) -> torch.Tensor:
            tried.append(x)
            if len(tried) > 1:  # Dynamo asks first
                raise RuntimeError("refused")
            return torch.empty_like(x)

        library.impl("refused", meta, "Meta")
        made = torch.compile(fails, backend="glasshouse", options={"executor": "compiled"})
        with torch.no_grad(), pytest.raises(Exception, match="refused"):
            made(torch.randn(3, 3))
    assert not torch.is_autocast_enabled("cpu")
