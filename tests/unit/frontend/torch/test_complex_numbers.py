"""Functions of complex numbers: PyTorch's values, also at the ends, and its gradients."""

import pytest
import torch
from torch import nn

import glasshouse as gh
from frontend_torch import outputs_of
from glasshouse.frontend.torch import capture, opaque_ops
from glasshouse.frontend.torch.aten.registry import find
from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run


def _written(z, w):
    z = z.clone()
    z[:, 1] = w[:, 0]
    return z


def _spread(z, w):
    out = torch.zeros(4, 6, dtype=z.dtype)
    out[:, :4] = z
    return out


OF_TWO = {
    "exp": lambda z, w: z.exp(), "log": lambda z, w: z.log(), "sqrt": lambda z, w: z.sqrt(),
    "rsqrt": lambda z, w: z.rsqrt(), "reciprocal": lambda z, w: z.reciprocal(),
    "div": lambda z, w: z / w, "number over": lambda z, w: 2.0 / z,
    "over number": lambda z, w: z / (1 + 2j), "real over": lambda z, w: w.real / z,
    "sin": lambda z, w: z.sin(), "cos": lambda z, w: z.cos(), "tan": lambda z, w: z.tan(),
    "sinh": lambda z, w: z.sinh(), "cosh": lambda z, w: z.cosh(), "tanh": lambda z, w: z.tanh(),
    "sigmoid": lambda z, w: torch.sigmoid(z), "square": lambda z, w: z**2,
    "inverse": lambda z, w: z**-1, "power": lambda z, w: z**1.5, "powers": lambda z, w: z**w,
    "of a number": lambda z, w: 2.0**z, "sgn": lambda z, w: torch.sgn(z),
    "abs": lambda z, w: z.abs() + w, "angle": lambda z, w: z.angle() + w,
    "turned": lambda z, w: z.real * 1j + w, "from": lambda z, w: 1j - z,
    "alpha": lambda z, w: torch.add(z, w, alpha=2), "expm1": lambda z, w: torch.expm1(z),
    "log1p": lambda z, w: torch.log1p(z), "where": lambda z, w: torch.where(z.real > 0, z, w),
    "fill": lambda z, w: z.masked_fill(z.real > 0, 1 + 2j), "cumsum": lambda z, w: z.cumsum(0),
    "cumprod": lambda z, w: z.cumprod(0), "prod": lambda z, w: z.prod(0),
    "written": _written, "spread": _spread, "index": lambda z, w: z[:, [0, 2]],
    "full": lambda z, w: torch.full((4, 4), 1 + 2j) * w, "polar": lambda z, w: torch.polar(
        z.abs(), w.real), "turns": lambda z, w: torch.exp(1j * z.angle()) * (z.abs() - 0.1).relu(),
    "fourier": lambda z, w: torch.fft.irfft(torch.fft.rfft(z.real) * w[:, :3]) + w,
}  # fmt: skip


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        made = torch.Generator().manual_seed(1)
        self.z = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64, generator=made))
        self.w = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64, generator=made))
        self.function = function

    def forward(self, x):
        out = self.function(self.z * x, self.w)
        by = torch.linspace(0.5, 2, out.numel()).view(out.shape)
        return (out * torch.complex(by, -by.flip(0))).real.sum()


@pytest.mark.parametrize("name", OF_TWO)
def test_gradients_are_pytorchs(name):
    model, x = Model(OF_TWO[name]), torch.full((4, 4), 1.1)
    graph = gh.trace_training(model, None, torch.optim.SGD(model.parameters(), lr=1.0), x)
    assert not opaque_ops(graph)
    state: dict = {}
    loss = run(graph, [x.numpy()], variables=state)[0]
    wanted = model(x)
    wanted.backward()
    torch.testing.assert_close(torch.as_tensor(loss), wanted.detach())
    for key, p in model.named_parameters():
        found = (
            torch.view_as_complex(torch.as_tensor(state[key]).contiguous()) if key in state else p
        )
        step = (p - found).detach()
        torch.testing.assert_close(
            step, torch.zeros_like(p) if p.grad is None else p.grad, rtol=1e-4, atol=1e-5
        )


ENDS = [0.0, -0.0, 1.0, -2.5, 1e-30, 3e30, -1e25, 1e-42, float("inf")]


@pytest.mark.parametrize("name", ["abs", "angle", "sqrt", "log", "reciprocal"])
def test_values_at_the_ends(name):
    z = torch.complex(
        *(p.flatten() for p in torch.meshgrid(*[torch.tensor(ENDS)] * 2, indexing="ij"))
    )

    class Of(nn.Module):
        def forward(self, z):
            return getattr(torch, name)(z)

    graph = capture(Of(), [z]).graph
    found = torch.as_tensor(outputs_of(graph, [z])[0])
    wanted = getattr(torch, name)(z)
    wanted = torch.view_as_real(wanted) if wanted.is_complex() else wanted
    plain = wanted.isfinite() & (z.real.isfinite() & z.imag.isfinite()).view(
        -1, *[1] * (wanted.ndim - 1)
    )
    plain = plain if name != "abs" else torch.ones_like(plain)
    torch.testing.assert_close(found[plain], wanted[plain], rtol=1e-4, atol=0)
    if name != "reciprocal":  # PyTorch's own differ with the number of elements
        assert torch.equal(found[plain].signbit(), wanted[plain].signbit())


