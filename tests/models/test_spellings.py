"""Models spelled in many ways become the same kernels.

All spellings stand in one model, each over an input of its own, so that one trace holds them; what
each output is computed from, after the passes, is counted by op and compared with the plain
spelling. A spelling that is not recognised keeps products, exponentials or means apart.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import glasshouse as gh
from glasshouse.ir.graph import Graph, Value
from glasshouse.numpy_ref import run

T, HEADS, WIDTH = 8, 2, 16
Spelling = Callable[[torch.Tensor], torch.Tensor]


class _Each(nn.Module):
    def __init__(self, spellings: list[Spelling]) -> None:
        super().__init__()
        self.spellings = spellings

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return [f(x) for f, x in zip(self.spellings, inputs, strict=True)]


def kernels(spellings: list[Spelling], shape: tuple[int, ...]) -> list[Counter[str]]:
    """How often each op stands behind each spelling's output, after the passes."""
    model = _Each(spellings).eval()
    inputs = [torch.randn(shape) for _ in spellings]
    with torch.no_grad():
        expected = model(*inputs)
        graph = gh.optimize(gh.trace(model, *inputs))
    made = run(graph, [x.numpy() for x in inputs])
    for got, wanted in zip(made, expected, strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=2e-5, atol=2e-5)
    return [_behind(graph, v) for v in graph.outputs]


def _behind(graph: Graph, value: Value) -> Counter[str]:
    found: Counter[str] = Counter()
    seen, pending = set(), [value.node]
    while pending:
        node = pending.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        pending += [v.node for v in node.inputs]
        body = node.attrs.get("body")
        names = [n.op.name for n in body.nodes] if isinstance(body, Graph) else [node.op.name]
        found.update(n for n in names if n not in _FREE)
    return found


_FREE = {
    "input", "constant", "parameter", "output", "reshape", "permute", "slice", "concat", "expand",
}  # fmt: skip
"""Views, and where values come from: how heads are cut apart may differ in these."""


# ---------------------------------------------------------------------------------------- attention
def _by_view(x: torch.Tensor) -> torch.Tensor:
    return x.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


