"""Sizes that no formula of ours writes are fixed; what cannot be captured is PyTorch's."""

from __future__ import annotations

import pytest
import torch

from glasshouse.errors import NotCompiled, Unsupported
from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo import entry


@pytest.fixture(autouse=True)
def _forget() -> None:
    torch._dynamo.reset()
    dynamo.reset()


def _square(x: torch.Tensor) -> torch.Tensor:
    side = int(x.shape[1] ** 0.5)
    return x.reshape(x.shape[0], side, side).transpose(1, 2).sin() * side


def test_a_size_without_a_formula_is_fixed_and_others_stay_open() -> None:
    run = torch.compile(
        _square, backend="glasshouse", dynamic=True, options={"executor": "compiled"}
    )
    for rows, places in ((2, 16), (3, 16), (5, 16), (3, 25)):
        x = torch.randn(rows, places)
        torch.testing.assert_close(run(x), _square(x))
    shapes = [g.graph.inputs[0].type.shape for g in dynamo.compiled_graphs()]
    assert [s[1] for s in shapes] == [16, 25]
    assert not any(isinstance(s[0], int) for s in shapes)


def test_gradients_of_a_size_without_a_formula() -> None:
    run = torch.compile(_square, backend="glasshouse", dynamic=True)
    for rows, places in ((2, 16), (3, 25)):
        x, y = (torch.linspace(0, 1, rows * places).reshape(rows, places) for _ in range(2))
        run(x.requires_grad_()).sum().backward()
        _square(y.requires_grad_()).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert {g.phase for g in dynamo.compiled_graphs()} == {"forward", "backward"}


def test_a_size_that_must_stay_open_leaves_the_graph_to_pytorch() -> None:
    run = torch.compile(_square, backend="glasshouse")
    x = torch.randn(2, 16)
    torch._dynamo.mark_dynamic(x, 1)
    with pytest.warns(NotCompiled, match="left to PyTorch: the size"):
        torch.testing.assert_close(run(x), _square(x))
    x = torch.randn(2, 25)
    torch.testing.assert_close(run(x), _square(x))


@pytest.mark.parametrize("train", [False, True])
def test_a_graph_that_is_not_captured_is_pytorchs(
    monkeypatch: pytest.MonkeyPatch, train: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Unsupported("not this one")

    monkeypatch.setattr(entry, "import_graph_module", refuse)
    x = torch.randn(3, 16, requires_grad=train)
    with pytest.warns(NotCompiled, match="not this one"):
        found = torch.compile(_square, backend="glasshouse")(x)
    torch.testing.assert_close(found, _square(x))
    if train:
        found.sum().backward()
        assert x.grad is not None
    torch._dynamo.reset()
    with pytest.raises(Exception, match="not this one"):
        torch.compile(_square, backend="glasshouse", options={"executor": "compiled"})(x)
