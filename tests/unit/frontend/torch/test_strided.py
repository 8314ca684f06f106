"""`as_strided` reads the memory that its argument lies in, not the argument row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from frontend_torch import as_array
from glasshouse.errors import GlasshouseError, TypeMismatch
from glasshouse.frontend.torch import capture
from glasshouse.numpy_ref import run

X = torch.arange(20.0).reshape(4, 5)


class Function(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, x: Any) -> Any:
        return self.call(x)


def _written(x: Any) -> Any:
    whole = x * 1
    whole.t()[1:].as_strided((2, 2), (1, 2), 3).mul_(-1)
    return whole


def _seen_by_others(x: Any) -> Any:
    whole = x * 1
    view = whole[1:].as_strided((3,), (4,), 0)
    whole.add_(1)
    return view, whole


CALLS: dict[str, Callable[[Any], Any]] = {
    "before a slice": lambda x: (x * 1)[2:].as_strided((2, 2), (1, 2), 0),
    "from where a slice begins": lambda x: (x * 1)[2:].as_strided((2, 2), (1, 2)),
    "behind a slice": lambda x: (x * 1)[:1].as_strided((2, 2), (1, 2), 12),
    "turned": lambda x: (x * 1).t().as_strided((2, 2), (1, 2)),
    "a view of a view": lambda x: (x * 1).t()[1:, 2:].as_strided((2, 2), (2, 5)),
    "laid out in another order": lambda x: (x.t().clone() * 1).as_strided((2, 2), (1, 2)),
    "a copy": lambda x: torch.as_strided_copy((x * 1)[1:], (2, 3), (0, 1), 2),
    "a number": lambda x: (x * 1)[1, 2].as_strided((2, 2), (5, 1)),
    "nothing": lambda x: (x * 1)[1:].as_strided((0, 2), (5, 1), 0),
    "scattered, turned": lambda x: torch.as_strided_scatter(x.t(), -X[:2, :2], (2, 2), (1, 2)),
    "scattered into a slice": lambda x: torch.as_strided_scatter(
        (x * 1)[1:, 1:], -X[:2, :2], (2, 2), (1, 7)
    ),
    "complex": lambda x: torch.view_as_real(torch.complex(x, -x)[1:].as_strided((2,), (3,), 1)),
    "written": _written,
    "seen by others": _seen_by_others,
}


def _same(found: Any, wanted: Any) -> None:
    both = zip(*([x] if torch.is_tensor(x) else x for x in (found, wanted)), strict=True)
    for ours, theirs in both:
        assert torch.equal(torch.as_tensor(ours), theirs)


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize(
    "lies", ["part", *[pytest.param(how, marks=pytest.mark.slow) for how in ("whole", "turned")]]
)
def test_memory_is_read(name: str, lies: str) -> None:
    x = {"whole": X, "turned": X.t().contiguous().t(), "part": torch.cat([X, X], 1)[:, 3:8]}[lies]
    model = Function(CALLS[name])
    captured = capture(model, [x])
    outputs = run(captured.graph, [as_array(t) for t in captured.flat_inputs([x])])
    _same(captured.results([torch.from_numpy(np.array(o)) for o in outputs]), model(x))


def test_memory_around_an_argument_comes_with_it() -> None:
    base = torch.arange(20.0)
    model = Function(lambda x: (x.as_strided((2, 2), (1, 2), 0), x + x.as_strided((10,), (1,), 10)))
    module = gh.compile(model, base[5:15], progress=False)
    for memory in (base, -base, torch.arange(40.0) * 3):  # more of it is not read
        _same(module(memory[5:15]), model(memory[5:15]))
    for other in (base[4:14], base[5:15].clone(), base[:10], torch.arange(40.0)[5:25:2]):
        with pytest.raises(TypeMismatch, match="reads memory around an argument"):
            module(other)
    with pytest.raises(GlasshouseError, match="must be a view of larger memory"):
        module(base[5:15].numpy())


def test_writing_around_an_argument_is_refused() -> None:
    with pytest.raises(GlasshouseError, match="writes into its argument x, which enters as memory"):
        capture(Function(lambda x: x.as_strided((2,), (1,), 0).add_(1)), [torch.arange(9.0)[2:5]])


def test_memory_of_other_elements_is_refused() -> None:
    model = Function(lambda x: (x * 1).view(torch.int32)[1:].as_strided((2,), (1,), 0))
    with pytest.raises(GlasshouseError, match="of which only a part is known"):
        capture(model, [X])
