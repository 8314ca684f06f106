"""The models of `workloads.py` in JAX, with the weights of their PyTorch modules: a further peer.

JAX is called, not replayed: XLA makes CUDA graphs of its own inside of a call, and what a call of
it costs in Python is part of its time. Weights are arguments, not constants of the program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch has the GPU too

import jax
import jax.numpy as jnp
from jax import lax

from cpu.models import Mlp, ResNet, SelfAttention
from gpu.workloads import Encoder, Llama

Weights = dict[str, Any]
Model = Callable[..., Any]


def array(x: Tensor) -> Any:
    """A tensor as an array of its type; by way of float32, since NumPy has no bfloat16."""
    kinds = {torch.float16: jnp.float16, torch.bfloat16: jnp.bfloat16, torch.int64: jnp.int32}
    kind = kinds.get(x.dtype)
    host = x.detach().cpu()
    return jnp.asarray((host.float() if x.is_floating_point() else host).numpy(), dtype=kind)


def linear(w: Weights, name: str, x: Any) -> Any:
    out = x @ w[f"{name}.weight"].T
    return out + w[f"{name}.bias"] if f"{name}.bias" in w else out


def layer_norm(w: Weights, name: str, x: Any) -> Any:
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred * lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return (normal * w[f"{name}.weight"] + w[f"{name}.bias"]).astype(x.dtype)


def rms_norm(w: Weights, name: str, x: Any) -> Any:
    wide = x.astype(jnp.float32)
    scaled = wide * lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)
    return (scaled * w[f"{name}.weight"]).astype(x.dtype)


def attended(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    """[batch, length, heads, dim]; by cuDNN where that takes it."""
    try:
        return jax.nn.dot_product_attention(q, k, v, mask=mask, implementation="cudnn")
    except Exception:
        return jax.nn.dot_product_attention(q, k, v, mask=mask)


def mlp(w: Weights, x: Any) -> Any:
    hidden = jax.nn.gelu(linear(w, "dense1", x), approximate=False)
    return layer_norm(w, "norm", linear(w, "dense2", hidden) + x)


def self_attention(w: Weights, x: Any, mask: Any) -> Any:
    batch, length, width = x.shape
    parts = (linear(w, n, x).reshape(batch, length, 12, -1) for n in ("query", "key", "value"))
    q, k, v = (p.transpose(0, 2, 1, 3) for p in parts)
    scores = q @ k.transpose(0, 1, 3, 2) / (width // 12) ** 0.5 + mask
    mixed = jax.nn.softmax(scores.astype(jnp.float32), -1).astype(x.dtype) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(x.shape)


def convolution(w: Weights, name: str, x: Any, stride: int = 1) -> Any:
    kernel = w[f"{name}.0.weight"].transpose(2, 3, 1, 0)
    border = [(kernel.shape[0] // 2,) * 2] * 2
    out = lax.conv_general_dilated(
        x, kernel, (stride, stride), border, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    mean, variance = (w[f"{name}.1.running_{n}"] for n in ("mean", "var"))
    scale = w[f"{name}.1.weight"] * lax.rsqrt(variance.astype(jnp.float32) + 1e-5)
    return ((out - mean) * scale + w[f"{name}.1.bias"]).astype(x.dtype)


def resnet(w: Weights, x: Any) -> Any:
    deep = "blocks.0.path.2.0.weight" in w
    x = x.transpose(0, 2, 3, 1)
    x = jax.nn.relu(convolution(w, "stem", x, 2))
    border = ((0, 0), (1, 1), (1, 1), (0, 0))
    least = jnp.array(-jnp.inf, x.dtype)
    x = lax.reduce_window(x, least, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), border)
    number = 0
    for stage, count in enumerate((3, 4, 6, 3) if deep else (2, 2, 2, 2)):
        for first in range(count):
            stride = 2 if stage and not first else 1
            at = f"blocks.{number}"
            strides = (1, stride, 1) if deep else (stride, 1)
            y = x
            for step, s in enumerate(strides):
                y = convolution(w, f"{at}.path.{step}", y, s)
                y = jax.nn.relu(y) if step + 1 < len(strides) else y
            beside = f"{at}.shortcut.0.weight" in w
            x = jax.nn.relu(y + (convolution(w, f"{at}.shortcut", x, stride) if beside else x))
            number += 1
    return linear(w, "head", x.mean((1, 2)))


def encoder(w: Weights, x: Any) -> Any:
    batch, length, size = x.shape
    for number in range(12):
        at = f"{number}"
        q, k, v = jnp.moveaxis(linear(w, f"{at}.qkv", x).reshape(batch, length, 3, 12, -1), 2, 0)
        seen = linear(w, f"{at}.out", attended(q, k, v).reshape(batch, length, size))
        x = layer_norm(w, f"{at}.norm1", x + seen)
        hidden = jax.nn.gelu(linear(w, f"{at}.up", x), approximate=False)
        x = layer_norm(w, f"{at}.norm2", x + linear(w, f"{at}.down", hidden))
    return x


def turned(x: Any, cosine: Any, sine: Any) -> Any:
    a, b = jnp.split(x, 2, -1)
    return x * cosine + jnp.concatenate((-b, a), -1) * sine


def llama(w: Weights, tokens: Any, places: Any) -> Any:
    """Caches are read and not kept: a run begins as the one before it did."""
    x = w["embed.weight"][tokens]
    cosine, sine = (w[n][places][:, None] for n in ("cosine", "sine"))
    mask = w["mask"][places][None, None].astype(bool)
    batch, length, size = x.shape
    for number in range(sum(n.endswith(".q.weight") for n in w)):
        at = f"layers.{number}"
        y = rms_norm(w, f"{at}.norm1", x)
        q, k, v = (linear(w, f"{at}.{n}", y).reshape(batch, length, -1, 64) for n in "qkv")
        q, k = turned(q, cosine, sine), turned(k, cosine, sine)
        keys = w[f"{at}.keys"].transpose(0, 2, 1, 3).at[:, places].set(k)
        values = w[f"{at}.values"].transpose(0, 2, 1, 3).at[:, places].set(v)
        seen = attended(q, keys, values, mask).reshape(batch, length, size)
        x = x + linear(w, f"{at}.out", seen)
        y = rms_norm(w, f"{at}.norm2", x)
        gated = jax.nn.silu(linear(w, f"{at}.gate", y)) * linear(w, f"{at}.up", y)
        x = x + linear(w, f"{at}.down", gated)
    return rms_norm(w, "norm", x) @ w["embed.weight"].T


def _model(model: nn.Module) -> Model:
    if isinstance(model, nn.Sequential) and isinstance(model[0], Encoder):
        return encoder
    found: dict[type[nn.Module], Model] = {
        Mlp: mlp, SelfAttention: self_attention, ResNet: resnet, Llama: llama,
    }  # fmt: skip
    return found[type(model)]


def in_jax(model: nn.Module, inputs: tuple[Tensor, ...]) -> Callable[[], Any]:
    """A function that computes the model once and waits for nothing."""
    weights = {name: array(x) for name, x in model.state_dict().items()}
    given = [array(x) for x in inputs]
    compiled = jax.jit(_model(model)).lower(weights, *given).compile()
    return lambda: compiled(weights, *given)