def _by_permute(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(x.shape[0], x.shape[1], HEADS, WIDTH // HEADS).permute(0, 2, 1, 3)


def _by_slices(x: torch.Tensor) -> torch.Tensor:
    size = WIDTH // HEADS
    return torch.stack([x[..., i * size : (i + 1) * size] for i in range(HEADS)], 1)


def _by_chunks(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([part[:, None] for part in x.chunk(HEADS, -1)], 1)


def _joined(x: torch.Tensor) -> torch.Tensor:
    """Heads in the batch, as `nn.MultiheadAttention` and old exporters have them."""
    return x.flatten(0, 1)


SPLITS = {"view": _by_view, "permute": _by_permute, "slices": _by_slices, "chunks": _by_chunks}
ROOT = math.sqrt(WIDTH // HEADS)
SCALES: dict[str, tuple[float, float, Spelling]] = {
    "on q": (1 / ROOT, 1, lambda s: s),
    "on k": (1, 1 / ROOT, lambda s: s),
    "on both": (ROOT**-0.5, ROOT**-0.5, lambda s: s),
    "after": (1, 1, lambda s: s * (1 / ROOT)),
    "divided after": (1, 1, lambda s: s / ROOT),
    "by a tensor": (1, 1, lambda s: s / torch.tensor(ROOT)),
}
ADDED = torch.zeros(T, T).masked_fill(torch.rand(T, T) > 0.7, -1e4)
HIDDEN = torch.rand(T, T).fill_diagonal_(1) < 0.3
MASKS: dict[str, Spelling] = {
    "absent": lambda s: s,
    "added": lambda s: s + ADDED,
    "masked_fill": lambda s: s.masked_fill(HIDDEN, float("-inf")),
    "where, finite": lambda s: torch.where(HIDDEN, torch.tensor(-1e9), s),
    "where of a full tensor": lambda s: torch.where(~HIDDEN, s, torch.full_like(s, -1e9)),
}


def _shifted_exp(s: torch.Tensor) -> torch.Tensor:
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


SOFTMAX: dict[str, Spelling] = {
    "softmax": lambda s: torch.softmax(s, -1),
    "by exp": _shifted_exp,
    "of float": lambda s: F.softmax(s, -1, dtype=torch.float32).to(s.dtype),
    "with dropout": lambda s: F.dropout(F.softmax(s, -1), 0.1, False),
}
PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]] = {
    "@": (lambda q, k: q @ k.transpose(-1, -2), lambda w, v: w @ v),
    "permuted": (lambda q, k: torch.matmul(q, k.permute(0, 1, 3, 2)), torch.matmul),
    "einsum": (
        lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k),
        lambda w, v: torch.einsum("bhij,bhjd->bhid", w, v),
    ),
    "keys first": (
        lambda q, k: (k @ q.transpose(-1, -2)).transpose(-1, -2),
        lambda w, v: (v.transpose(-1, -2) @ w.transpose(-1, -2)).transpose(-1, -2),
    ),
    "flat": (
        lambda q, k: torch.bmm(_joined(q), _joined(k).transpose(1, 2)).view(-1, HEADS, T, T),
        lambda w, v: torch.bmm(_joined(w), _joined(v)).view(v.shape),
    ),
}  # fmt: skip
PARTS = (SPLITS, SCALES, MASKS, SOFTMAX, PRODUCTS)


def _attention(names: tuple[str, ...]) -> Spelling:
    split, (on_q, on_k, scaled), masked, softmax, (scores, applied) = (
        table[n] for table, n in zip(PARTS, names, strict=True)
    )  # type: ignore[index]  # the tables differ in what they hold

    def call(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (split(y) for y in x.chunk(3, -1))
        q = q if on_q == 1 else q * on_q
        k = k if on_k == 1 else k * on_k
        return applied(softmax(masked(scaled(scores(q, k)))), v)

    return call


def _pairs() -> Iterator[tuple[str, ...]]:
    """Every name with every name of every other part at least once, in few rows."""
    tables = [list(p) for p in PARTS]
    missing = {
        ((i, a), (j, b))
        for i, j in itertools.combinations(range(len(tables)), 2)
        for a in tables[i]
        for b in tables[j]
    }
    for row in itertools.product(*tables):
        found = set(itertools.combinations(enumerate(row), 2)) & missing
        if len(found) >= min(6, len(missing)):
            missing -= found
            yield row
    for (i, a), (j, b) in sorted(missing):
        row = [t[0] for t in tables]
        row[i], row[j] = a, b
        yield tuple(row)


def _check_attention(rows: list[tuple[str, ...]]) -> None:
    found = kernels([_attention(r) for r in rows], (2, T, 3 * WIDTH))
    wrong = [
        f"{', '.join(row)}: {dict(ops)}"
        for row, ops in zip(rows, found, strict=True)
        if ops["attention"] != 1 or {"matmul", "softmax", "exp", "add", "multiply"} & set(ops)
    ]
    assert not wrong, f"{len(wrong)} of {len(rows)}:\n" + "\n".join(wrong)


def test_attention_is_recognised_in_every_spelling() -> None:
    _check_attention(list(dict.fromkeys(_pairs())))


@pytest.mark.slow
def test_attention_is_recognised_in_all_combinations() -> None:
    rows = list(itertools.product(*PARTS))
    for first in range(0, len(rows), 300):
        _check_attention(rows[first : first + 300])


# ------------------------------------------------------------------------------------ activations
def _tanh(x: torch.Tensor, cube: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * cube)))


GELU_EXACT: dict[str, Spelling] = {
    "plain": F.gelu,
    "half outside": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    "half inside": lambda x: x * (0.5 * (1 + torch.erf(x * math.sqrt(0.5)))),
    "half spread": lambda x: x * (0.5 + 0.5 * torch.erf(x / 2**0.5)),
    "half last": lambda x: x * (1.0 + torch.erf(x / 1.4142135623730951)) * 0.5,
    "divided by two": lambda x: x * (torch.erf(x / 1.41421) + 1) / 2,
    "normal cdf": lambda x: x * torch.special.ndtr(x),
    "by erfc": lambda x: 0.5 * x * torch.erfc(-x * math.sqrt(0.5)),
}
GELU_TANH: dict[str, Spelling] = {
    "plain": lambda x: F.gelu(x, approximate="tanh"),
    "power": lambda x: _tanh(x, torch.pow(x, 3.0)),
    "products": lambda x: _tanh(x, x * x * x),
    "operator": lambda x: _tanh(x, x**3),
    "factored": lambda x: 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x))),
    "half spread": lambda x: x * (0.5 + 0.5 * torch.tanh(0.79788456 * (x + 0.044715 * x**3))),
    "by sigmoid": lambda x: x * torch.sigmoid(1.5957691216 * (x + 0.044715 * x**3)),
}
SILU: dict[str, Spelling] = {
    "plain": F.silu,
    "product": lambda x: x * torch.sigmoid(x),
    "the other way": lambda x: x.sigmoid() * x,
    "quotient": lambda x: x / (1 + torch.exp(-x)),
    "reciprocal": lambda x: x * (1 / (1 + (-x).exp())),
    "of reciprocal": lambda x: x * torch.reciprocal(1 + torch.exp(-x)),
}

