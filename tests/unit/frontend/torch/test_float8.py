"""8-bit floats from PyTorch: casts, products with scales, weights that are stored in them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import glasshouse as gh

E4, E5 = torch.float8_e4m3fn, torch.float8_e5m2


class Calls(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *given: Tensor) -> Tensor:
        return self.function(*given)


def bytes_of(x: Tensor) -> Tensor:
    return x.view(torch.uint8)


@pytest.mark.parametrize("kind", [E4, E5])
def test_every_half_float_becomes_pytorchs_byte(kind: torch.dtype) -> None:
    bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
    for wide in (torch.float16, torch.bfloat16):
        x = bits.view(wide)
        module = gh.compile(Calls(lambda x: x.to(kind)), x)
        assert torch.equal(bytes_of(module(x)), bytes_of(x.to(kind)))
    stored = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(kind)
    module = gh.compile(Calls(lambda x: x.to(torch.float32)), stored)
    torch.testing.assert_close(module(stored), stored.float(), equal_nan=True, rtol=0, atol=0)


def test_a_value_that_was_narrow_stays_rounded_inside_a_kernel() -> None:
    x = torch.randn(1000) * 3
    module = gh.compile(Calls(lambda x: x.to(E4).float() * 2 + x.to(E5).float()), x)
    assert torch.equal(module(x), x.to(E4).float() * 2 + x.to(E5).float())


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize(("a", "b"), [(E4, E4), (E5, E4), (E4, E5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_with_scales(
    by_row: bool, a: torch.dtype, b: torch.dtype, dtype: torch.dtype
) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(32, 64).to(a), torch.randn(48, 64).to(b)
    scales = (torch.rand(32, 1), torch.rand(1, 48)) if by_row else (torch.rand(()), torch.rand(1))

    def product(x: Tensor, w: Tensor, scale_x: Tensor, scale_w: Tensor) -> Tensor:
        return torch._scaled_mm(x, w.t(), scale_x, scale_w, out_dtype=dtype)

    module = gh.compile(Calls(product), x, w, *scales)
    # Not against `_scaled_mm` itself, which some processors compute with rounded sums.
    wanted = (x.double() @ w.double().t() * scales[0] * scales[1]).to(dtype)
    torch.testing.assert_close(module(x, w, *scales), wanted, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("by_row", [False, True])
def test_the_public_function_is_the_same(by_row: bool) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(32, 64).to(E4), torch.randn(48, 64).to(E4)
    scales = (torch.rand(32, 1), torch.rand(1, 48)) if by_row else (torch.rand(()), torch.rand(()))
    of = F.ScalingType.RowWise if by_row else F.ScalingType.TensorWise

    def product(x: Tensor, w: Tensor, scale_x: Tensor, scale_w: Tensor) -> Tensor:
        return F.scaled_mm(x, w.t(), scale_x, of, scale_w, of, output_dtype=torch.float32)

    graph = gh.trace(Calls(product), x, w, *scales)
    assert "opaque" not in {node.op.name for node in graph.nodes}
    wanted = (x.double() @ w.double().t() * scales[0] * scales[1]).float()
    torch.testing.assert_close(gh.compile(graph)(x, w, *scales), wanted, rtol=1e-4, atol=1e-4)


class Layer(nn.Module):
    """Activations are narrowed by their largest, weights are stored narrow with a scale a row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        weight = torch.randn(48, 64)
        scale = weight.abs().amax(1, keepdim=True) / 448
        self.register_buffer("weight", (weight / scale).to(E4))
        self.register_buffer("scale", scale)
        self.bias = nn.Parameter(torch.randn(48))

    def forward(self, x: Tensor) -> Tensor:
        scale = x.abs().amax(1, keepdim=True) / 448
        narrow = (x / scale).to(E4)
        out = torch._scaled_mm(
            narrow, self.weight.t(), scale, self.scale.t().contiguous(), out_dtype=x.dtype
        )
        return F.relu(out + self.bias)


def test_a_layer_that_narrows_what_it_is_given(tmp_path: object) -> None:
    layer, x = Layer().eval(), torch.randn(32, 64)
    with torch.no_grad():
        module = gh.compile(layer, x)
        torch.testing.assert_close(module(x), layer(x), rtol=1e-4, atol=1e-4)
        module.save(f"{tmp_path}/layer")
        torch.testing.assert_close(gh.load(f"{tmp_path}/layer")(x), module(x))
        compiled = torch.compile(layer, backend="glasshouse")
        torch.testing.assert_close(compiled(x), layer(x), rtol=1e-4, atol=1e-4)
    held = {n.output.type.dtype.name for n in module.graph.nodes if n.op.name == "constant"}
    assert "float8_e4m3fn" in held, "weights are not folded to floats"


class Stored(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("weight", torch.randn(48, 64).to(E5))
        self.scale = nn.Parameter(torch.rand(48, 1))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype) * self.scale.to(x.dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_widened_on_the_way(dtype: torch.dtype) -> None:
    model, x = Stored().eval(), torch.randn(5, 64).to(dtype)
    with torch.no_grad():
        torch.testing.assert_close(gh.compile(model, x)(x), model(x), rtol=2e-2, atol=2e-2)


def test_bytes_are_moved_by_views_gathers_and_choices() -> None:
    x = torch.randn(6, 8).to(E4)

    def moved(x: Tensor, index: Tensor, mask: Tensor) -> Tensor:
        rows = torch.cat((x, x[index])).t().reshape(8, 3, 3)[:, 1:]
        return torch.where(mask, rows, rows[:, :, [2, 0, 1]])

    index, mask = torch.tensor([5, 0, -1]), torch.rand(8, 2, 3) > 0.5
    module = gh.compile(Calls(moved), x, index, mask)
    assert torch.equal(bytes_of(module(x, index, mask)), bytes_of(moved(x, index, mask)))
