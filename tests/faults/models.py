"""Small models on which planted faults show; functions give a model and its inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

import glasshouse as gh
from glasshouse import nn
from glasshouse.nn import functional as F

RNG = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def spread() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return ((x - 0.5).tanh() / 3.0).sum(1)

    return model, (floats(4, 8),)


def gelu() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x * 0.5 * ((x / np.sqrt(2)).erf() + 1.0)

    return model, (floats(4, 8),)


def fused_gelu() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return F.gelu(x) + x

    return model, (floats(4, 8) * 3,)


def layer_norm() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        apart = x - x.mean(-1, keepdims=True)
        spread = apart.square().mean(-1, keepdims=True)
        return apart / (spread + 1e-3).sqrt() * gh.array(floats(8)) + x

    return model, (floats(4, 8),)


def rms_norm() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x * (x.square().mean(-1, keepdims=True) + 1e-3).rsqrt() + x

    return model, (floats(4, 8),)


def softmax() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        up = (x - x.max(-1, keepdims=True)).exp()
        return up / up.sum(-1, keepdims=True) + x

    return model, (floats(6, 6),)


def soft() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.softmax(-1)

    return model, (floats(4, 8),)


def slices() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x[1:7][1:4].tanh() + x[0:1]

    return model, (floats(8, 5),)


def permutes() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.permute(1, 2, 0).permute(1, 2, 0).exp() + 1.0

    return model, (floats(4, 4, 4),)


def moved() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.permute(1, 0).tanh() + x

    return model, (floats(5, 5),)


def turned() -> Any:
    def model(x: gh.Tensor) -> tuple[gh.Tensor, gh.Tensor]:
        y = x.permute(1, 0)
        return y.sort(1)[0], y.cumsum(1)

    return model, (floats(5, 5),)


def joined() -> Any:
    def model(x: gh.Tensor, y: gh.Tensor) -> gh.Tensor:
        return gh.concat([x, y], 1).tanh()

    return model, (floats(3, 4), floats(3, 4) + 1)


def padded() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return F.pad(x, (1, 1), value=2.0).exp()

    return model, (floats(3, 4),)


def means() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.sum(1, keepdims=True) / 8.0 + x

    return model, (floats(8, 8),)


def largest() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return (x - 9.0).max(1)

    return model, (floats(4, 8),)


def clips() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.clip(-1.0, 0.7).clip(-0.8, 0.9) * 1.5

    return model, (floats(4, 8),)


def positive() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.maximum(0.0) + F.relu(x + 0.25)

    return model, (floats(4, 8),)


def roots() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return 1.0 / (x.square() + 2.0).sqrt() + x

    return model, (floats(4, 8),)


def repeated() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.sum(0) * 2.0 + x.sum(1)

    return model, (floats(4, 4),)


def folded() -> Any:
    table = floats(4, 8)

    def model(x: gh.Tensor) -> gh.Tensor:
        return x * (gh.array(table) * 2.0).tanh()

    return model, (floats(4, 8),)


class Branches(nn.Module):
    """Two products of one value."""

    def __init__(self) -> None:
        self.left, self.right = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x: gh.Tensor) -> tuple[gh.Tensor, gh.Tensor]:
        return self.left(x), self.right(x)


def branches() -> Any:
    gh.manual_seed(0)
    return Branches(), (floats(4, 16),)


def conv() -> Any:
    gh.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU()).eval()
    return model, (floats(1, 3, 6, 6),)


def linear() -> Any:
    gh.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 8), nn.Tanh(), nn.Linear(8, 8)), (floats(4, 32),)


def chain() -> Any:
    gh.manual_seed(0)
    return nn.Sequential(*[nn.Linear(8, 8) for _ in range(5)]), (floats(4, 8),)


def two_results() -> Any:
    def model(x: gh.Tensor) -> tuple[gh.Tensor, gh.Tensor]:
        return x.tanh(), x.exp()

    return model, (floats(4, 8),)


def attention() -> Any:
    def model(q: gh.Tensor, k: gh.Tensor, v: gh.Tensor) -> gh.Tensor:
        return F.scaled_dot_product_attention(q * 0.5, k, v)

    return model, (floats(1, 2, 4, 8), floats(1, 2, 4, 8) + 0.1, floats(1, 2, 4, 8) - 0.1)


def overflow() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        up = (x * 40.0).exp()
        return up / (up + 1.0)

    return model, (floats(4, 8) * 5,)


def rounded() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return (x * 10.0).apply("round") / 10.0

    return model, (floats(4, 8),)


def steps() -> Any:
    def model(x: gh.Tensor) -> gh.Tensor:
        return x.tanh() + (x * 3.0).apply("round")

    return model, (floats(4, 8),)


def looked_up() -> Any:
    gh.manual_seed(0)
    return nn.Embedding(300, 8), (np.array([[3, 299], [140, 0]]),)


# ---------------------------------------------------------------------------------------- PyTorch
def torch_block() -> Any:
    import torch
    from torch import nn as tnn

    class Block(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = tnn.LayerNorm(8, eps=1e-2)
            self.up = tnn.Linear(8, 8)
            self.down = tnn.Linear(8, 8)

        def forward(self, x: Any) -> Any:
            y = tnn.functional.gelu(self.up(self.norm(x)), approximate="tanh")
            y = tnn.functional.leaky_relu(self.down(y), 0.2)
            y = torch.sub(y, x, alpha=0.5)
            return tnn.functional.elu(y, 0.3).softmax(0).mean(1, keepdim=True) + x

    torch.manual_seed(0)
    return Block().eval(), (torch.randn(4, 8),)


def torch_conv() -> Any:
    import torch
    from torch import nn as tnn

    torch.manual_seed(0)
    model = tnn.Sequential(
        tnn.Conv2d(2, 4, 3, padding=1, dilation=1),
        tnn.BatchNorm2d(4, eps=1e-2),
        tnn.Hardtanh(-2, 1),
    )
    return model.eval(), (torch.randn(1, 2, 6, 6),)


def torch_draws() -> Any:
    """Dropout, and a draw as in a variational autoencoder."""
    import torch
    from torch import nn as tnn

    class Draws(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = tnn.Linear(16, 32), tnn.Linear(16, 16)
            self.drop = tnn.Dropout(0.25)

        def forward(self, x: Any) -> Any:
            mean, spread = self.encode(x).chunk(2, 1)
            z = mean + torch.randn_like(mean) * torch.exp(spread * 0.5)
            return self.decode(self.drop(z))

    torch.manual_seed(0)
    return Draws().train(), (torch.randn(64, 16),)


def torch_state() -> Any:
    """A buffer that is read again after its new value is known."""
    import torch
    from torch import nn as tnn

    class State(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = tnn.Linear(8, 8)
            self.register_buffer("state", torch.ones(4, 8))

        def forward(self, x: Any) -> Any:
            old = self.state.clone()
            new = old * 0.5 + x
            self.state.copy_(new)
            return self.mix(new) + old

    torch.manual_seed(0)
    return State().eval(), (torch.randn(4, 8),)


def torch_two() -> Any:
    import torch
    from torch import nn as tnn

    class Two(tnn.Module):
        def forward(self, x: Any) -> Any:
            return x.tanh(), x.sigmoid()

    return Two().eval(), (torch.randn(4, 8),)


def torch_masked() -> Any:
    """Attention with a mask, and causal attention behind it."""
    import torch
    from torch import nn as tnn

    class Masked(tnn.Module):
        def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
            seen = tnn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return tnn.functional.scaled_dot_product_attention(seen, k, v, is_causal=True)

    torch.manual_seed(0)
    mask = torch.zeros(1, 1, 1, 6)
    mask[..., 4:] = -1e4
    return Masked().eval(), (*torch.randn(3, 1, 2, 6, 8), mask)


def torch_whole() -> Any:
    """Whole numbers, some of them negative; a rank; a padded row."""
    import torch
    from torch import nn as tnn

    class Whole(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.tensor([-7, 5, -3, 9]))

        def forward(self, x: Any, i: Any) -> Any:
            rows = tnn.functional.pad(x, (1, 2)).exp()
            return rows, x.argmax(1), i + self.table // 2, (x > 0.5).float() * 2

    torch.manual_seed(0)
    return Whole().eval(), (torch.randn(4, 5), torch.arange(4))


def torch_any_batch() -> Any:
    import torch
    from torch import nn as tnn

    class Centred(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.mix = tnn.LayerNorm(8), tnn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            y = self.mix(self.norm(x))
            return y - y.mean(0, keepdim=True)

    torch.manual_seed(0)
    x = torch.randn(4, 8)
    batch = torch.export.Dim("batch", min=2, max=64)
    return torch.export.export(Centred().eval(), (x,), dynamic_shapes=({0: batch},)), (x,)


def torch_step() -> Any:
    """A training step, with momentum, weight decay and running statistics."""
    import torch
    from torch import nn as tnn

    torch.manual_seed(0)
    layers = tnn.Linear(8, 16), tnn.BatchNorm1d(16), tnn.Tanh(), tnn.Linear(16, 4)
    model = tnn.Sequential(*layers)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.7, weight_decay=0.01)
    return model, (torch.randn(6, 8), torch.randn(6, 4)), tnn.functional.mse_loss, sgd


def torch_spectrum() -> Any:
    import torch
    from torch import nn as tnn

    class Spectrum(tnn.Module):
        def forward(self, x: Any) -> Any:
            found = torch.fft.rfft(x)
            return torch.fft.irfft(found * found.conj(), n=8)

    torch.manual_seed(0)
    return Spectrum().eval(), (torch.randn(4, 8),)


# ------------------------------------------------------------------------------------------- depth
class Twelve(nn.Module):
    """A difference in each of its layers."""

    def __init__(self) -> None:
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(12)])

    def forward(self, x: gh.Tensor) -> gh.Tensor:
        for layer in self.layers:
            x = (layer(x) - 0.5).tanh()
        return x


def twelve() -> Any:
    gh.manual_seed(0)
    return Twelve(), (floats(4, 8),)


def square_bias() -> Any:
    table = floats(8)

    def model(x: gh.Tensor) -> gh.Tensor:
        return (x.exp() - gh.array(table)).tanh()

    return model, (floats(8, 8),)


def large_and_small() -> Any:
    """A product that takes hundreds of microseconds, and a pass over one row."""
    gh.manual_seed(0)

    class Both(nn.Module):
        def __init__(self) -> None:
            self.mix = nn.Linear(512, 1024)

        def forward(self, x: gh.Tensor) -> gh.Tensor:
            return self.mix(x).sum(0).softmax(0)

    return Both(), (floats(256, 512),)


def deep() -> Any:
    """Hundreds of numbers that no float has, in chains of elementwise ops."""
    import torch
    from torch import nn as tnn

    class Deep(tnn.Module):
        def forward(self, x: Any) -> Any:
            for i in range(100):
                x = (x * 1.001).tanh() + 0.0003 * i
            return x

    torch.manual_seed(0)
    return Deep().eval(), (torch.randn(4, 8),)


def half_precision() -> Any:
    import torch
    from torch import nn as tnn

    torch.manual_seed(0)
    model = tnn.Sequential(tnn.Linear(8, 8), tnn.GELU(), tnn.LayerNorm(8)).bfloat16()
    return model.eval(), (torch.randn(4, 8).bfloat16(),)


def doubles() -> Any:
    import torch
    from torch import nn as tnn

    torch.manual_seed(0)
    model = tnn.Sequential(tnn.Linear(8, 8), tnn.GELU(), tnn.LayerNorm(8)).double()
    return model.eval(), (torch.randn(4, 8).double(),)
