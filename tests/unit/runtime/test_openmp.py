"""PyTorch's OpenMP threads spin where our kernels want to run: they rest while a program runs."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import glasshouse as gh
from glasshouse.runtime import openmp

HANGS = 60  # seconds after which the system ends a child
pytestmark = pytest.mark.skipif(openmp.pause() is None, reason="no OpenMP of GNU's in PyTorch")


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def _threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def _spinning() -> set[str]:
    """The threads that an op of PyTorch leaves behind."""
    openmp.rest()
    before = _threads()
    torch.randn(512, 512).exp().sum()
    return _threads() - before


def _module(width: int) -> gh.Module:
    layer = torch.nn.Linear(width, width).eval().requires_grad_(False)
    return gh.compile(layer, torch.zeros(256, width), threads=2)


def test_threads_of_pytorch_rest_while_a_program_runs() -> None:
    module, x = _module(512), torch.randn(256, 512)
    module(x)
    assert _spinning()
    spinning = _spinning()
    module(x)
    assert not spinning & _threads()
    assert _spinning(), "PyTorch starts others when it needs them"


def test_a_small_program_leaves_them_alone() -> None:
    module, x = _module(16), torch.randn(256, 16)
    module(x)
    spinning = _spinning()
    module(x)
    assert spinning <= _threads()


def _ends_well(child: int) -> None:
    assert os.waitpid(child, 0)[1] == 0, "it hangs, or gives other numbers"


def test_pytorch_computes_in_a_forked_child() -> None:
    """Its threads are not there, and it would wait for them: in a module's opaque ops, too."""
    x = torch.randn(40, 30, 30)
    module = gh.compile(torch.linalg.svdvals, x, threads=2)
    wanted, exp = module(x), torch.randn(512, 512).exp
    assert _spinning()
    child = os.fork()
    if child == 0:
        signal.alarm(HANGS)
        exp()
        assert _spinning(), "new ones of its own"
        grandchild = os.fork()
        if grandchild == 0:
            signal.alarm(HANGS)
        exp()
        if grandchild:
            _ends_well(grandchild)
        os._exit(0 if torch.allclose(module(x), wanted) else 1)
    _ends_well(child)


def test_a_forked_child_asks_no_threads_that_are_not_there() -> None:
    """Nobody would answer: it would wait for ever. A server written in C ends none before."""
    module, x = _module(512), torch.randn(256, 512)
    wanted = module(x)
    assert _spinning()
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        signal.alarm(HANGS)
        torch.set_num_threads(1)
        os._exit(0 if torch.allclose(module(x), wanted) else 1)
    _ends_well(child)


def test_without_pytorch_there_is_nothing_to_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch")
    assert openmp._pause() is None
    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"__file__": str(Path("/none/x"))}))
    assert openmp._pause() is None
