"""Attention that is trained on a GPU: one op forward and one backward, equal to PyTorch's; here on
the host, as a GPU would be given it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from glasshouse.frontend import dynamo
from glasshouse.frontend.dynamo.whole_attention import keep_attention, whole_attention


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    dynamo.reset()


def as_for_a_gpu(module: Any, examples: Any, **given: Any) -> Any:
    keep_attention(module)
    return dynamo.backend(module, examples, **given)


MASKS = {
    "none": lambda: None,
    "bool": lambda: torch.rand(2, 1, 9, 11) > 0.4,
    "added": lambda: torch.randn(1, 1, 9, 11),
    "hidden": lambda: torch.full((2, 1, 9, 11), float("-inf")).index_fill_(0, torch.tensor(1), 0.5),
}


@pytest.mark.parametrize(("mask", "causal"), [("none", True), *((name, False) for name in MASKS)])
def test_gradients_equal_pytorch(mask: str, causal: bool) -> None:
    torch.manual_seed(0)
    hides = MASKS[mask]()
    q, k, v = (torch.randn(2, 3, n, 8, requires_grad=True) for n in (9, 11, 11))

    def model(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v, hides, is_causal=causal, scale=0.3).sin()

    run = torch.compile(model, backend=as_for_a_gpu)
    ours = run(q, k, v)
    theirs = model(q, k, v)
    torch.testing.assert_close(ours, theirs)
    g = torch.randn_like(theirs)
    for mine, wanted in zip(
        torch.autograd.grad(ours, (q, k, v), g), torch.autograd.grad(theirs, (q, k, v), g),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(mine, wanted)
    names = {n.op.name for graph in dynamo.compiled_graphs() for n in graph.graph.nodes}
    assert "attention" in names
    assert not {"opaque"} & names


def test_half_floats_are_as_exact_as_products_in_float32() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 40, 16).bfloat16().requires_grad_() for _ in range(3))
    with torch.no_grad():
        q *= 4  # scores of some size: rounded to bfloat16 they would lose a tenth of a weight

    def model(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v)

    ours = torch.compile(model, backend=as_for_a_gpu)(q, k, v)
    g = torch.randn_like(ours)
    mine = torch.autograd.grad(ours, (q, k, v), g)
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wanted = torch.autograd.grad(model(*exact), exact, g.double())
    for ours_, theirs in zip(mine, wanted, strict=True):
        error = (ours_.double() - theirs).abs().max() / theirs.abs().max()
        assert error < 1e-2


@pytest.mark.parametrize("what", ["heads", "dropout", "mask with a gradient", "three axes"])
def test_what_it_does_not_say_stays_pytorchs(what: str) -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 4, 5, 8, requires_grad=True) for _ in range(3))
    mask = torch.randn(5, 5, requires_grad=True) if "mask" in what else None
    if what == "heads":
        k, v = (x[:, :2].detach().requires_grad_() for x in (k, v))
    if what == "three axes":
        q, k, v = (x[0].detach().requires_grad_() for x in (q, k, v))
    seen: list[Any] = []

    def model(q: Any, k: Any, v: Any) -> Any:
        dropout = 0.5 if what == "dropout" else 0.0
        return F.scaled_dot_product_attention(q, k, v, mask, dropout, enable_gqa=what == "heads")

    def backend(module: Any, examples: Any) -> Any:
        keep_attention(module)
        seen.extend(n.target for n in module.graph.nodes if n.op == "call_function")
        return module

    torch.compile(model, backend=backend)(q, k, v)
    assert F.scaled_dot_product_attention in seen
    assert torch.ops.glasshouse.attention.default not in seen


def test_it_runs_without_a_compiler() -> None:
    q, k, v = (torch.randn(1, 2, 5, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert torch.autograd.gradcheck(lambda *x: whole_attention(*x, None, True, None), (q, k, v))
