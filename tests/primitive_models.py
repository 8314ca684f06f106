"""Small models written with primitive ops only, as exporters leave them.

Nothing here uses an op that a pass should recognise: softmax, norms, GELU, SiLU and attention are
sums, products, exponentials and roots.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.ir import Graph, GraphBuilder, Origin, Scope, Source
from glasshouse.ir.dim import Dim

Array = np.ndarray[Any, Any]


class Primitives:
    """Weights and functions from which models are put together."""

    def __init__(self, seed: int = 0) -> None:
        self.b = GraphBuilder()
        self.rng = np.random.default_rng(seed)
        self.path: list[Scope] = []

    def scope(self, name: str, cls: str) -> Any:
        return self.b.at(Origin(Source((*self.path, Scope(name, cls)))))

    def weight(self, *shape: int, scale: float | None = None) -> Any:
        scale = 1 / math.sqrt(shape[0]) if scale is None else scale
        return self.b.weight((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def linear(self, x: Any, columns: int, bias: bool = True) -> Any:
        y = x @ self.weight(x.shape[-1], columns)
        return y + self.weight(columns, scale=0.1) if bias else y

    def softmax(self, x: Any) -> Any:
        up = (x - x.apply("max", axes=[-1], keepdims=True)).apply("exp")
        return up / up.apply("sum", axes=[-1], keepdims=True)

    def layer_norm(self, x: Any) -> Any:
        size = x.shape[-1]
        apart = x - x.apply("mean", axes=[-1], keepdims=True)
        spread = (apart**2.0).apply("mean", axes=[-1], keepdims=True)
        y = apart / (spread + 1e-5).apply("sqrt")
        return y * (self.weight(size, scale=0.1) + 1.0) + self.weight(size, scale=0.1)

    def rms_norm(self, x: Any) -> Any:
        square = (x * x).apply("mean", axes=[-1], keepdims=True)
        return (self.weight(x.shape[-1], scale=0.1) + 1.0) * (x * (square + 1e-6).apply("rsqrt"))

    def gelu(self, x: Any) -> Any:
        return x * 0.5 * ((x / math.sqrt(2)).apply("erf") + 1.0)

    def gelu_tanh(self, x: Any) -> Any:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3.0)
        return 0.5 * x * (1.0 + inner.apply("tanh"))

    def silu(self, x: Any) -> Any:
        return x * (1.0 / (1.0 + (-x).apply("exp")))

    def heads(self, x: Any, count: int) -> Any:
        batch, length, size = x.shape
        return x.apply("reshape", shape=(batch, length, count, size // count)).apply(
            "permute", axes=(0, 2, 1, 3)
        )

    def merged(self, x: Any) -> Any:
        batch, heads, length, size = x.shape
        return x.apply("permute", axes=(0, 2, 1, 3)).apply(
            "reshape", shape=(batch, length, heads * size)
        )

    def attention(self, q: Any, k: Any, v: Any, masked: Callable[[Any], Any] = lambda s: s) -> Any:
        scores = q @ k.apply("permute", axes=(0, 1, 3, 2)) / math.sqrt(q.shape[-1])
        return self.softmax(masked(scores)) @ v


def self_attention(length: int = 128, size: int = 768, heads: int = 12) -> Graph:
    """The flow-graph tutorial's graph: three projections, rearranged, with an integer mask."""
    p = Primitives()
    x, mask = p.b.input("float32", (1, length, size)), p.b.input("int32", (1, length))
    each = size // heads

    def projected() -> Any:
        y = p.linear(x, size).apply("reshape", shape=(1, length, heads, each))
        return y.apply("rearrange", plan=[[0, 2], [1], [3]])

    q, k, v = projected(), projected().apply("permute", axes=(0, 2, 1)), projected()
    weights = ((q @ k) / 8.0 + mask).apply("softmax", axis=2)
    out = (weights @ v).apply("reshape", shape=(1, heads, length, each))
    return p.b.finish(out.apply("rearrange", plan=[[0], [2], [1, 3]]))


def bert(layers: int = 2, length: Dim = 8, size: int = 32, heads: int = 4) -> Graph:
    """Post-norm encoder with an additive mask and the exact GELU."""
    p = Primitives()
    x, mask = p.b.input("float32", (2, length, size)), p.b.input("float32", (2, 1, 1, length))
    for i in range(layers):
        p.path = [Scope("encoder", "Encoder"), Scope(str(i), "Layer")]
        with p.scope("attention", "SelfAttention"):
            q, k, v = (p.heads(p.linear(x, size), heads) for _ in range(3))
            context = p.attention(q, k, v, lambda s: s + mask)
        with p.scope("output", "Output"):
            x = p.layer_norm(x + p.linear(p.merged(context), size))
        with p.scope("mlp", "Mlp"):
            x = p.layer_norm(x + p.linear(p.gelu(p.linear(x, 4 * size)), size))
    return p.b.finish(x)


