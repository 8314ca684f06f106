"""The models of `nn.models` once more, in plain PyTorch: what they are compared with."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F


# ------------------------------------------------------------------------------------------ ResNet
class Residual(nn.Module):
    def __init__(self, inside, width, stride, wide):
        super().__init__()
        outside = width * (4 if wide else 1)
        self.wide = wide
        first, second = (1, 3) if wide else (3, 3)
        s1, s2 = (1, stride) if wide else (stride, 1)
        self.conv1 = nn.Conv2d(inside, width, first, s1, first // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, second, s2, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        if wide:
            self.conv3 = nn.Conv2d(width, outside, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(outside)
        if stride != 1 or inside != outside:
            self.downsample = nn.Sequential(
                nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.wide:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet(nn.Module):
    def __init__(self, depths, wide, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        inside = 64
        for i, depth in enumerate(depths):
            blocks = []
            for j in range(depth):
                blocks.append(Residual(inside, 64 << i, 2 if i and not j else 1, wide))
                inside = (64 << i) * (4 if wide else 1)
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(inside, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(4):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


# -------------------------------------------------------------------------------------------- BERT
class Holder(nn.Module):
    """A module that only names its children."""

    def __init__(self, /, **children):
        super().__init__()
        for name, child in children.items():
            self.add_module(name, child)


class Bert(nn.Module):
    def __init__(self, c):
        super().__init__()
        size, self.heads = c.hidden_size, c.num_attention_heads
        norm = lambda: nn.LayerNorm(size, c.layer_norm_eps)  # noqa: E731
        self.embeddings = Holder(
            word_embeddings=nn.Embedding(c.vocab_size, size, padding_idx=0),
            position_embeddings=nn.Embedding(c.max_position_embeddings, size),
            token_type_embeddings=nn.Embedding(c.type_vocab_size, size),
            LayerNorm=norm(),
        )
        layers = [
            Holder(
                attention=Holder(
                    self=Holder(
                        query=nn.Linear(size, size),
                        key=nn.Linear(size, size),
                        value=nn.Linear(size, size),
                    ),
                    output=Holder(dense=nn.Linear(size, size), LayerNorm=norm()),
                ),
                intermediate=Holder(dense=nn.Linear(size, c.intermediate_size)),
                output=Holder(dense=nn.Linear(c.intermediate_size, size), LayerNorm=norm()),
            )
            for _ in range(c.num_hidden_layers)
        ]
        self.encoder = Holder(layer=nn.ModuleList(layers))
        self.pooler = Holder(dense=nn.Linear(size, size))

    def forward(self, ids, mask):
        e = self.embeddings
        x = e.word_embeddings(ids) + e.position_embeddings(torch.arange(ids.shape[1]))
        x = e.LayerNorm(x + e.token_type_embeddings(torch.zeros_like(ids)))
        b, n, size = x.shape
        hidden = torch.where(mask.bool(), 0.0, -math.inf)[:, None, None, :].to(x.dtype)
        for layer in self.encoder.layer:
            a = layer.attention.self
            q, k, v = (
                p(x).view(b, n, self.heads, -1).transpose(1, 2) for p in (a.query, a.key, a.value)
            )
            w = (q @ k.transpose(-1, -2) / math.sqrt(size // self.heads) + hidden).softmax(-1)
            y = (w @ v).transpose(1, 2).reshape(b, n, size)
            x = layer.attention.output.LayerNorm(layer.attention.output.dense(y) + x)
            y = layer.output.dense(F.gelu(layer.intermediate.dense(x)))
            x = layer.output.LayerNorm(y + x)
        return x, torch.tanh(self.pooler.dense(x[:, 0]))


# ------------------------------------------------------------------------------------------- GPT-2
class InOut(nn.Module):
    """A linear layer with its weight as [in, out]."""

    def __init__(self, inside, outside):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inside, outside) * 0.05)
        self.bias = nn.Parameter(torch.randn(outside) * 0.05)

    def forward(self, x):
        return x @ self.weight + self.bias


class GPT2(nn.Module):
    def __init__(self, c):
        super().__init__()
        size, self.heads = c.n_embd, c.n_head
        self.wte = nn.Embedding(c.vocab_size, size)
        self.wpe = nn.Embedding(c.n_positions, size)
        self.h = nn.ModuleList(
            Holder(
                ln_1=nn.LayerNorm(size),
                attn=Holder(c_attn=InOut(size, 3 * size), c_proj=InOut(size, size)),
                ln_2=nn.LayerNorm(size),
                mlp=Holder(c_fc=InOut(size, 4 * size), c_proj=InOut(4 * size, size)),
            )
            for _ in range(c.n_layer)
        )
        self.ln_f = nn.LayerNorm(size)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        b, n, size = x.shape
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        for block in self.h:
            parts = block.attn.c_attn(block.ln_1(x)).chunk(3, -1)
            q, k, v = (p.view(b, n, self.heads, -1).transpose(1, 2) for p in parts)
            w = q @ k.transpose(-1, -2) / math.sqrt(size // self.heads)
            y = w.masked_fill(later, -math.inf).softmax(-1) @ v
            x = x + block.attn.c_proj(y.transpose(1, 2).reshape(b, n, size))
            y = F.gelu(block.mlp.c_fc(block.ln_2(x)), approximate="tanh")
            x = x + block.mlp.c_proj(y)
        return self.ln_f(x) @ self.wte.weight.T


# ------------------------------------------------------------------------------------------- Llama
class Rms(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)
        self.eps = eps

    def forward(self, x):
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.weight


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        size, dim = c.hidden_size, c.hidden_size // c.num_attention_heads
        narrow = dim * c.num_key_value_heads
        plain = lambda i, o: nn.Linear(i, o, bias=False)  # noqa: E731
        layers = [
            Holder(
                self_attn=Holder(
                    q_proj=plain(size, size), k_proj=plain(size, narrow),
                    v_proj=plain(size, narrow), o_proj=plain(size, size),
                ),
                mlp=Holder(
                    gate_proj=plain(size, c.intermediate_size),
                    up_proj=plain(size, c.intermediate_size),
                    down_proj=plain(c.intermediate_size, size),
                ),
                input_layernorm=Rms(size, c.rms_norm_eps),
                post_attention_layernorm=Rms(size, c.rms_norm_eps),
            )
            for _ in range(c.num_hidden_layers)
        ]  # fmt: skip
        self.model = Holder(
            embed_tokens=nn.Embedding(c.vocab_size, size),
            layers=nn.ModuleList(layers),
            norm=Rms(size, c.rms_norm_eps),
        )
        self.lm_head = plain(size, c.vocab_size)

    def forward(self, ids):
        c = self.c
        x = self.model.embed_tokens(ids)
        b, n, size = x.shape
        dim = size // c.num_attention_heads
        angle = torch.arange(n, dtype=x.dtype)[:, None] * c.rope_theta ** (
            -torch.arange(0, dim, 2, dtype=x.dtype) / dim
        )
        cos, sin = angle.cos(), angle.sin()
        later = torch.ones(n, n, dtype=torch.bool).triu(1)

        def turned(t):
            first, second = t.chunk(2, -1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

        for layer in self.model.layers:
            a, y = layer.self_attn, layer.input_layernorm(x)
            q, k, v = (
                p(y).view(b, n, -1, dim).transpose(1, 2) for p in (a.q_proj, a.k_proj, a.v_proj)
            )
            share = c.num_attention_heads // c.num_key_value_heads
            k, v = (t.repeat_interleave(share, 1) for t in (turned(k), v))
            w = turned(q) @ k.transpose(-1, -2) / math.sqrt(dim)
            y = w.masked_fill(later, -math.inf).softmax(-1) @ v
            x = x + a.o_proj(y.transpose(1, 2).reshape(b, n, size))
            m, y = layer.mlp, layer.post_attention_layernorm(x)
            x = x + m.down_proj(F.silu(m.gate_proj(y)) * m.up_proj(y))
        return self.lm_head(self.model.norm(x))


# --------------------------------------------------------------------------------------------- ViT
class Feed(nn.Sequential):
    def __init__(self, size, wide):
        super().__init__(nn.Linear(size, wide), nn.GELU(), nn.Dropout(0.0), nn.Linear(wide, size))


class ViT(nn.Module):
    def __init__(self, c):
        super().__init__()
        size = c.hidden_dim
        self.class_token = nn.Parameter(torch.randn(1, 1, size))
        self.conv_proj = nn.Conv2d(3, size, c.patch_size, c.patch_size)
        layers = nn.Sequential()
        for i in range(c.num_layers):
            layers.add_module(
                f"encoder_layer_{i}",
                Holder(
                    ln_1=nn.LayerNorm(size, 1e-6),
                    self_attention=nn.MultiheadAttention(size, c.num_heads, batch_first=True),
                    ln_2=nn.LayerNorm(size, 1e-6),
                    mlp=Feed(size, c.mlp_dim),
                ),
            )
        self.encoder = Holder(layers=layers, ln=nn.LayerNorm(size, 1e-6))
        length = (c.image_size // c.patch_size) ** 2 + 1
        self.encoder.pos_embedding = nn.Parameter(torch.randn(1, length, size))
        self.heads = Holder(head=nn.Linear(size, c.num_classes))

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], 1)
        x = x + self.encoder.pos_embedding
        for layer in self.encoder.layers:
            y = layer.ln_1(x)
            x = x + layer.self_attention(y, y, y, need_weights=False)[0]
            x = x + layer.mlp(layer.ln_2(x))
        return self.heads.head(self.encoder.ln(x)[:, 0])
