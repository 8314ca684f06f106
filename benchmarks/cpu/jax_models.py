"""How the models of `models.py` are said in JAX, with the weights that PyTorch made.

Each function takes the parameters by PyTorch's names, then the model's inputs. Convolutions are
channels first, as in PyTorch; XLA picks its own layout inside of a program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Weights = dict[str, Any]


def linear(p: Weights, name: str, x: Any) -> Any:
    return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]


def layer_norm(p: Weights, name: str, x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    scale = lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return centred * scale * p[f"{name}.weight"] + p[f"{name}.bias"]


def mlp(p: Weights, x: Any) -> Any:
    y = jax.nn.gelu(linear(p, "dense1", x), approximate=False)
    return layer_norm(p, "norm", linear(p, "dense2", y) + x)


def two_layers(p: Weights, x: Any) -> Any:
    return linear(p, "two", jax.nn.relu(linear(p, "one", x)))


def _heads(x: Any, heads: int) -> Any:
    batch, length, width = x.shape
    return x.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3)


def _mix(q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1]) + mask
    y = jax.nn.softmax(scores, -1) @ v
    return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


def attention(p: Weights, x: Any, mask: Any) -> Any:
    q, k, v = (_heads(linear(p, name, x), 12) for name in ("query", "key", "value"))
    return _mix(q, k, v, mask)


def _attend(p: Weights, at: str, x: Any, mask: Any) -> Any:
    q, k, v = (_heads(part, 12) for part in jnp.split(linear(p, f"{at}.qkv", x), 3, -1))
    return linear(p, f"{at}.out", _mix(q, k, v, mask))


def bert(p: Weights, x: Any, mask: Any) -> Any:
    for number in range(12):
        at = f"layers.{number}"
        x = layer_norm(p, f"{at}.norm1", x + _attend(p, at, x, mask))
        y = jax.nn.gelu(linear(p, f"{at}.up", x), approximate=False)
        x = layer_norm(p, f"{at}.norm2", x + linear(p, f"{at}.down", y))
    return x


def gpt2(p: Weights, ids: Any) -> Any:
    length = ids.shape[1]
    mask = jnp.where(jnp.tril(jnp.ones((length, length), bool)), 0.0, -jnp.inf)
    x = p["words.weight"][ids] + p["places.weight"][:length]
    for number in range(12):
        at = f"layers.{number}"
        x = x + _attend(p, at, layer_norm(p, f"{at}.norm1", x), mask)
        y = linear(p, f"{at}.up", layer_norm(p, f"{at}.norm2", x))
        x = x + linear(p, f"{at}.down", jax.nn.gelu(y, approximate=True))
    return layer_norm(p, "norm", x) @ p["words.weight"].T


def _convolution(p: Weights, name: str, x: Any, stride: int, training: bool) -> Any:
    weight = p[f"{name}.0.weight"]
    pad = weight.shape[-1] // 2
    y = lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2)
    if training:
        mean, var = y.mean((0, 2, 3)), y.var((0, 2, 3))
    else:
        mean, var = p[f"{name}.1.running_mean"], p[f"{name}.1.running_var"]
    scale = p[f"{name}.1.weight"] * lax.rsqrt(var + 1e-5)
    shift = p[f"{name}.1.bias"] - mean * scale
    return y * scale[:, None, None] + shift[:, None, None]


def resnet(p: Weights, x: Any, training: bool = False) -> Any:
    x = jax.nn.relu(_convolution(p, "stem", x, 2, training))
    border = ((0, 0), (0, 0), (1, 1), (1, 1))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), border)
    number, channels = 0, 64
    while f"blocks.{number}.path.0.0.weight" in p:
        at = f"blocks.{number}"
        count = 3 if f"{at}.path.2.0.weight" in p else 2
        now = p[f"{at}.path.0.0.weight"].shape[0]
        stride, channels = (2 if now > channels else 1), now
        strided = 1 if count == 3 else 0  # the 3x3 of a deep block, the first of a plain one
        y = x
        for step in range(count):
            by = stride if step == strided else 1
            y = _convolution(p, f"{at}.path.{step}", y, by, training)
            y = jax.nn.relu(y) if step < count - 1 else y
        if f"{at}.shortcut.0.weight" in p:
            x = _convolution(p, f"{at}.shortcut", x, stride, training)
        x = jax.nn.relu(y + x)
        number += 1
    return linear(p, "head", x.mean((2, 3)))


def cross_entropy(scores: Any, target: Any) -> Any:
    picked = jnp.take_along_axis(jax.nn.log_softmax(scores), target[:, None], 1)
    return -picked.mean()


def squared(y: Any, target: Any) -> Any:
    return ((y - target) ** 2).mean()


MODELS: dict[str, Callable[..., Any]] = {
    "Mlp": mlp, "TwoLayers": two_layers, "SelfAttention": attention, "Bert": bert, "Gpt2": gpt2,
    "ResNet": resnet,
}  # fmt: skip
LOSSES = {"ResNet": cross_entropy, "TwoLayers": squared}
