"""Products of complex tensors are spelled as real ones: nothing is left to PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from frontend_torch import same_as_torch
from glasshouse.frontend.torch.tracing.function import as_module

C = torch.complex64
FORMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {}


def _add(name: str, function: Callable[..., torch.Tensor], *shapes: tuple[int, ...] | str) -> None:
    made = torch.Generator().manual_seed(len(name))
    FORMS[name] = (
        function,
        tuple(
            torch.randn(s, dtype=C, generator=made)
            if not isinstance(s, str)
            else torch.randn(tuple(map(int, s.split(","))), generator=made)
            for s in shapes
        ),
    )


_add("matmul", torch.matmul, (2, 3, 4), (2, 4, 5))
_add("matmul, broadcast", torch.matmul, (2, 3, 4), (4, 5))
_add("matrix and vector", torch.matmul, (3, 4), (4,))
_add("vector and matrix", torch.matmul, (4,), (4, 3))
_add("two vectors", torch.matmul, (4,), (4,))
_add("vdot", torch.vdot, (4,), (4,))
_add("real times complex", torch.einsum, (3, 4), (4, 5))
FORMS["real times complex"] = (
    lambda x, y: torch.einsum("ij,jk->ik", x.to(y.dtype), y),
    (torch.randn(3, 4), torch.randn(4, 5, dtype=C)),
)
_add("einsum of modes", lambda x, y: torch.einsum("bim,iom->bom", x, y), (2, 3, 5), (3, 4, 5))
_add("einsum, no right side", lambda x, y: torch.einsum("ij,jk", x, y), (2, 3), (3, 4))
_add("outer", lambda x, y: torch.einsum("i,j->ij", x, y), (2,), (3,))
_add("sum of one", lambda x: torch.einsum("ij->i", x), (2, 3))
_add("linear", torch.nn.functional.linear, (2, 3, 4), (5, 4), (5,))
_add("addmm", lambda c, x, y: torch.addmm(c, x, y, beta=2, alpha=3), (2, 4), (2, 3), (3, 4))
_add("by a number", lambda x: x * (2 - 3j), (2, 3))
_add("by real numbers", lambda x, y: x * y, (2, 3), "3")
_add("slices", lambda x: x[1:, ..., ::2], (2, 3, 5))
_add("borders", lambda x: torch.nn.functional.pad(x, (1, 2, 0, 1)), (2, 3))
_add("turned", lambda x: x.permute(2, 0, 1).transpose(-1, 0), (2, 3, 5))
_add("mean", lambda x: x.mean((0, -1), keepdim=True), (2, 3, 5))
_add("einsum of parts", lambda x, y: torch.einsum("ij,jk->ik", x.exp(), y * y).real, (2, 3), (3, 4))
_add("real and parts", lambda x, y: torch.einsum("ij,jk->ik", y, x.exp().imag), (3, 4), "2,3")
_add("quotient", lambda x, y: x / y, (2, 3), (3,))
_add("real by complex", lambda x, y: y / x + 1 / x, (2, 3), "3")
_add("by a complex number", lambda x, y: x / (2 - 3j) + y * 1j + 2j * y, (2, 3), "3")
_add("reciprocal and square", lambda x: x.reciprocal() + x.square() + x**2, (2, 3))
_add("exponential and waves", lambda x: x.exp() + x.sin() - x.cos(), (2, 3))
_add("joined again", lambda x, y: torch.cat([x.exp(), y], 1), (2, 3), (2, 4))
_add("stacked", lambda x, y: torch.stack([x.exp(), y], 1).sum(1), (2, 3), (2, 3))
_add("moved parts", lambda x: (-x.exp()).T.flip(0)[1:, None].mean(0), (2, 3))
_add("real and complex sum", lambda x, y: x + y - (y - x), (2, 3), "3")
_add("borders of parts", lambda x: torch.nn.functional.pad(x.exp(), (1, 2)), (2, 3))
_add("running sums", lambda x: x.cumsum(1) + x.exp().cumsum(0).roll(1, 0), (2, 3))
_add("repeated", lambda x: x.exp().repeat(2, 1), (2, 3))
_add("wider", lambda x: x.exp().to(torch.complex128), (2, 3))
_add("divided", lambda x, y: x / y / 2.5, (2, 3), "2,1")


@pytest.mark.parametrize("name", FORMS)
def test_complex_products_are_real_ones(name: str) -> None:
    function, inputs = FORMS[name]
    captured = same_as_torch(as_module(function), *inputs, tolerance=1e-5)
    assert not [n for n in captured.graph.nodes if n.op.name == "opaque"]


def test_infinities_and_nan_reach_the_same_elements() -> None:
    x = torch.randn(3, 4, dtype=C)
    x[1, 2] = complex(float("inf"), 0)
    x[2, 0] = complex(0, float("nan"))
    made = same_as_torch(as_module(_finite), x, torch.randn(4, 5, dtype=C))
    assert not [n for n in made.graph.nodes if n.op.name == "opaque"]


def test_a_quotient_neither_overflows_nor_vanishes() -> None:
    x = torch.tensor([1e30 + 1e30j, 3e-30 - 1e-30j, 1 + 2j, float("inf") * (1 + 0j)], dtype=C)
    y = torch.tensor([2e30 - 1e30j, 1e-30 + 5e-30j, 0j, 1 - 1j], dtype=C)
    made = same_as_torch(as_module(lambda x, y: torch.view_as_real(x / y)[:2]), x, y)
    assert not [n for n in made.graph.nodes if n.op.name == "opaque"]
    same_as_torch(as_module(lambda x, y: torch.view_as_real(x / y).isfinite()), x, y)


def test_a_real_infinity_stays_in_the_real_part() -> None:
    x, y = torch.tensor([float("inf"), 1.0]), torch.tensor([1 + 2j, 3 - 1j], dtype=C)
    same_as_torch(as_module(lambda x, y: torch.view_as_real(x + y)), x, y)


def _finite(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(x @ y).isfinite()