OF_HALVES = [0.0, -0.0, 6e-8, 1e-4, 0.01, 3.0, -300.0, 6e4]


@pytest.mark.parametrize("name", ["abs", "angle", "sqrt", "log", "reciprocal", "exp", "square"])
def test_half_floats_are_computed_in_float32_and_rounded_once(name):
    z = torch.stack(
        [p.flatten() for p in torch.meshgrid(*[torch.tensor(OF_HALVES).half()] * 2, indexing="ij")],
        -1,
    )

    class Of(nn.Module):
        def forward(self, z):
            found = getattr(torch, name)(torch.view_as_complex(z))
            return torch.view_as_real(found) if found.is_complex() else found

    found = torch.as_tensor(outputs_of(capture(Of(), [z]).graph, [z])[0])
    assert found.dtype is torch.float16
    wide = Of()(z.float())
    plain = wide.isfinite()
    if wide.ndim > 1:  # beside an infinity the other part is 0 or NaN in unlike ways
        plain = plain.all(-1)
    torch.testing.assert_close(found[plain], wide.half()[plain], rtol=1e-3, atol=6e-8)


def test_transforms_of_half_floats_are_rounded_once():
    """A GPU's: PyTorch has none on the host."""
    builder = GraphBuilder()
    x = builder.input("float16", [3, 12])
    there = find("aten::_fft_r2c", "default")(x, [1], 0, True)
    turned = find("aten::_fft_c2c", "default")(there, [0], 1, True)
    back = find("aten::_fft_c2r", "default")(there, [1], 2, 12)
    graph = builder.finish(there.pairs, turned.pairs, back)
    data = torch.linspace(-40, 300, 36).reshape(3, 12).half()
    found = [torch.as_tensor(y) for y in run(graph, [data.numpy()])]
    half = torch.view_as_complex(found[0].float())
    wanted = [
        torch.view_as_real(torch.fft.rfft(data.float())),
        torch.view_as_real(torch.fft.fft(half, dim=0, norm="ortho")),
        torch.fft.irfft(half, 12),
    ]
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype is torch.float16
        torch.testing.assert_close(one, other.half(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["abs", "angle", "sgn"])
def test_gradients_at_zero_are_zero(name):
    class At(nn.Module):
        def __init__(self):
            super().__init__()
            self.z = nn.Parameter(torch.tensor([0j, 1 + 1j]))

        def forward(self, x):
            return torch.view_as_real(getattr(torch, name)(self.z * x) + 0j).sum()

    model, x = At(), torch.ones(2)
    graph = gh.trace_training(model, None, torch.optim.SGD(model.parameters(), lr=1.0), x)
    state: dict = {}
    run(graph, [x.numpy()], variables=state)
    model(x).backward()
    found = model.z.detach() - torch.view_as_complex(torch.as_tensor(state["z"]))
    torch.testing.assert_close(found, model.z.grad)


NAN, INF = float("nan"), float("inf")
OF_REAL = {
    "plus i": (lambda x: x + 1j, [1.0, NAN, INF]),
    "i minus": (lambda x: x - (2 + 1j), [1.0, NAN, -INF]),
    "negative base": (lambda x: x ** torch.tensor(1 + 1j), [-1.0, -3.0, 0.0, 2.0]),
    "no power": (lambda x: torch.complex(x, x) ** 0, [NAN, INF, 2.0]),
    "over no number": (lambda x: torch.complex(x, -x) / 0j, [1.0, -2.0, 0.0]),
    "over zeros": (lambda x: torch.complex(x, -x) / torch.complex(x * 0, x * 0), [1.0, -2.0, 0.0]),
    "of zeros": (lambda x: torch.complex(x, x).reciprocal(), [0.0, 2.0]),
    "small log1p": (lambda x: torch.log1p(torch.complex(x, -x)), [1e-9, 1e-5, 0.2, 0.3, 7.0]),
}


@pytest.mark.parametrize("name", OF_REAL)
def test_one_part_says_nothing_of_the_other(name):
    function, given = OF_REAL[name]
    x = torch.tensor(given)

    class Of(nn.Module):
        def forward(self, x):
            return function(x)

    found = torch.as_tensor(outputs_of(capture(Of(), [x]).graph, [x])[0])
    wanted = torch.view_as_real(function(x))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=0, equal_nan=True)
