"""The models that are trained on several ranks, small: an MLP, a GPT-2 and a ResNet."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.mid, self.down = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.down(F.relu(self.mid(F.gelu(self.up(x)))))

    @staticmethod
    def batch(random):
        return torch.randn(6, 16, generator=random), torch.randint(0, 4, (6,), generator=random)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.size = width // heads

    def forward(self, x):
        batch, length, _ = x.shape
        # As many heads as this rank has.
        q, k, v = (
            f(x).view(batch, length, -1, self.size).transpose(1, 2)
            for f in (self.q, self.k, self.v)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, -1))


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, vocabulary=61, length=8, width=16, heads=2, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    @staticmethod
    def batch(random):
        ids, wanted = torch.randint(0, 61, (2, 2, 8), generator=random)
        return ids, wanted


class Residual(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(into, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
        self.short = nn.Identity()
        if into != out:
            conv = nn.Conv2d(into, out, 1, stride, bias=False)
            self.short = nn.Sequential(conv, nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(self.short(x) + y)


class ResNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.blocks = nn.Sequential(Residual(width, width, 1), Residual(width, 2 * width, 2))
        self.hidden, self.head = nn.Linear(2 * width, 4 * width), nn.Linear(4 * width, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.stem(x)))).mean((2, 3))
        return self.head(F.relu(self.hidden(x)))

    @staticmethod
    def batch(random):
        wanted = torch.randint(0, 10, (2,), generator=random)
        return torch.randn(2, 3, 8, 8, generator=random), wanted


MODELS = {"mlp": MLP, "gpt2": GPT2, "resnet": ResNet}
PLANS = {
    MLP: {"up": ColwiseParallel(), "mid": RowwiseParallel()},
    GPT2: {
        **{f"layers.*.attention.{n}": ColwiseParallel() for n in "qkv"},
        "layers.*.attention.out": RowwiseParallel(),
        "layers.*.up": ColwiseParallel(),
        "layers.*.down": RowwiseParallel(),
    },
    ResNet: {"hidden": ColwiseParallel(), "head": RowwiseParallel()},
}


def spread(model, how, mesh):
    """The model over the ranks of a mesh: its data, its weights, or its layers."""
    if how == "ddp":
        return DistributedDataParallel(model)
    if how == "tp":
        return parallelize_module(model, mesh, PLANS[type(model)])
    for part in model.children():
        for layer in part if isinstance(part, (nn.ModuleList, nn.Sequential)) else [part]:
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)
