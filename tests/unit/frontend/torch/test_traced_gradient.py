"""Gradients of nodes that PyTorch runs: its own formulas, on the results that are there."""

import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import assert_same, outputs_of
from glasshouse.errors import GradientError
from glasshouse.frontend.torch import opaque_ops

OF = {
    "inv": torch.linalg.inv, "det": torch.linalg.det,
    "det of a transpose": lambda a: torch.linalg.det(a.mT),
    "slogdet": lambda a: torch.linalg.slogdet(a.mT)[1],
    "solve": lambda a: torch.linalg.solve(a, a[..., :2].sin()),
    "solve from the right": lambda a: torch.linalg.solve(a.mT, a.cos(), left=False),
    "cholesky": lambda a: torch.linalg.cholesky(a @ a.mT), "qr": lambda a: torch.linalg.qr(a)[0],
    "eigh": lambda a: torch.linalg.eigh(a + a.mT)[1].pow(4),
    "svd": lambda a: torch.linalg.svd(a)[0].pow(4), "svdvals": torch.linalg.svdvals,
    "eigvals": lambda a: torch.linalg.eigvals(a).abs(), "lu": lambda a: torch.linalg.lu(a)[2],
    "pinv": lambda a: torch.linalg.pinv(a[..., :3]),
    "igamma": lambda a: torch.special.gammaincc(torch.full_like(a, 2.0), a.abs() + 0.5),
}  # fmt: skip


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        made = torch.Generator().manual_seed(3)
        self.w = nn.Parameter(torch.randn(10, 10, generator=made, dtype=torch.float64))
        self.function = function

    def forward(self, x):
        out = self.function(torch.tanh(x @ self.w) + 3 * torch.eye(10, dtype=x.dtype))
        return (out * torch.linspace(1, 2, out.numel(), dtype=x.dtype).view(out.shape)).sum()


@pytest.mark.parametrize("name", OF)
def test_it_is_pytorchs(name):
    model = Of(OF[name])
    x = torch.randn(2, 10, 10, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    graph = gh.trace_training(model, None, torch.optim.SGD(model.parameters(), lr=1.0), x)
    counts = opaque_ops(graph)
    assert counts
    assert counts[next(iter(counts))] == 1  # not run again for its gradient
    state: dict = {}
    loss = outputs_of(graph, [x], variables=state)[0]
    wanted = model(x)
    wanted.backward()
    assert_same(loss, wanted)
    torch.testing.assert_close(
        model.w.detach() - torch.as_tensor(state["w"]), model.w.grad, rtol=1e-6, atol=1e-8
    )


def test_its_nodes_are_the_backward_of_that_node():
    model, x = Of(OF["solve"]), torch.randn(2, 10, 10, dtype=torch.float64)
    graph = gh.trace_training(model, None, torch.optim.SGD(model.parameters(), lr=1.0), x)
    forward, backward = (n for n in graph.nodes if n.op.name == "opaque")
    assert backward.attrs["target"] == "aten.linalg_lu_solve.default"
    assert backward.origin.grad_of == forward.id
    assert backward.origin.label("phase") == "backward"


def test_an_op_without_a_gradient_is_named():
    model = Of(lambda a: torch.special.zeta(a.abs() + 2, 1.5))
    with pytest.raises(GradientError, match="zeta"):
        gh.trace_training(
            model, None, torch.optim.SGD(model.parameters(), lr=1.0),
            torch.randn(2, 10, 10, dtype=torch.float64),
        )  # fmt: skip
