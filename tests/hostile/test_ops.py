"""Every op of the registry on hostile values: reference, compiled op by op, and fused, against
PyTorch; and their gradients."""

from __future__ import annotations

import pytest

from hostile.known import FLOATS, OPS, Known, stale
from hostile.ops import FAMILIES, Program

FAST = ("activation", "softmax")


def _check(family: str, dtype: str, per_op: int, gradients: bool) -> None:
    program = Program(family, dtype, per_op, gradients)
    needed: set[Known] = set()
    wrong: list[str] = []
    for op, fill, way, said in program.differences():
        rows = [row for row in OPS if row.covers(op, fill, dtype, way, gradients)]
        needed.update(rows)
        if not rows:
            wrong.append(f"{op} of {fill}, {way}: {said}")
    assert not wrong, f"{len(wrong)} differ from PyTorch\n" + "\n".join(wrong[:40])
    if per_op > 1:
        unneeded = stale(OPS, needed, {case.op for case in program.cases}, dtype, gradients)
        assert not unneeded, f"no case needs these rows of hostile/known.py any more: {unneeded}"


@pytest.mark.filterwarnings("ignore")  # NumPy and PyTorch warn of what is tested
@pytest.mark.parametrize("family", FAST)
def test_some(family: str) -> None:
    _check(family, "float32", 1, False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_forward(family: str, dtype: str) -> None:
    _check(family, dtype, 4, False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients(family: str, dtype: str) -> None:
    _check(family, dtype, 2, True)
