"""Recognised patterns on hostile values, as PyTorch's eager code computes them.

Half types are compared with float32 that is rounded at the end, which is what kernels do, and with
eager code, which rounds after each op and overflows in between: what kernels write is one or other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import glasshouse as gh
from glasshouse.numpy_ref import run
from glasshouse.passes import optimize
from glasshouse.runtime.compiler import compile_graph
from hostile.known import PATTERNS as KNOWN
from hostile.known import Known, stale
from hostile.ops import RTOL
from hostile.patterns import PATTERNS, WIDTH, All, eager, nearest
from hostile.values import FILLS, filled

FAST = (
    "softmax", "softmax of a sum", "log_softmax", "logsumexp", "attention, causal", "rms_norm",
    "gelu of a sum", "silu", "hardswish", "erfc", "hypot", "median", "normalize", "max_pool",
)  # fmt: skip


def _array(t: torch.Tensor) -> np.ndarray:
    return (t.float() if t.dtype is torch.bfloat16 else t).detach().numpy()


def _differences(
    ways: dict[str, Any], names: list[str], dtype: str, rows: int
) -> list[tuple[str, str, str, str]]:
    """(pattern, fill, way, what differs), also for an operand that does not lie together."""
    kind = getattr(torch, dtype)
    w = torch.linspace(-1.4, 1.3, WIDTH).to(kind)
    found: list[tuple[str, str, str, str]] = []
    for fill in FILLS:
        x = torch.from_numpy(np.array(filled(fill, (rows, WIDTH), dtype))).to(kind)
        apart = x.T.contiguous().T
        wanted = [[_array(t) for t in eager(name, x, w)] for name in names]
        sizes = x[x.isfinite()].abs().double()
        scale = float(sizes.max()) if sizes.numel() else 0.0
        for way, call in ways.items():
            for given in (x,) if way == "reference" else (x, apart):
                with np.errstate(all="ignore"):
                    results = call(given, w)
                for name, ours, theirs in zip(names, results, wanted, strict=True):
                    said = nearest(np.asarray(ours), theirs, dtype, scale)
                    if said:
                        found.append((name, fill, way, said))
    return found


def _check(names: list[str], dtype: str, rows: int, all_ways: bool) -> None:
    kind = getattr(torch, dtype)
    graph = gh.trace(
        All(names), torch.zeros(rows, WIDTH, dtype=kind), torch.ones(WIDTH, dtype=kind)
    )

    def compiled(module: Any) -> Any:
        return lambda x, w: [_array(o) for o in module(x, w)]

    ways: dict[str, Any] = {"fused": compiled(compile_graph(optimize(graph)))}
    if all_ways:
        ways["unfused"] = compiled(compile_graph(graph))
        ways["reference"] = lambda x, w: run(graph, [_array(x), _array(w)])
    found = _differences(ways, names, dtype, rows)
    needed: set[Known] = set()
    wrong: list[str] = []
    for name, fill, way, said in found:
        known = [row for row in KNOWN if row.covers(name, fill, dtype, way)]
        needed.update(known)
        if not known:
            wrong.append(f"{name} of {fill}, {way}: {said}")
    assert not wrong, f"{len(wrong)} differ from PyTorch\n" + "\n".join(wrong[:60])
    if all_ways and rows > 1:
        unneeded = stale(KNOWN, needed, set(names), dtype, False)
        assert not unneeded, f"no case needs these rows of hostile/known.py any more: {unneeded}"


@pytest.mark.filterwarnings("ignore")  # NumPy and PyTorch warn of what is tested
def test_some() -> None:
    _check(list(FAST), "float32", 3, False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", [5, 1])
@pytest.mark.parametrize("dtype", list(RTOL))
def test_all(dtype: str, rows: int) -> None:
    # One row has no variance over rows: PyTorch refuses it.
    _check([n for n in PATTERNS if rows > 1 or "training" not in n], dtype, rows, True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_empty() -> None:
    """Without rows there are results without elements, not errors."""
    whole = ("one element", "argmax", "argmin", "softmax over columns", "transposed", "topk")
    names = [n for n in PATTERNS if n not in whole and "training" not in n and "median" not in n]
    x, w = torch.zeros(0, WIDTH), torch.ones(WIDTH)
    usable: list[str] = []
    for name in names:
        try:
            PATTERNS[name](x, w)
        except (RuntimeError, IndexError, ValueError):
            continue
        usable.append(name)
    module = gh.compile(All(usable), x, w)
    for name, ours in zip(usable, module(x, w), strict=True):
        theirs = PATTERNS[name](x, w)
        assert ours.shape == theirs.shape, name
