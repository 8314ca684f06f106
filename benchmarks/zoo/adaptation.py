"""Models whose weights are not plain: adapters, parametrizations, straight-through estimators,
hypernetworks, buffers written in forward, checkpoints, mixed element types."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from benchmarks.zoo.models import Case, model
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal, spectral_norm
from torch.utils.checkpoint import checkpoint


# --------------------------------------------------------------------------- LoRA, minLoRA's way
class LoRAParametrization(nn.Module):
    def __init__(self, fan_in: int, fan_out: int, rank: int = 4, alpha: float = 8.0) -> None:
        super().__init__()
        self.lora_A = nn.Parameter(torch.randn(rank, fan_in) / math.sqrt(fan_in))
        self.lora_B = nn.Parameter(torch.randn(fan_out, rank) * 0.01)
        self.scaling = alpha / rank

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return X + torch.mm(self.lora_B, self.lora_A).view(X.shape) * self.scaling


class _Block(nn.Module):
    def __init__(self, d: int, h: int) -> None:
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.h, C // self.h).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x)), approximate="tanh"))


@model("lora by parametrize", trained=True)
def lora(batch: int = 4) -> Case:
    net = nn.Sequential(*[_Block(192, 6) for _ in range(3)])
    for p in net.parameters():
        p.requires_grad_(False)
    for m in net.modules():
        if isinstance(m, nn.Linear):
            parametrize.register_parametrization(
                m, "weight", LoRAParametrization(m.in_features, m.out_features)
            )
    return net, (torch.randn(batch, 64, 192),)


# --------------------------------------------------------------------- an orthogonal recurrence
class _OrthogonalRNN(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.inp = nn.Linear(1, d)
        self.rec = orthogonal(nn.Linear(d, d, bias=False), orthogonal_map="matrix_exp")
        self.b = nn.Parameter(torch.zeros(d))
        self.out = nn.Linear(d, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.zeros(x.shape[0], self.b.shape[0], device=x.device)
        with parametrize.cached():
            for t in range(x.shape[1]):
                z = self.inp(x[:, t]) + self.rec(h)
                h = torch.sign(z) * torch.relu(z.abs() + self.b)  # modReLU
        return self.out(h)


@model("orthogonal rnn by matrix exponentials", trained=True)
def orthogonal_rnn(batch: int = 32) -> Case:
    return _OrthogonalRNN(96), (torch.randn(batch, 28, 1),)


# --------------------------------------------------------------------------- big transfer (BiT)
class StdConv2d(nn.Conv2d):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.weight
        v, m = torch.var_mean(w, dim=[1, 2, 3], keepdim=True, unbiased=False)
        w = (w - m) / torch.sqrt(v + 1e-10)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


class _PreActBottleneck(nn.Module):
    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        mid = cout // 4
        self.gn1, self.conv1 = nn.GroupNorm(16, cin), StdConv2d(cin, mid, 1, bias=False)
        self.gn2 = nn.GroupNorm(16, mid)
        self.conv2 = StdConv2d(mid, mid, 3, stride, 1, bias=False)
        self.gn3, self.conv3 = nn.GroupNorm(16, mid), StdConv2d(mid, cout, 1, bias=False)
        self.relu = nn.ReLU(inplace=True)
        if stride != 1 or cin != cout:
            self.downsample = StdConv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.gn1(x))
        residual = self.downsample(out) if hasattr(self, "downsample") else x
        out = self.conv1(out)
        out = self.conv2(self.relu(self.gn2(out)))
        return self.conv3(self.relu(self.gn3(out))) + residual


@model("big transfer, standardised weights", trained=True)
def bit(batch: int = 4) -> Case:
    net = nn.Sequential(
        StdConv2d(3, 64, 7, 2, 3, bias=False), nn.ConstantPad2d(1, 0), nn.MaxPool2d(3, 2),
        _PreActBottleneck(64, 128, 1), _PreActBottleneck(128, 128, 1),
        _PreActBottleneck(128, 256, 2), _PreActBottleneck(256, 256, 1),
        nn.GroupNorm(16, 256), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(256, 100),
    )  # fmt: skip
    return net, (torch.randn(batch, 3, 64, 64),)


# ------------------------------------------------------------- learned step sizes (LSQ), 4 bits
class _LSQ(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, s: torch.Tensor, g: float, lo: int, hi: int
    ) -> torch.Tensor:
        ctx.save_for_backward(x, s)
        ctx.other = g, lo, hi
        return (x / s).round().clamp(lo, hi) * s

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, s = ctx.saved_tensors
        g, lo, hi = ctx.other
        q = x / s
        small, big = (q < lo).float(), (q > hi).float()
        middle = 1.0 - small - big
        grad_s = ((small * lo + big * hi + middle * (-q + q.round())) * grad * g).sum().view(1)
        return middle * grad, grad_s, None, None, None


class QuantConv2d(nn.Conv2d):
    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.sw = nn.Parameter(2 * self.weight.detach().abs().mean().view(1) / math.sqrt(7))
        self.sa = nn.Parameter(torch.tensor([0.1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = _LSQ.apply(self.weight, self.sw, 1 / math.sqrt(self.weight.numel() * 7), -8, 7)
        a = _LSQ.apply(x, self.sa, 1 / math.sqrt(x.numel() * 15), 0, 15)
        return F.conv2d(a, w, self.bias, self.stride, self.padding, self.dilation, self.groups)


@model("learned step sizes of four bits", trained=True)
def lsq(batch: int = 8) -> Case:
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1), nn.BatchNorm2d(32), nn.ReLU(),
        QuantConv2d(32, 64, 3, 2, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        QuantConv2d(64, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
        QuantConv2d(64, 128, 3, 2, 1, bias=False), nn.BatchNorm2d(128), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    return net, (torch.rand(batch, 3, 32, 32),)


# ---------------------------------------------------------------- checkpointed blocks, autocast
class _Checkpointed(nn.Module):
    def __init__(self, d: int, depth: int) -> None:
        super().__init__()
        self.emb = nn.Embedding(1000, d)
        self.blocks = nn.ModuleList(_Block(d, 4) for _ in range(depth))
        self.head = nn.Linear(d, 1000, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, idx: torch.Tensor) -> torch.Tensor:
        x = self.emb(idx)
        for block in self.blocks:
            if self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(x)


@model("checkpointed gpt with tied weights", trained=True)
def checkpointed(batch: int = 4) -> Case:
    return _Checkpointed(128, 3), (torch.randint(0, 1000, (batch, 64)),)


class _Autocast(nn.Module):
    """bfloat16 where autocast says so, logits and norms in float32."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, d, 8, 8)
        self.pos = nn.Parameter(torch.randn(1, 64, d) * 0.02)
        self.blocks = nn.ModuleList(_Block(d, 4) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            x = self.stem(x).flatten(2).transpose(1, 2) + self.pos
            for b in self.blocks:
                x = b(x)
            logits = self.head(self.norm(x).mean(1))
        return logits.float()


@model("vit under bfloat16 autocast", trained=True)
def autocast(batch: int = 4) -> Case:
    return _Autocast(192), (torch.randn(batch, 3, 64, 64),)


# ----------------------------------------------------------------------------- momentum contrast
class MoCoOutput(NamedTuple):
    logits: torch.Tensor
    labels: torch.Tensor


class _MoCo(nn.Module):
    """A momentum encoder and a queue: both are written in forward."""

    queue: torch.Tensor
    queue_ptr: torch.Tensor

    def __init__(self, dim: int, K: int, m: float = 0.999, T: float = 0.07) -> None:
        super().__init__()
        self.K, self.m, self.T = K, m, T

        def encoder() -> nn.Module:
            return nn.Sequential(
                nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
                nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
                nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, dim))  # fmt: skip

        self.encoder_q, self.encoder_k = encoder(), encoder()
        for pq, pk in zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True):
            pk.data.copy_(pq.data)
            pk.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, K), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    def forward(self, im_q: torch.Tensor, im_k: torch.Tensor) -> MoCoOutput:
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            pairs = zip(self.encoder_q.parameters(), self.encoder_k.parameters(), strict=True)
            for pq, pk in pairs:
                pk.mul_(self.m).add_(pq, alpha=1.0 - self.m)
            k = F.normalize(self.encoder_k(im_k), dim=1)
        pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([pos, neg], dim=1) / self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long, device=logits.device)
        with torch.no_grad():
            at = (self.queue_ptr + torch.arange(k.shape[0])) % self.K
            self.queue[:, at] = k.T
            self.queue_ptr.copy_((self.queue_ptr + k.shape[0]) % self.K)
        return MoCoOutput(logits, labels)


