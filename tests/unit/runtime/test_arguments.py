"""Arguments that a compiled module refuses, each in words that name it, and those it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import glasshouse as gh
from glasshouse.errors import ExecutionError, GlasshouseError, LostGradient
from glasshouse.runtime.module import Module


class Two(nn.Module):
    def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.exp().sum(1), i * 2


X = torch.linspace(-1, 1, 12).reshape(4, 3)
I = torch.arange(3)  # noqa: E741  # it is called so in the model
INPUTS = "inputs are x: float32[4, 3], i: int64[3]"
WANTED = "x must be float32[4, 3], got "


class Broken:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ValueError("no numbers here")


class Thing:
    pass


def buffers(first: Any, *, x: Any = X, i: Any = I) -> Callable[[Module], Any]:
    second = i.clone() if isinstance(i, torch.Tensor) else i.copy()
    return lambda m: m.run_with_tensors([x, i], [first, second])


TRIES: dict[str, tuple[Callable[[Module], Any], str]] = {
    # how many, and by which name
    "nothing": (lambda m: m(), f"the module takes 2 inputs, 0 were given\n  {INPUTS}"),
    "one": (lambda m: m(X), f"the module takes 2 inputs, 1 was given, i missing\n  {INPUTS}"),
    "three": (lambda m: m(X, I, I), f"the module takes 2 inputs, 3 were given\n  {INPUTS}"),
    "a tuple of both": (
        lambda m: m((X, I)),
        (f"the module takes 2 inputs, 1 was given, i missing\n  {INPUTS}; what a list, tuple or "
        "dict holds is given as arguments of their own"),
    ),
    "wrong keyword": (
        lambda m: m(X, y=I),
        "got an unexpected keyword argument 'y'\n  call it as module(x, i)",
    ),
    "given twice": (
        lambda m: m(X, I, x=X), "multiple values for argument 'x'\n  call it as module(x, i)",
    ),
    "missing keyword": (
        lambda m: m(i=I), "the argument 'x' is missing\n  call it as module(x, i)",
    ),
    # what is no tensor
    "none": (lambda m: m(None, I), WANTED + "None"),
    "none behind": (lambda m: m(X, None), "i must be int64[3], got None"),
    "str": (lambda m: m("x", I), WANTED + "a str"),
    "bytes": (lambda m: m(b"x", I), WANTED + "a bytes"),
    "dict": (lambda m: m({"x": X}, I), WANTED + "a dict"),
    "set": (lambda m: m({1.0}, I), WANTED + "a set"),
    "function": (lambda m: m(len, I), WANTED + "a builtin_function_or_method"),
    "module": (lambda m: m(nn.ReLU(), I), WANTED + "a ReLU"),
    "object": (lambda m: m(Thing(), I), WANTED + "a Thing of object"),
    "generator": (lambda m: m((v for v in [1.0]), I), WANTED + "a generator of object"),
    "broken array": (
        lambda m: m(Broken(), I), WANTED + "a Broken that is no array (no numbers here)",
    ),
    "ragged list": (
        lambda m: m([[1, 2], [3]], I),
        WANTED + "a list that is no array (setting an array element with a sequence. The requested "
        "array has an inhomogeneo)",
    ),
    "list of str": (lambda m: m(["a"], I), WANTED + "a list of <U1"),
    "floats for ints": (
        lambda m: m(X, [1.5, 2, 3]),
        "i must be int64[3], got float64[3]\n  give its astype('int64')",
    ),
    "huge ints": (lambda m: m(X, [2**70] * 3), "i must be int64[3], got a list of object"),
    # element types
    "float64": (
        lambda m: m(X.double(), I), WANTED + "float64[4, 3]\n  give its to(torch.float32)",
    ),
    "float16": (lambda m: m(X.half(), I), WANTED + "float16[4, 3]\n  give its to(torch.float32)"),
    "bfloat16": (
        lambda m: m(X.bfloat16(), I), WANTED + "bfloat16[4, 3]\n  give its to(torch.float32)",
    ),
    "complex": (
        lambda m: m(X.cfloat(), I), WANTED + "complex64[4, 3]\n  give its to(torch.float32)",
    ),
    "ints": (lambda m: m(X.long(), I), WANTED + "int64[4, 3]\n  give its to(torch.float32)"),
    "floats": (
        lambda m: m(X, I.float()), "i must be int64[3], got float32[3]\n  give its to(torch.int64)",
    ),
    "int32": (
        lambda m: m(X, I.int()), "i must be int64[3], got int32[3]\n  give its to(torch.int64)",
    ),
    "bools": (
        lambda m: m(X, I.bool()), "i must be int64[3], got bool[3]\n  give its to(torch.int64)",
    ),
    "float64 array": (
        lambda m: m(np.zeros((4, 3)), I.numpy()),
        WANTED + "float64[4, 3]\n  give its astype('float32')",
    ),
    "complex array": (
        lambda m: m(np.zeros((4, 3), np.complex64), I.numpy()), WANTED + "complex64[4, 3]",
    ),
    "objects": (
        lambda m: m(np.array([[object()]]), I.numpy()), WANTED + "object[1, 1]",
    ),
    "strings": (lambda m: m(np.array([["a"]]), I.numpy()), WANTED + "<U1[1, 1]"),
    "dates": (
        lambda m: m(np.zeros(1, "M8[D]"), I.numpy()), WANTED + "datetime64[D][1]",
    ),
    "records": (
        lambda m: m(np.zeros(4, [("a", "f4")]), I.numpy()), WANTED + "[('a', '<f4')][4]",
    ),
    "masked array": (
        lambda m: m(np.ma.masked_array(X.numpy()), I.numpy()),
        WANTED + "a masked array, whose mask would be lost\n  fill it first",
    ),
    "other byte order": (
        lambda m: m(X.numpy().astype(">f4"), I.numpy()),
        WANTED + ">f4[4, 3]\n  give its astype('float32')",
    ),
    # shapes
    "shape": (lambda m: m(X[:3], I), WANTED + "shape [3, 3]"),
    "transposed": (lambda m: m(X.t(), I), WANTED + "shape [3, 4]"),
    "rank 1": (lambda m: m(X[0], I), WANTED + "shape [3]"),
    "rank 3": (lambda m: m(X[None], I), WANTED + "shape [1, 4, 3]"),
    "no axes": (lambda m: m(torch.tensor(1.0), I), WANTED + "shape []"),
    "a number": (lambda m: m(3, I), WANTED + "shape []"),
    "no rows": (lambda m: m(X[:0], I), WANTED + "shape [0, 3]"),
    # where and how it lies
    "sparse": (
        lambda m: m(X.to_sparse(), I),
        WANTED + "a sparse_coo float32[4, 3]\n  give its to_dense()",
    ),
    "sparse behind": (
        lambda m: m(X, I.to_sparse()),
        "i must be int64[3], got a sparse_coo int64[3]\n  give its to_dense()",
    ),
    "oneDNN": (
        lambda m: m(X.to_mkldnn(), I), WANTED + "a mkldnn float32[4, 3]\n  give its to_dense()",
    ),
    "meta": (
        lambda m: m(X.to("meta"), I), WANTED + "float32[4, 3] without data (on meta, or fake)",
    ),
    "fake": (
        lambda m: m(torch._subclasses.FakeTensorMode().from_tensor(X), I),
        WANTED + "float32[4, 3] without data (on meta, or fake)",
    ),
    "nested": (
        lambda m: m(torch.nested.nested_tensor([X], layout=torch.jagged), I),
        WANTED + "a nested tensor\n  pad it to one tensor",
    ),
    # buffers, and the other ways to run
    "no list of inputs": (
        lambda m: m.run_with_tensors(X, [X]), "inputs are a list or a dict by name, got a Tensor",
    ),
    "a dict without i": (
        lambda m: m.run_with_tensors({"x": X}, [X]),
        f"the module takes 2 inputs, 1 was given, i missing\n  {INPUTS}",
    ),
    "a dict with y": (
        lambda m: m.run_with_tensors({"x": X, "y": I}, [X]),
        f"there is no input 'y'\n  {INPUTS}",
    ),
    "one buffer": (
        lambda m: m.run_with_tensors([X, I], [X]),
        ("the module gives 2 outputs, buffers were given for 1\n  give a list of float32[4], "
        "int64[3]"),
    ),
    "no buffers": (
        lambda m: m.run_with_tensors([X, I], None),
        ("the module gives 2 outputs, buffers were given for NoneType\n  give a list of "
        "float32[4], int64[3]"),
    ),
    "none as buffer": (buffers(None), "output buffer 0 must be float32[4], got None"),
    "list as buffer": (buffers([0.0] * 4), "output buffer 0 must be float32[4], got a list"),
    "buffer of float64": (
        buffers(torch.zeros(4).double()),
        "output buffer 0 must be float32[4], got float64[4]\n  give its to(torch.float32)",
    ),
    "small buffer": (
        buffers(torch.zeros(3)), "output buffer 0 must be a contiguous float32[4], got float32[3]",
    ),
    "buffer with gaps": (
        buffers(torch.zeros(8)[::2]),
        "output buffer 0 must be a contiguous float32[4], got float32[4] that is not contiguous",
    ),
    "read-only buffer": (
        buffers(np.broadcast_to(np.float32(0), (4,)), x=X.numpy(), i=I.numpy()),
        "output buffer 0 must be float32[4], got a read-only array",
    ),
    "profile": (lambda m: m.profile(X, "i"), "i must be int64[3], got a str"),
    "recording": (lambda m: m.recording(X[0], I), WANTED + "shape [3]"),
    "watch": (lambda m: m.watch([X, I.float()], print),
              "i must be int64[3], got float32[3]\n  give its to(torch.int64)"),
    "count": (
        lambda m: m.benchmark_with_tensors([X, I], count="ten"),
        "count is how often to run, an int from 1 on, got 'ten'",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def module() -> Module:
    return gh.compile(Two(), X, I)


@pytest.mark.parametrize("case", TRIES)
def test_a_wrong_argument_is_named_with_what_is_wanted(module: Module, case: str) -> None:
    attempt, said = TRIES[case]
    with pytest.raises(GlasshouseError) as caught:
        attempt(module)
    assert str(caught.value) == said
    assert_right(module(X, I))  # and the module is none the worse


def assert_right(got: Any) -> None:
    wanted = Two()(X, I)
    for have, want in zip(got, wanted, strict=True):
        torch.testing.assert_close(torch.as_tensor(have), want)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m(X, i=I),
        lambda m: m(i=I, x=X),
        lambda m: m(X.t().contiguous().t(), I),
        lambda m: m(torch.cat([X, X], 1)[:, :3], I),
        lambda m: m(X.numpy()[::-1].copy()[::-1], I.numpy()),
        lambda m: m(X.numpy(), I),
        lambda m: m(X.tolist(), I.tolist()),
        lambda m: m(gh.array(X.numpy()), gh.array(I.numpy())),
        lambda m: m(torch.complex(X, -X).conj().imag, I),
        lambda m: m.run_with_tensors([X, I], [torch.empty(4), torch.empty(3, dtype=torch.int64)]),
        lambda m: m.run_with_tensors({"i": I, "x": X}, [torch.empty(4), torch.empty_like(I)]),
    ],
)
def test_what_means_the_same_gives_the_same(module: Module, call: Callable[[Module], Any]) -> None:
    assert_right(call(module))


def test_a_gradient_that_would_be_lost_is_told(module: Module) -> None:
    with pytest.warns(LostGradient, match="x requires a gradient, and the results"):
        assert_right(module(nn.Parameter(X), I))
    with torch.no_grad():  # nobody expects one here
        assert_right(module(nn.Parameter(X), I))


def test_symbols_are_told_with_the_sizes_that_they_have() -> None:
    def add(x: Any, y: Any) -> Any:
        return x + y[::2]

    n = gh.symbol("n", 1, 8)
    module = gh.compile(add, gh.spec((n, 3), "float32"), gh.spec((2 * n, 3), "float32"))
    x = np.ones((4, 3), np.float32)
    with pytest.raises(ExecutionError) as caught:
        module(x, x)
    assert str(caught.value) == "y must be float32[2*n, 3] (n = 4), got shape [4, 3]"
    with pytest.raises(ExecutionError) as caught:
        module(x[0], x)  # the only axis is not n
    assert str(caught.value) == "x must be float32[n, 3], got shape [3]"
