"""Activations, measures, products and losses, compared with torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from glasshouse.errors import GlasshouseError
from glasshouse.ir import GraphBuilder
from glasshouse.ops import composite as c
from ops.compare import compare
from ops.samples.sample import away, values

_X = away(values(3, 4) * 3, -6, -1, -0.5, 0, 0.5, 1, 6)
_UNARY: dict[str, tuple[Any, Any]] = {
    "square": (c.square, torch.square), "reciprocal": (c.reciprocal, torch.reciprocal),
    "exp2": (c.exp2, torch.exp2), "relu6": (c.relu6, F.relu6), "hardtanh": (c.hardtanh, F.hardtanh),
    "mish": (c.mish, F.mish), "selu": (c.selu, F.selu), "celu": (c.celu, F.celu),
    "celu with alpha": (lambda x: c.celu(x, 2.0), lambda x: F.celu(x, 2.0)),
    "softsign": (c.softsign, F.softsign), "tanhshrink": (c.tanhshrink, F.tanhshrink),
    "hardshrink": (c.hardshrink, F.hardshrink), "softshrink": (c.softshrink, F.softshrink),
    "log_sigmoid": (c.log_sigmoid, F.logsigmoid), "glu": (c.glu, F.glu),
    "softmin": (lambda x: c.softmin(x, 0), lambda x: F.softmin(x, 0)),
    "threshold": (lambda x: c.threshold(x, 0.1, 20.0), lambda x: F.threshold(x, 0.1, 20.0)),
    "log2": (lambda x: c.log2(abs(x)), lambda x: torch.log2(x.abs())),
    "log10": (lambda x: c.log10(abs(x)), lambda x: torch.log10(x.abs())),
    "logsumexp": (lambda x: c.logsumexp(x, -1), lambda x: x.logsumexp(-1)),
    "logsumexp of all": (
        lambda x: c.logsumexp(x, (0, 1), True), lambda x: x.logsumexp((0, 1), True)
    ),
    "std": (lambda x: c.std(x, 1), lambda x: x.std(1)),
    "norm": (c.norm, torch.linalg.vector_norm),
    **{
        f"norm {p}": (
            lambda x, p=p: c.norm(x, p, 1), lambda x, p=p: torch.linalg.vector_norm(x, p, 1)
        )
        for p in (0.5, 1, 3, float("inf"), float("-inf"))
    },
    "normalize": (c.normalize, F.normalize),
}  # fmt: skip


@pytest.mark.parametrize("name", _UNARY)
def test_of_one_tensor(name: str) -> None:
    compare(*_UNARY[name], _X)


def test_of_several_tensors() -> None:
    y = values(3, 4, seed=1)
    compare(c.logaddexp, torch.logaddexp, _X, y)
    compare(c.lerp, torch.lerp, _X, y, values(3, 4, seed=2))
    compare(c.cosine_similarity, F.cosine_similarity, _X, y)
    compare(c.prelu, F.prelu, away(values(2, 3, 4), 0), values(3, seed=1))
    compare(c.prelu, F.prelu, _X, values(1, seed=1))
    params = (values(3, seed=1), values(3, seed=2))
    compare(
        c.instance_norm, lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
        values(2, 3, 4, 5), *params,
    )  # fmt: skip


def test_norm_of_zeros_has_a_zero_gradient() -> None:
    compare(
        lambda x: c.norm(x, 2, 1), lambda x: torch.linalg.vector_norm(x, 2, 1), np.zeros((2, 3))
    )


def test_logsumexp_of_infinities() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 1.0], [-np.inf, 2.0]])
    compare(lambda x: c.logsumexp(x, 1), lambda x: x.logsumexp(1), x, grad=False)


# ---------------------------------------------------------------------------------------- products
def test_linear() -> None:
    compare(c.linear, F.linear, values(2, 3, 4), values(5, 4, seed=1), values(5, seed=2))
    compare(c.linear, F.linear, values(4), values(5, 4, seed=1))
    compare(
        lambda a, b, d: c.addmm(a, b, d, 0.5, 2.0),
        lambda a, b, d: torch.addmm(a, b, d, beta=0.5, alpha=2.0),
        values(3), values(2, 4, seed=1), values(4, 3, seed=2),
    )  # fmt: skip
    compare(c.outer, torch.outer, values(3), values(4, seed=1))
    compare(c.dot, torch.dot, values(3), values(3, seed=1))


def test_conv_with_bias() -> None:
    w, b = values(5, 3, 3, 3, seed=1), values(5, seed=2)
    how: dict[str, Any] = {"stride": 2, "padding": 1}
    compare(
        lambda *a: c.conv2d(*a, **how), lambda *a: F.conv2d(*a, **how), values(2, 3, 7, 8), w, b
    )
    same: dict[str, Any] = {"padding": "same", "dilation": 2}
    line = (values(2, 3, 8), values(5, 3, 4, seed=1), values(5, seed=2))
    compare(lambda *a: c.conv1d(*a, **same), lambda *a: F.conv1d(*a, **same), *line)
    compare(c.conv1d, F.conv1d, values(3, 8), *line[1:])
    compare(
        lambda *a: c.conv_transpose2d(*a, **how), lambda *a: F.conv_transpose2d(*a, **how),
        values(2, 3, 4, 5), values(3, 2, 3, 3, seed=1), values(2, seed=2),
    )  # fmt: skip
    builder = GraphBuilder()
    x, w = builder.input("float32", (1, 3, 8)), builder.input("float32", (4, 3, 3))
    with pytest.raises(GlasshouseError, match="spatial axes"):
        c.conv2d(x, w)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("bhij,bhjd->bhid", [(2, 3, 4, 5), (2, 3, 5, 6)]),
        ("bqhd,bkhd->bhqk", [(2, 3, 2, 4), (2, 5, 2, 4)]),
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]),
        ("ji,jk->ki", [(2, 3), (2, 4)]), ("i,j->ij", [(2,), (3,)]), ("i,i->", [(3,), (3,)]),
        ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
        ("iij->j", [(3, 3, 2)]), ("ijk,j->ik", [(2, 3, 4), (3,)]),
        ("bij,bj->bi", [(2, 3, 4), (2, 4)]), ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...i,i", [(2, 3), (3,)]), ("abc,cd,de->abe", [(2, 3, 4), (4, 2), (2, 3)]),
        ("ij,ij->ij", [(2, 3), (2, 3)]), ("abcd,cdef->abef", [(2, 2, 3, 2), (3, 2, 2, 2)]),
        ("ij,kl->ijkl", [(2, 2), (3, 2)]), ("b i j, b j k -> b i k", [(2, 3, 4), (2, 4, 5)]),
    ],
)  # fmt: skip
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [values(*s, seed=i) for i, s in enumerate(shapes)]
    compare(lambda *xs: c.einsum(equation, *xs), lambda *xs: torch.einsum(equation, *xs), *operands)


def test_einsum_of_attention_is_one_matmul() -> None:
    graph = compare(
        lambda q, k: c.einsum("bhid,bhjd->bhij", q, k),
        lambda q, k: torch.einsum("bhid,bhjd->bhij", q, k),
        values(2, 3, 4, 5), values(2, 3, 6, 5),
    )  # fmt: skip
    assert [n.op.name for n in graph.nodes] == ["input", "input", "matmul"]


@pytest.mark.parametrize(
    ("equation", "said"),
    [("ij,jk->ik", "names 2"), ("ijk", "does not fit"), ("ij->ik", "no operand"),
     ("ij->ii", "repeats")],
)  # fmt: skip
def test_einsum_errors(equation: str, said: str) -> None:
    builder = GraphBuilder()
    with pytest.raises(GlasshouseError, match=said):
        c.einsum(equation, builder.input("float32", (2, 3)))


# ------------------------------------------------------------------------------------------ losses
_LOGITS, _CLASSES = values(4, 5), np.array([1, 3, -100, 0])
_SHARES = np.abs(values(4, 5, seed=3))
_SHARES /= _SHARES.sum(1, keepdims=True)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy(reduction: str, smoothing: float) -> None:
    how: dict[str, Any] = {"label_smoothing": smoothing, "reduction": reduction}

    weight = np.abs(values(5, seed=1))

    def ours(x: Any, target: Any) -> Any:
        return c.cross_entropy(x, target, **how)

    def theirs(x: Any, target: Any) -> Any:
        return F.cross_entropy(x, target, **how)

    def ours_weighted(x: Any, target: Any) -> Any:
        return c.cross_entropy(x, target, x.builder.wrap(x.builder.constant(weight)), **how)

    def theirs_weighted(x: Any, target: Any) -> Any:
        return F.cross_entropy(x, target, torch.from_numpy(weight), **how)

    images = (values(2, 5, 3), np.array([[0, 4, 1], [2, 2, 3]]))
    for operands in ((_LOGITS, _CLASSES), (_LOGITS, _SHARES), images):
        compare(ours, theirs, *operands)
        compare(ours_weighted, theirs_weighted, *operands)
    compare(ours, theirs, values(5), np.array(2))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_distances(name: str, reduction: str) -> None:
    compare(
        lambda x, t: getattr(c, name)(x, t, reduction=reduction),
        lambda x, t: getattr(F, name)(x, t, reduction=reduction),
        values(3, 4), values(3, 4, seed=1) * 2,
    )  # fmt: skip


def test_binary_losses() -> None:
    target = np.array([[1.0, 0.0], [1.0, 1.0]])
    compare(c.bce_loss, F.binary_cross_entropy, values(2, 2, low=0.1, high=0.9), target, grad=False)
    logits = values(2, 2) * 30
    compare(c.bce_with_logits_loss, F.binary_cross_entropy_with_logits, logits, target)


def test_kl_div() -> None:
    target = np.abs(values(3, 4)) * (values(3, 4, seed=1) > 0)
    for reduction in ("batchmean", "sum"):
        compare(
            lambda x, t, r=reduction: c.kl_div(x, t, reduction=r),
            lambda x, t, r=reduction: F.kl_div(x, t, reduction=r),
            values(3, 4, seed=2), target, grad=False,
        )  # fmt: skip


# ------------------------------------------------------------------------------- pools and resizes
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("factor", [2, 1.5, 0.7, (2, 3)])
def test_interpolate(mode: str, factor: Any) -> None:
    compare(
        lambda x: c.interpolate(x, scale_factor=factor, mode=mode),
        lambda x: F.interpolate(x, scale_factor=factor, mode=mode),
        values(1, 2, 5, 7),
    )


def test_pools() -> None:
    x = values(2, 3, 6, 7)
    compare(
        lambda x: c.max_pool(x, 2, ceil_mode=True), lambda x: F.max_pool2d(x, 2, ceil_mode=True), x
    )
    compare(lambda x: c.max_pool(x, 2), lambda x: F.max_pool2d(x, 2), x[0])
    compare(
        lambda x: c.avg_pool(x, 2, padding=1, divisor=3),
        lambda x: F.avg_pool2d(x, 2, padding=1, divisor_override=3), x,
    )  # fmt: skip
    for ours, theirs in (
        (c.adaptive_avg_pool, F.adaptive_avg_pool2d), (c.adaptive_max_pool, F.adaptive_max_pool2d),
    ):  # fmt: skip
        for size in (1, (None, 4), (3, 2)):
            compare(lambda x, f=ours, s=size: f(x, s), lambda x, f=theirs, s=size: f(x, s), x)


def test_einsum_of_three_begins_with_the_cheap_pair() -> None:
    builder = GraphBuilder()
    a, b = builder.input("float32", [4, 5, 8]), builder.input("float32", [4, 6, 8])
    graph = builder.finish(c.einsum("npi,nqj,ijk->npqk", a, b, builder.input("float32", [8, 8, 3])))
    assert max(node.outputs[0].type.numel for node in graph.nodes) <= 4 * 5 * 8 * 8  # of 4*5*6*8*8
    assert [node.op.name for node in graph.nodes].count("matmul") == 2