@model("momentum contrast with a queue", trained=True)
def moco(batch: int = 16) -> Case:
    return _MoCo(64, 1024), (torch.randn(batch, 3, 32, 32), torch.randn(batch, 3, 32, 32))


# -------------------------------------------------------------------------- domain adversarial
class _Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: float) -> torch.Tensor:
        ctx.weight = weight
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad.neg() * ctx.weight, None


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, i: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(i)
        return i * torch.sigmoid(i)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (i,) = ctx.saved_tensors
        s = torch.sigmoid(i)
        return grad * (s * (1 + i * (1 - s)))


class _Adversarial(nn.Module):
    def __init__(self, d: int) -> None:
        super().__init__()
        self.f1, self.f2 = nn.Linear(310, d), nn.Linear(d, d)
        self.norm = nn.BatchNorm1d(d)
        self.label = nn.Linear(d, 3)
        self.domain = nn.Sequential(spectral_norm(nn.Linear(d, 64)), nn.ReLU(),
                                    spectral_norm(nn.Linear(64, 1)))  # fmt: skip

    def forward(self, x: torch.Tensor, alpha: float = 0.5) -> torch.Tensor:
        h = _Swish.apply(self.norm(self.f1(x)))
        h = _Swish.apply(self.f2(h))
        labels = self.label(h).log_softmax(-1)
        return torch.cat([labels, torch.sigmoid(self.domain(_Reverse.apply(h, alpha)))], -1)