def gpt2(layers: int = 2, length: int = 8, size: int = 32, heads: int = 4) -> Graph:
    """Pre-norm decoder: one product for q, k and v, a causal mask by `where`, the tanh GELU."""
    p = Primitives()
    x = p.b.input("float32", (1, length, size))
    past = p.b.weight(np.tril(np.ones((1, 1, length, length), bool)))
    low = float(np.finfo(np.float32).min)
    for _ in range(layers):
        parts = p.linear(p.layer_norm(x), 3 * size).apply("split", axis=-1, sizes=[size] * 3)
        q, k, v = (p.heads(part, heads) for part in parts)
        context = p.attention(q, k, v, lambda s: past.apply("where", s, low))
        x = x + p.linear(p.merged(context), size)
        x = x + p.linear(p.gelu_tanh(p.linear(p.layer_norm(x), 4 * size)), size)
    return p.b.finish(p.layer_norm(x))


def vit(layers: int = 2, size: int = 32, heads: int = 4) -> Graph:
    """Patches by convolution, a class token, no mask; q is scaled before the product."""
    p = Primitives()
    image = p.b.input("float32", (1, 3, 16, 16))
    patches = image.apply("conv", p.weight(size, 3, 4, 4, scale=0.1), stride=[4, 4])
    patches = patches + p.weight(size, 1, 1, scale=0.1)
    x = patches.apply("reshape", shape=(1, size, 16)).apply("permute", axes=(0, 2, 1))
    x = p.weight(1, 1, size).apply("concat", x, axis=1) + p.weight(1, 17, size, scale=0.1)
    for _ in range(layers):
        y = p.layer_norm(x)
        q, k, v = (p.heads(p.linear(y, size), heads) for _ in range(3))
        scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.apply("permute", axes=(0, 1, 3, 2))
        x = x + p.linear(p.merged(p.softmax(scores) @ v), size)
        x = x + p.linear(p.gelu(p.linear(p.layer_norm(x), 4 * size)), size)
    token = p.layer_norm(x).apply("slice", starts=(0, 0, 0), ends=(1, 1, size))
    return p.b.finish(p.linear(token, 10))


def llama(
    layers: int = 2, length: int = 8, size: int = 32, heads: int = 4, shared: int = 2
) -> Graph:
    """RMS norms, rotary positions, shared heads of k and v, SwiGLU, a causal mask that is added."""
    p = Primitives()
    x = p.b.input("float32", (1, length, size))
    each = size // heads
    low = np.where(np.tril(np.ones((length, length))) > 0, 0, np.finfo(np.float32).min)
    mask = p.b.weight(low.astype(np.float32).reshape(1, 1, length, length))
    angles = np.outer(np.arange(length), 0.5 ** np.arange(each // 2))
    turns = np.concatenate([angles, angles], -1)
    cos, sin = (p.b.weight(f(turns).astype(np.float32)) for f in (np.cos, np.sin))

    def rotary(y: Any) -> Any:
        first, second = y.apply("split", axis=-1, sizes=[each // 2] * 2)
        return y * cos + (-second).apply("concat", first, axis=-1) * sin

    def repeated(y: Any) -> Any:
        y = y.apply("reshape", shape=(1, shared, 1, length, each))
        y = y.apply("expand", shape=(1, shared, heads // shared, length, each))
        return y.apply("reshape", shape=(1, heads, length, each))

    for _ in range(layers):
        y = p.rms_norm(x)
        q = rotary(p.heads(p.linear(y, size, bias=False), heads))
        k = rotary(p.heads(p.linear(y, shared * each, bias=False), shared))
        v = p.heads(p.linear(y, shared * each, bias=False), shared)
        context = p.attention(q, repeated(k), repeated(v), lambda s: s + mask)
        x = x + p.linear(p.merged(context), size, bias=False)
        y = p.rms_norm(x)
        gate, up = p.linear(y, 2 * size, bias=False), p.linear(y, 2 * size, bias=False)
        x = x + p.linear(p.silu(gate) * up, size, bias=False)
    return p.b.finish(p.rms_norm(x))


def resnet_block(channels: int = 8, bias: bool = True) -> Graph:
    """conv, batch norm and relu, twice, with a shortcut through a strided convolution."""
    p = Primitives()
    x = p.b.input("float32", (1, channels, 8, 8))

    def conv_norm(y: Any, out: int, kernel: int, stride: int) -> Any:
        w = p.weight(out, y.shape[1], kernel, kernel, scale=0.2)
        y = y.apply("conv", w, stride=[stride], padding=[kernel // 2])
        if bias:
            y = y + p.weight(out, 1, 1, scale=0.5)
        mean, scale, shift = (p.weight(out, scale=0.5) for _ in range(3))
        spread = p.b.weight(p.rng.uniform(0.5, 2, out).astype(np.float32))
        return y.apply("batch_norm", mean, spread, scale, shift)

    y = conv_norm(x, 2 * channels, 3, 2).apply("relu")
    y = conv_norm(y, 2 * channels, 3, 1) + conv_norm(x, 2 * channels, 1, 2)
    return p.b.finish(y.apply("relu"))
