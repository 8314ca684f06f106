"""Products with a sparse matrix of the model are sums over its elements, not dense products."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.errors import GlasshouseError


class Propagation(torch.nn.Module):
    """A graph's matrix, with a row and a column that are empty and an element that stands twice."""

    def __init__(self, spelling: str, layout: str) -> None:
        super().__init__()
        places = torch.tensor([[0, 0, 3, 3, 1, 3], [2, 4, 0, 4, 1, 4]])
        matrix = torch.sparse_coo_tensor(places, torch.randn(6), (5, 6), check_invariants=True)
        matrix = matrix.coalesce()
        self.register_buffer("matrix", matrix.to_sparse_csr() if layout == "csr" else matrix)
        self.spelling = spelling

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        if self.spelling == "@":
            return self.matrix @ x
        return (
            torch.sparse.mm(self.matrix, x) if self.spelling == "mm" else torch.spmm(self.matrix, x)
        )


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("spelling", ["@", "mm", "spmm"])
def test_products_of_a_sparse_matrix(spelling: str, layout: str) -> None:
    torch.manual_seed(0)
    model, x = Propagation(spelling, layout).eval(), torch.randn(6, 7)
    graph = gh.optimize(gh.trace(model, x))
    names = [n.op.name for n in graph.nodes]
    assert "embedding_bag" in names
    assert not {"opaque", "matmul"} & set(names)
    assert all(n.output.type.numel < 30 or n.output.type.shape[1] == 7 for n in graph.nodes)
    (found,) = gh.compile(graph, progress=False).run_flat([x.numpy()])
    np.testing.assert_allclose(found, model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_matrix_of_two_products_is_folded_away() -> None:
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("matrix", torch.eye(600).to_sparse())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.matrix @ torch.tanh(torch.sparse.mm(self.matrix, x))

    graph = gh.optimize(gh.trace(Twice().eval(), torch.randn(600, 3)))
    assert all(n.output.type.numel < 600 * 600 for n in graph.nodes)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_another_matrix_needs_another_module() -> None:
    model = Propagation("@", "coo").eval()
    module = gh.compile(model, torch.randn(6, 7), progress=False)
    with pytest.raises(GlasshouseError, match="matrix"):
        module.update_weights({"matrix": np.ones((5, 6), np.float32)})
