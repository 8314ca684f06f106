"""The methods of tensors and the functions of the package, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import glasshouse as gh

X = np.random.default_rng(0).standard_normal((2, 3, 4), np.float32)

CASES = {
    "sum": lambda x: x.sum(),
    "sum dim": lambda x: x.sum(1),
    "mean keepdim": lambda x: x.mean((0, 2), keepdim=True),
    "var": lambda x: x.var(-1),
    "std biased": lambda x: x.std(1, correction=0),
    "prod": lambda x: x.prod(2),
    "argmax": lambda x: x.argmax(1),
    "argmax all": lambda x: x.argmax(),
    "cumsum": lambda x: x.cumsum(1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(1),
    "reshape": lambda x: x.reshape(4, -1),
    "reshape list": lambda x: x.reshape([3, 8]),
    "view": lambda x: x.view(24),
    "permute": lambda x: x.permute(2, 0, 1),
    "transpose": lambda x: x.transpose(0, 2),
    "mT": lambda x: x.mT,
    "flatten": lambda x: x.flatten(1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "expand": lambda x: x[:, :1].expand(2, 5, -1),
    "repeat": lambda x: x.repeat(2, 1, 3),
    "flip": lambda x: x.flip(0, 2),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(1),
    "index": lambda x: x[:, 1, ::2],
    "index negative": lambda x: x[-1, ..., -2:],
    "index none": lambda x: x[:, None, 0],
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "abs": lambda x: x.abs(),
    "pow": lambda x: x.abs().pow(1.5),
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "neg": lambda x: -x,
    "rsub": lambda x: 1 - x,
    "rdiv": lambda x: 1 / (x.abs() + 1),
    "rpow": lambda x: 2.0**x,
    "mod": lambda x: x % 0.5,
    "matmul": lambda x: x @ x.transpose(1, 2),
    "compare": lambda x: (x > 0) & (x < 1),
    "chunk": lambda x: x.chunk(2, -1)[1],
    "split": lambda x: x.split([1, 3], -1)[1],
    "split size": lambda x: x.split(2, 1)[1],
    "unbind": lambda x: x.unbind(1)[2],
    "float": lambda x: (x > 0).float(),
    "long": lambda x: (x * 3).long(),
}


@pytest.mark.parametrize("name", CASES)
def test_methods(name: str) -> None:
    ours = CASES[name](gh.from_numpy(X)).numpy()
    theirs = CASES[name](torch.tensor(X)).numpy()
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=2e-6, atol=1e-6)


def test_numpy_spellings_of_axes() -> None:
    x = gh.from_numpy(X)
    np.testing.assert_allclose(x.sum(axis=1, keepdims=True).numpy(), X.sum(1, keepdims=True), 1e-6)
    np.testing.assert_allclose(x.max(axis=(0, 1)).numpy(), X.max((0, 1)))
    assert x.softmax(axis=0).shape == x.shape


def test_broadcast_with_new_axes() -> None:
    x = gh.array([[1.0, 2.0], [3.0, 4.0]])
    out = x.broadcast([2, 2, 3], dims=[2])
    assert out.numpy()[:, :, 2].tolist() == [[1, 2], [3, 4]]
    out = x.broadcast([3, 2, 2], dims=[0])
    assert out.numpy()[2].tolist() == [[1, 2], [3, 4]]


def test_rearrange_merges_axes() -> None:
    out = gh.from_numpy(X).rearrange([[1], [0, 2]])
    np.testing.assert_array_equal(out.numpy(), X.transpose(1, 0, 2).reshape(3, 8))


def test_functions() -> None:
    a, b = gh.array([1.0, 5.0]), gh.array([2.0, 3.0])
    assert gh.maximum(a, 2.5).tolist() == [2.5, 5.0]
    assert gh.minimum(3.0, a).tolist() == [1.0, 3.0]
    assert gh.where(a > b, a, 0.0).tolist() == [0.0, 5.0]
    assert gh.concat([a, b]).tolist() == [1, 5, 2, 3]
    assert gh.stack([a, b], axis=1).tolist() == [[1, 2], [5, 3]]
    np.testing.assert_allclose(gh.einsum("i,i->", a, b).numpy(), 17)
    np.testing.assert_allclose(gh.softmax(a).numpy().sum(), 1, rtol=1e-6)


def test_topk_and_sort_give_values_and_places() -> None:
    values, places = gh.array([3.0, 1.0, 2.0]).topk(2)
    assert (values.tolist(), places.tolist()) == ([3, 2], [0, 2])
    values, places = gh.array([3.0, 1.0, 2.0]).sort()
    assert (values.tolist(), places.tolist()) == ([1, 2, 3], [1, 2, 0])
