"""Models that hold `torch.func`'s transforms, and captures that fail inside of one."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._C import _functorch
from torch.func import grad, jvp, vmap

import glasshouse as gh
from glasshouse.frontend.torch.tracing.loose import capture_loosely
from glasshouse.frontend.torch.tracing.transforms import closed_transforms


class _Field(nn.Module):
    """The gradient of a network's output for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def energy(self, z: torch.Tensor) -> torch.Tensor:
        return self.net(z).squeeze(-1) + z.pow(2).sum()

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return vmap(grad(self.energy))(z)


class _Tangent(nn.Module):
    """A network's output and how it changes along a direction."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 4))

    def forward(self, x: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return jvp(self.net, (x,), (v,))


class _Forces(nn.Module):
    """An energy of pairs and its gradient, the gradient taken of a bound method."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(5, 8)
        self.out = nn.Linear(8, 1)

    def energy(self, pos: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
        d = (pos[0::2] - pos[1::2]).norm(dim=1, keepdim=True)
        return self.out(self.emb(kind)[0::2] * torch.sin(d)).sum()

    def forward(self, pos: torch.Tensor, kind: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        force, energy = torch.func.grad_and_value(self.energy)(pos, kind)
        return -force, energy


class _Selected(nn.Module):
    """Forces of pairs that numbers select, in a box that is solved for."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def energy(self, pos: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        i, j = torch.triu_indices(len(pos), len(pos), 1)
        apart = torch.linalg.solve(box, (pos[i] - pos[j]).T).norm(dim=0)
        return (self.scale * apart).sin().sum()

    def forward(self, pos: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
        return -grad(self.energy)(pos, box)


pytestmark = [
    pytest.mark.filterwarnings("ignore::glasshouse.frontend.torch.tracing.capture.LooseCapture"),
    # PyTorch's own, when it loads its rules of forward mode.
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
]

CASES = {
    "grad": (_Field, lambda: (torch.randn(6, 4),)),
    "jvp": (_Tangent, lambda: (torch.randn(6, 4), torch.randn(6, 4))),
    "grad_and_value": (_Forces, lambda: (torch.randn(6, 3), torch.randint(0, 5, (6,)))),
    "selected": (_Selected, lambda: (torch.randn(5, 3), torch.eye(3) + 0.1 * torch.rand(3, 3))),
}


@pytest.mark.parametrize("name", CASES)
def test_transforms_are_compiled_by_torch_compile(name: str) -> None:
    make, inputs = CASES[name]
    torch.manual_seed(0)
    model, given = make().eval(), inputs()
    with torch.no_grad():
        expected = model(*given)
        run = torch.compile(model, backend="glasshouse", options={"executor": "compiled"})
        found = run(*given)
    torch.testing.assert_close(found, expected)


def _scores(weights: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.tanh(x @ weights["w"].T) @ weights["v"]
    return (out - y).pow(2).sum()


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("each", [True, False])
def test_gradients_by_what_requires_none(gradients: bool, each: bool) -> None:
    """Of each sample and of all, whether their caller has gradients on or off."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    given = {"w": torch.randn(5, 4), "v": torch.randn(5)}, torch.randn(6, 4), torch.randn(6)
    taken = torch.func.grad_and_value(_scores)
    taken = vmap(taken, in_dims=(None, 0, 0)) if each else taken
    with torch.set_grad_enabled(gradients):
        expected = taken(*given)
        run = torch.compile(taken, backend="glasshouse", options={"executor": "compiled"})
        found = run(*given)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", CASES)
def test_transforms_are_compiled_ahead(name: str) -> None:
    make, inputs = CASES[name]
    torch.manual_seed(0)
    model, given = make().eval(), inputs()
    with torch.no_grad():
        expected = model(*given)
    found = gh.compile(model, *given, progress=False)(*given)
    torch.testing.assert_close(found, expected)
    assert _functorch.get_dynamic_layer_stack_depth() == 0


def test_what_fails_inside_of_a_transform_leaves_none_open() -> None:
    def fails() -> None:
        _functorch._grad_increment_nesting()
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"), closed_transforms():
        fails()
    assert _functorch.get_dynamic_layer_stack_depth() == 0


def test_a_gradient_of_selected_rows_is_one_graph() -> None:
    torch.manual_seed(0)
    make, inputs = CASES["selected"]
    model, given = make().eval(), inputs()
    with torch.no_grad():
        graph = gh.compile(model, *given, target="interp").graph  # not in parts
        found = gh.compile(model, *given, target="interp")(*given)
    assert graph.inputs
    torch.testing.assert_close(found, model(*given))


@pytest.mark.filterwarnings("ignore:TF32")
@pytest.mark.parametrize("select", [lambda x: x[x > 0], lambda x: x.repeat_interleave(x.int())])
def test_sizes_that_data_decide_are_told_from_others(
    select: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return grad(lambda z: select(z).sum())(x)

    x = torch.tensor([1.0, 2.0, -1.0]).abs()
    assert capture_loosely(Inner(), (x,), {}, "Inner").frozen
