"""Models that take, make or return sparse matrices are compiled, with PyTorch's around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import glasshouse as gh
from glasshouse.errors import CaptureError, ExecutionError, TypeMismatch
from glasshouse.frontend.torch import opaque_ops
from glasshouse.frontend.torch.tracing.capture import capture

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")


def matrix(*shape: int) -> Tensor:
    """Two rows in five are empty, and one column."""
    made = torch.rand(shape, generator=torch.Generator().manual_seed(0)) - 0.4
    made[::3] = 0
    made[:, 1] = 0
    return made.relu()


A, X = matrix(7, 5), torch.randn(5, 3, generator=torch.Generator().manual_seed(1))
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "coo": Tensor.to_sparse,
    "twice": lambda a: torch.cat([a.to_sparse(), a.to_sparse()], 0).narrow_copy(0, 0, 7),
    "csr": Tensor.to_sparse_csr,
    "csc": Tensor.to_sparse_csc,
}


class Model(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def same(found: Any, wanted: Any) -> None:
    for f, w in zip(*([v] if torch.is_tensor(v) else v for v in (found, wanted)), strict=True):
        assert f.layout is w.layout
        torch.testing.assert_close(f.to_dense(), w.to_dense())


PRODUCTS: dict[str, Callable[..., Any]] = {
    "mm": lambda a, x: torch.sparse.mm(a, x).relu(),
    "operator": lambda a, x: a @ x,
    "vector": lambda a, x: a @ x[:, 0],
    "addmm": lambda a, x: torch.addmm(torch.ones(7, 3), a, x, alpha=2.0),
    "factors": lambda a, x: (a * 2.0) @ x,
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_sums_over_elements(name: str, layout: str) -> None:
    model, a = Model(PRODUCTS[name]), LAYOUTS[layout](A)
    captured = capture(model, (a, X))
    assert not opaque_ops(captured.graph)
    same(gh.compile(model, a, X)(a, X), model(a, X))


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_rows_are_folded_as_asked(reduce: str) -> None:
    model = Model(lambda a, x: torch.sparse.mm(a, x, reduce))
    a = A.to_sparse_csr()
    same(gh.compile(model, a, X)(a, X), model(a, X))


MADE: dict[str, Callable[..., Any]] = {
    "to_sparse": lambda a, x: a.to_sparse(),
    "some axes": lambda a, x: a.to_sparse(1),
    "csr": lambda a, x: a.to_sparse_csr(),
    "sampled": lambda a, x: torch.sparse.sampled_addmm(
        a.to_sparse_csr(), torch.ones(7, 3), x.t(), beta=0.5, alpha=2.0
    ),
    "inside": lambda a, x: torch.sparse.mm(a.relu().to_sparse(), x),
}


@pytest.mark.parametrize("name", MADE)
def test_sparse_results_are_pytorchs(name: str) -> None:
    model = Model(MADE[name])
    module = gh.compile(model, A, X)
    for a in (A, A.flip(0) * 2):  # as many elements, elsewhere
        same(module(a, X), model(a, X))
    if name != "sampled":
        fewer = A.clone()
        fewer[2] = 0
        same(module(fewer, X), model(fewer, X))


class Gcn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(3, 8), nn.Linear(8, 4)

    def forward(self, a: Tensor, x: Tensor) -> Tensor:
        made: Tensor = torch.sparse.mm(a, self.two(torch.sparse.mm(a, self.one(x)).relu()))
        return made


def test_a_graph_network_is_trained_with_its_matrix_as_an_argument() -> None:
    a, x = matrix(6, 6).to_sparse(), torch.randn(6, 3)
    y = torch.arange(6) % 4
    ours, theirs = Gcn(), Gcn()
    optimizers = [torch.optim.SGD(m.parameters(), 0.5) for m in (ours, theirs)]
    step = gh.compile(gh.trace_training(ours, F.cross_entropy, optimizers[0], a, x, y))
    for _ in range(3):
        optimizers[1].zero_grad()
        loss = F.cross_entropy(theirs(a, x), y)
        loss.backward()
        optimizers[1].step()
        np.testing.assert_allclose(np.asarray(step(a, x, y)), loss.detach().numpy(), rtol=1e-5)


def test_other_arguments_are_refused() -> None:
    a = A.to_sparse()
    module = gh.compile(Model(PRODUCTS["mm"]), a, X)
    with pytest.raises(TypeMismatch, match="must be a sparse_coo tensor, got a tensor"):
        module(A, X)
    with pytest.raises(TypeMismatch, match=r"must be a sparse_coo tensor of shape .* sparse_csr"):
        module(A.to_sparse_csr(), X)
    with pytest.raises(ExecutionError, match="indices must be"):
        module(torch.ones(7, 5).to_sparse(), X)


def test_what_has_no_formula_is_named() -> None:
    with pytest.raises(CaptureError, match="softmax is not compiled"):
        gh.trace(Model(lambda a: torch.softmax(a, 1)), A.to_sparse())


def test_a_loaded_module_takes_them_too(tmp_path: Any) -> None:
    a = A.to_sparse()
    module = gh.compile(Model(PRODUCTS["mm"]), a, X)
    module.save(tmp_path / "saved")
    found = gh.load(tmp_path / "saved")(a, X)
    torch.testing.assert_close(torch.as_tensor(found), module(a, X))