@model("domain adversarial features", trained=True)
def adversarial(batch: int = 256) -> Case:
    return _Adversarial(256), (torch.randn(batch, 310),)


# -------------------------------------------------------------------------------- hypernetworks
class _HyperConv(nn.Module):
    """Filters of each sample by a network of its class: one grouped convolution for a batch."""

    def __init__(self, cin: int, cout: int, k: int, z: int) -> None:
        super().__init__()
        self.cin, self.cout, self.k = cin, cout, k
        self.gen = nn.Sequential(nn.Linear(z, 64), nn.ReLU(), nn.Linear(64, cout * cin * k * k))

    def forward(self, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        b, _, h, w = x.shape
        weight = self.gen(z).view(b * self.cout, self.cin, self.k, self.k)
        y = F.conv2d(x.reshape(1, -1, h, w), weight, padding=self.k // 2, groups=b)
        return y.view(b, self.cout, h, w)


class _Hyper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.z = nn.Embedding(10, 32)
        self.c1, self.c2, self.c3 = (
            _HyperConv(a, b, 3, 32) for a, b in ((3, 16), (16, 16), (16, 8))
        )
        self.norm = nn.InstanceNorm2d(16, affine=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = self.z(y)
        x = F.mish(self.norm(self.c1(x, z)))
        x = F.mish(self.c2(x, z)) + x
        return self.c3(x, z)


@model("filters of a hypernetwork", trained=True)
def hyper(batch: int = 8) -> Case:
    return _Hyper(), (torch.randn(batch, 3, 32, 32), torch.randint(0, 10, (batch,)))


# ------------------------------------------------------- int8 weights by groups, float64 angles
class WeightOnlyInt8Linear(nn.Module):
    weight: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor

    def __init__(self, fin: int, fout: int, group: int = 64) -> None:
        super().__init__()
        self.group = group
        self.register_buffer("weight", torch.randint(-128, 127, (fout, fin), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(fout, fin // group) * 0.001 + 0.0005)
        self.register_buffer("zeros", torch.randint(-8, 8, (fout, fin // group), dtype=torch.int8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.weight.view(self.weight.shape[0], -1, self.group).to(x.dtype)
        w = (w - self.zeros.unsqueeze(-1).to(x.dtype)) * self.scales.unsqueeze(-1)
        return F.linear(x, w.view(self.weight.shape))


class _Int8Llama(nn.Module):
    inv_freq: torch.Tensor

    def __init__(self, d: int, h: int, kv: int, ff: int) -> None:
        super().__init__()
        self.h, self.kv, self.hd = h, kv, d // h
        self.q, self.k, self.v, self.o = (
            WeightOnlyInt8Linear(d, n) for n in (d, kv * self.hd, kv * self.hd, d)
        )
        self.gate, self.up = WeightOnlyInt8Linear(d, ff), WeightOnlyInt8Linear(d, ff)
        self.down = WeightOnlyInt8Linear(ff, d)
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        freq = 10000 ** -(torch.arange(0, self.hd, 2, dtype=torch.float64) / self.hd)
        self.register_buffer("inv_freq", freq)

    def rope(self, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        angle = torch.outer(pos.double(), self.inv_freq)
        cos, sin = (f(angle).float().repeat(1, 2) for f in (torch.cos, torch.sin))
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        b, t, _ = x.shape
        y = self.n1(x)
        q = self.q(y).view(b, t, self.h, self.hd).transpose(1, 2)
        k = self.k(y).view(b, t, self.kv, self.hd).transpose(1, 2)
        v = self.v(y).view(b, t, self.kv, self.hd).transpose(1, 2)
        q, k = self.rope(q, pos), self.rope(k, pos)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@model("int8 weights dequantised by hand")
def int8_llama(batch: int = 1) -> Case:
    return _Int8Llama(512, 8, 2, 1408), (torch.randn(batch, 32, 512), torch.arange(32))


# ------------------------------------------------------------------- finite scalar quantisation
class _FSQ(nn.Module):
    levels: torch.Tensor
    basis: torch.Tensor

    def __init__(self, levels: tuple[int, ...] = (8, 6, 5)) -> None:
        super().__init__()
        self.register_buffer("levels", torch.tensor(levels))
        self.register_buffer("basis", torch.cumprod(torch.tensor((1, *levels[:-1])), 0))

    def forward(self, z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        half = (self.levels - 1) * (1 - 1e-3) / 2
        offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)
        bounded = (z + (offset / half).tan()).tanh() * half - offset
        rounded = bounded + (bounded.round() - bounded).detach()
        width = self.levels // 2
        codes = rounded / width
        ids = ((codes * width + width) * self.basis).sum(-1).to(torch.int32)
        return codes, ids


class _Tokenizer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.SiLU(), nn.Conv2d(32, 64, 4, 2, 1),
                                 nn.SiLU(), nn.Conv2d(64, 3, 1))  # fmt: skip
        self.fsq = _FSQ()
        self.dec = nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1), nn.SiLU(), nn.Upsample(scale_factor=2),
                                 nn.Conv2d(64, 32, 3, 1, 1), nn.SiLU(),
                                 nn.ConvTranspose2d(32, 3, 4, 2, 1))  # fmt: skip

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = self.enc(x).permute(0, 2, 3, 1)
        codes, ids = self.fsq(z)
        return self.dec(codes.permute(0, 3, 1, 2)), ids


@model("tokens of finite scalars", trained=True)
def fsq(batch: int = 4) -> Case:
    return _Tokenizer(), (torch.randn(batch, 3, 48, 48),)