# ------------------------------------------------------------------------------------------ norms
WEIGHT, BIAS = torch.rand(WIDTH) + 0.5, torch.randn(WIDTH)


def _mean_square(x: torch.Tensor) -> torch.Tensor:
    return (x * x).mean(-1, keepdim=True)


def _centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


def _spread(x: torch.Tensor) -> torch.Tensor:
    return x.var(-1, unbiased=False, keepdim=True) + 1e-5


LAYER_NORM: dict[str, Spelling] = {
    "plain": lambda x: F.layer_norm(x, (WIDTH,), WEIGHT, BIAS, 1e-5),
    "weight after": lambda x: F.layer_norm(x, (WIDTH,)) * WEIGHT + BIAS,
    "var and rsqrt": lambda x: WEIGHT * (_centred(x) * torch.rsqrt(_spread(x))) + BIAS,
    "var and sqrt": lambda x: WEIGHT * (_centred(x) / torch.sqrt(_spread(x))) + BIAS,
    "weight first": lambda x: WEIGHT * _centred(x) / torch.sqrt(_spread(x)) + BIAS,
    "power of a half": lambda x: _centred(x) / _spread(x) ** 0.5 * WEIGHT + BIAS,
    "squares": lambda x: (
        _centred(x) / torch.sqrt(_centred(x).pow(2).mean(-1, keepdim=True) + 1e-5) * WEIGHT + BIAS
    ),
    "product of itself": lambda x: (
        _centred(x) * torch.rsqrt(_mean_square(_centred(x)) + 1e-5) * WEIGHT + BIAS
    ),
    "sums": lambda x: (
        _centred(x) * ((_centred(x) ** 2).sum(-1, keepdim=True) / WIDTH + 1e-5).rsqrt() * WEIGHT
        + BIAS
    ),
    "reciprocal of the root": lambda x: _centred(x) * (1 / torch.sqrt(_spread(x))) * WEIGHT + BIAS,
    "var_mean": lambda x: (
        (x - torch.var_mean(x, -1, correction=0, keepdim=True)[1])
        * torch.rsqrt(torch.var_mean(x, -1, correction=0, keepdim=True)[0] + 1e-5) * WEIGHT + BIAS
    ),
}  # fmt: skip
RMS_NORM: dict[str, Spelling] = {
    "plain": lambda x: F.rms_norm(x, (WIDTH,), WEIGHT, 1e-6),
    "llama": lambda x: WEIGHT * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
    "through float": lambda x: (
        WEIGHT * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x)
    ),
    "products": lambda x: x * torch.rsqrt(_mean_square(x) + 1e-6) * WEIGHT,
    "divided": lambda x: x / torch.sqrt(_mean_square(x) + 1e-6) * WEIGHT,
    "weight first": lambda x: WEIGHT * x / torch.sqrt(_mean_square(x) + 1e-6),
    "power of minus a half": lambda x: WEIGHT * (x * (_mean_square(x) + 1e-6) ** -0.5),
    "sums": lambda x: x * (x.square().sum(-1, keepdim=True) / WIDTH + 1e-6).rsqrt() * WEIGHT,
    "reciprocal of the root": lambda x: x * (1 / torch.sqrt(_mean_square(x) + 1e-6)) * WEIGHT,
    "gemma": lambda x: x * torch.rsqrt(_mean_square(x) + 1e-6) * (1.0 + (WEIGHT - 1)),
}
ELEMENTS = {
    "exact GELU": (GELU_EXACT, "gelu"), "tanh GELU": (GELU_TANH, "gelu"), "SiLU": (SILU, "silu"),
    "layer norm": (LAYER_NORM, "layer_norm"), "RMS norm": (RMS_NORM, "rms_norm"),
}  # fmt: skip


def test_activations_and_norms_are_recognised_in_every_spelling() -> None:
    rows = [(kind, name) for kind, (table, _) in ELEMENTS.items() for name in table]
    found = kernels([ELEMENTS[kind][0][name] for kind, name in rows], (2, T, WIDTH))
    wrong = [
        f"{kind}, {name}: {dict(ops)}"
        for (kind, name), ops in zip(rows, found, strict=True)
        if ops != Counter([ELEMENTS[kind][1]])
    ]
    assert not wrong, "\n".join(wrong)
