"""Models as people write them, each of which works or is refused by name."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint

import glasshouse as gh
from glasshouse.errors import InParts, Unsupported
from glasshouse.frontend.torch.tracing.capture import LooseCapture
from glasshouse.numpy_ref import run


class Fourier(nn.Module):
    """Two corners of the spectrum go through weights of their own, as in neural operators."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.low = nn.Parameter(torch.randn(2, 2, 3, 3, dtype=torch.cfloat, generator=generator))
        self.high = nn.Parameter(torch.randn(2, 2, 3, 3, dtype=torch.cfloat, generator=generator))

    def forward(self, x: torch.Tensor) -> Any:
        seen = torch.fft.rfft2(x)
        out = torch.zeros(x.shape[0], 2, 8, 5, dtype=torch.cfloat)
        out[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", seen[:, :, :3, :3], self.low)
        out[:, :, -3:, :3] = torch.einsum("bixy,ioxy->boxy", seen[:, :, -3:, :3], self.high)
        out[:, 0, 4, 1] = 2.0
        out[:, :, ::2, 4].real.mul_(3)
        out.transpose(2, 3)[:, :, 0].imag.fill_(0.5)
        torch.view_as_real(out)[:, 1, 3, :, 0] += 1
        return torch.fft.irfft2(out, s=(8, 8)), out


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool = False) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> Any:
        inner = lambda y: torch.relu(self.layer(y))  # noqa: E731
        return checkpoint(inner, x, use_reentrant=self.reentrant) + 1


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() == 2:
            return x * 2
        return x


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch calls TorchScript deprecated
            self.inner = torch.jit.script(Doubled())
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(self.inner(x)))


def flexed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (j - i) * 0.1 * (h + 1))


CAUSAL = create_block_mask(lambda b, h, i, j: i >= j, None, None, 16, 16, device="cpu")
LINEAR = nn.Linear(4, 3)


def floats(*shape: int) -> Callable[[int], tuple[torch.Tensor, ...]]:
    return lambda seed: (torch.randn(shape, generator=torch.Generator().manual_seed(seed)),)


def three(seed: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.randn(3, 1, 2, 16, 8, generator=torch.Generator().manual_seed(seed)))


def tolist(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"product": torch.einsum("ij,kj->ik", x, y)}


CASES: dict[str, tuple[Any, Callable[[int], tuple[torch.Tensor, ...]]]] = {
    "fourier": (Fourier(), floats(3, 2, 8, 8)),
    "checkpoint": (Checkpointed(), floats(3, 4)),
    "checkpoint, reentrant": (Checkpointed(True), floats(3, 4)),
    "flex scores": (Function(flexed), three),
    "flex mask": (Function(lambda q, k, v: flex_attention(q, k, v, block_mask=CAUSAL)), three),
    "func.grad": (Function(torch.func.grad(lambda y: (y**3).sum())), floats(4)),
    "func.jacrev": (Function(torch.func.jacrev(torch.sin)), floats(4)),
    "scripted inside": (Scripted(), floats(3, 4)),
    "function": (lambda x: torch.relu(x) * 2, floats(3, 4)),
    "function of torch": (torch.relu, floats(3, 4)),
    "function that uses a model": (lambda x: LINEAR(x) + 1, floats(3, 4)),
    "method": (LINEAR.forward, floats(3, 4)),
    "negative strides": (
        Function(lambda a: torch.linalg.inv(a.flip(0) + 3 * torch.eye(3).flip(0))), floats(3, 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore::glasshouse.frontend.torch.tracing.capture.LooseCapture")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad=True")
def test_it_is_captured_and_equal_on_other_inputs(case: str) -> None:
    model, inputs = CASES[case]
    with torch.no_grad():
        graph = gh.trace(model, *inputs(0))
        for seed in (0, 1):
            got = run(graph, [x.numpy() for x in inputs(seed)])
            wanted = model(*inputs(seed))
            many = wanted if isinstance(wanted, tuple) else (wanted,)
            for have, want in zip(got, many, strict=True):
                want = torch.view_as_real(want) if want.is_complex() else want
                have = torch.from_numpy(np.ascontiguousarray(have))
                torch.testing.assert_close(have, want.float(), rtol=1e-4, atol=1e-4)


def test_a_function_keeps_its_parameters() -> None:
    module = gh.compile(tolist, *floats(3, 4)(0), *floats(2, 4)(1))
    x, y = *floats(3, 4)(2), *floats(2, 4)(3)
    got = module(y=y, x=x)
    torch.testing.assert_close(got, tolist(x, y), rtol=1e-4, atol=1e-4)


def test_checkpoints_under_torch_compile() -> None:
    torch._dynamo.reset()
    model, (x,) = Checkpointed(), floats(3, 4)(0)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend="glasshouse")(x), model(x))


def test_numpy_arrays_with_negative_strides_reach_linalg() -> None:
    module = gh.compile(Function(torch.linalg.cholesky), torch.eye(3))
    a = np.array([[4, 1, 0], [1, 5, 1], [0, 1, 6]], np.float32)
    got = module(a[::-1, ::-1])
    np.testing.assert_allclose(got, np.linalg.cholesky(a[::-1, ::-1]), rtol=1e-5)


