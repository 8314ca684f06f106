"""A compiled module is called like its model, and returns what its model returns."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import TypeMismatch

Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Output:
    logits: torch.Tensor
    state: dict[str, Any]


class Structured(torch.nn.Module):
    """Nested arguments, keywords, a default; results in a class of its own."""

    def forward(self, x: Any, extra: dict[str, Any], *, pair: Any, scale: float = 2.0) -> Output:
        both = [extra["a"] * scale, extra["b"][0] - 1.0]
        return Output(x + pair[0] * pair[1], {"both": both, "none": None})


@pytest.fixture(scope="module")
def structured() -> tuple[Any, dict[str, Any], Any]:
    torch.manual_seed(0)
    given = {
        "x": torch.randn(3),
        "extra": {"a": torch.randn(3), "b": (torch.randn(2),)},
        "pair": [torch.randn(3), torch.randn(3)],
    }
    model = Structured()
    extra = {"a": torch.randn(3), "b": (torch.randn(2),)}
    return gh.compile(model, given["x"], extra, pair=given["pair"]), given, model(**given)


def check(found: Any, wanted: Output) -> None:
    assert type(found) is Output
    torch.testing.assert_close(found.logits, wanted.logits)
    torch.testing.assert_close(found.state["both"], wanted.state["both"])
    assert found.state["none"] is None


def test_keywords_nested_arguments_and_results(structured: Any) -> None:
    module, given, wanted = structured
    check(module(**given), wanted)
    check(module(given["x"], given["extra"], pair=given["pair"], scale=2.0), wanted)
    with pytest.raises(TypeMismatch, match=r"extra\['b'\] has 2 elements, wanted 1"):
        module(given["x"], {**given["extra"], "b": (torch.ones(2),) * 2}, pair=given["pair"])
    with pytest.raises(TypeMismatch, match="call it as module\\(x, extra, pair\\)"):
        module(given["x"])


class Several(torch.nn.Module):
    """A complex result, a size, an argument that is written to."""

    def forward(self, z: Any, x: Any) -> Any:
        x.add_(1.0)
        return z * 2.0, x.shape[0], x * x


def test_complex_results_numbers_and_written_arguments() -> None:
    z, x = torch.randn(4, dtype=torch.complex64), torch.zeros(5)
    module = gh.compile(Several(), z, x.clone())
    twice, size, square = module(z, x)
    assert twice.dtype is torch.complex64
    torch.testing.assert_close(twice, z * 2.0)
    assert size == 5
    assert x.tolist() == square.tolist() == [1.0] * 5


def test_functions_of_our_own_tensors() -> None:
    def model(x: Any, *, y: Any, flag: bool = True) -> Any:
        return Pair({"sum": x + y}, [x * y] if flag else None)

    a, b = np.arange(3, dtype=np.float32), np.full(3, 2.0, np.float32)
    module = gh.compile(model, a, y=b, flag=True)
    found = module(a, y=b)
    assert type(found) is Pair
    assert found.first["sum"].tolist() == [2.0, 3.0, 4.0]
    assert found.second[0].tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(TypeMismatch, match="flag was True when the model was compiled, got False"):
        module(a, y=b, flag=False)