# --------------------------------------------------------------------- ways that depend on the data
class Mixture(nn.Module):
    """Experts that nobody chose are left out, by a loop over those that somebody did."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.gate = nn.Linear(4, 5, bias=False)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = torch.topk(torch.softmax(self.gate(x), -1), 2, -1)
        out = torch.zeros_like(x)
        mask = nn.functional.one_hot(chosen, 5).permute(2, 1, 0)
        for expert in (mask.sum((-1, -2)) > 0).nonzero().flatten().tolist():
            place, row = torch.where(mask[expert])
            out.index_add_(0, row, self.experts[expert](x[row]) * weights[row, place, None])
        return out


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1


@pytest.mark.parametrize("kind", [Branch, Mixture])
def test_a_way_that_depends_on_data_is_not_frozen(kind: type[nn.Module]) -> None:
    torch._dynamo.reset()
    model = kind().eval()
    (first,) = floats(3, 4)(0)
    with pytest.warns(InParts, match="compiled in parts, with Python between them"):
        module = gh.compile(model, first)
    with torch.no_grad():
        for seed in range(4):
            (x,) = floats(3, 4)(seed)
            torch.testing.assert_close(module(x), model(x), rtol=1e-4, atol=1e-4)
            torch.testing.assert_close(module(-x), model(-x), rtol=1e-4, atol=1e-4)
    assert module.parts
    assert all(part.runner.module is not None for part in module.parts)
    with pytest.raises(Unsupported, match="a model in parts cannot be saved"):
        module.save("anywhere")


class _Forces(nn.Module):
    """A gradient by its input that a model takes itself, also where its caller has them off."""

    def __init__(self, on: bool, writes: bool) -> None:
        super().__init__()
        self.on, self.writes = on, writes
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Softplus(), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.enable_grad() if self.on else contextlib.nullcontext():
            at = x.clone().requires_grad_(True)
            energy = self.net(at).sum()
            (slope,) = torch.autograd.grad(energy, at, create_graph=True)
        forces = -slope
        if self.writes:
            forces[0] = 0
        return energy.detach(), forces.detach()


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("writes", [True, False])
def test_gradients_that_a_model_takes_itself_are_compiled(on: bool, writes: bool) -> None:
    model = _Forces(on, writes).eval()
    with pytest.warns(LooseCapture):
        module = gh.compile(model, *floats(3, 4)(0))
    for seed in (0, 1):
        (x,) = floats(3, 4)(seed)
        with torch.set_grad_enabled(not on):
            torch.testing.assert_close(module(x), model(x), rtol=1e-5, atol=1e-6)


def test_a_graph_of_one_way_says_so() -> None:
    with pytest.warns(LooseCapture, match="what depends on data is fixed"):
        gh.trace(Branch(), *floats(3, 4)(0))


class _Detaching(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(x.data * 2) + self.layer.weight.data.sum()


@pytest.mark.filterwarnings("error")
def test_data_of_a_tensor_is_its_values_not_a_constant() -> None:
    model = _Detaching().eval()
    graph = gh.trace(model, torch.ones(2, 4))
    assert str(graph.nodes[-1].origin.source).split(":")[0].endswith("test_captures.py")
    for x in (torch.randn(2, 4), torch.randn(2, 4)):
        (made,) = run(graph, [x.numpy()])
        np.testing.assert_allclose(made, model(x).detach().numpy(), 1e-5, 1e-5)


class _Runs(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.unique_consecutive(x, dim=-1) * 2, x.unique_consecutive(dim=-2) + 1


def test_runs_along_an_axis_counted_from_the_back_keep_their_axes() -> None:
    """PyTorch's tracer gives the result of such a call twice as many."""
    module = gh.compile(_Runs(), torch.zeros(2, 3, 4))
    for x in (torch.zeros(2, 3, 4), torch.arange(4.0).expand(2, 3, 4).contiguous()):
        for made, wanted in zip(module(x), _Runs()(x), strict=True):
            assert torch.equal(made, wanted)


def test_a_mask_may_be_larger_than_what_it_selects_from() -> None:
    """PyTorch bounds the result by the elements of the first operand."""
    x, mask = torch.arange(3.0), torch.tensor([[True] * 3, [False, True, True]] * 2)
    module = gh.compile(Selects(), x, mask)
    for given in (mask, ~mask, torch.ones_like(mask)):
        assert torch.equal(module(x, given), torch.masked_select(x, given))


def test_places_in_a_number_are_counted() -> None:
    """They have no coordinates, so the result is empty, but its length is a result."""
    module = gh.compile(Places(), torch.tensor(0.0))
    assert [module(torch.tensor(v)).shape for v in (0.0, 2.0)] == [(0, 0), (1, 0)]


class Places(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.nonzero(x)


class Selects(torch.nn.Module):
    def forward(self, x: Any, mask: Any) -> Any:
        return torch.masked_select(x, mask)
