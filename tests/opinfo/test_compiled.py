"""A share of PyTorch's OpInfo samples, many ops in one model, compiled for the CPU."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from glasshouse.frontend.torch import capture, opaque_ops
from glasshouse.frontend.torch.execute import Runner
from opinfo.samples import op_infos, samples_of
from opinfo.suite import Applied, is_random, same
from opinfo.table import load

GROUPS = 12
"""Models that the share is put into: one C++ program each, which is what takes the time."""


class Together(torch.nn.Module):
    """Several ops, each on its own inputs."""

    def __init__(self, ops: list[Applied]) -> None:
        super().__init__()
        self.ops = torch.nn.ModuleList(ops)

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        return [op(*[next(given) for _ in op.tensors]) for op in self.ops]


def _share(group: int) -> list[str]:
    """A fifth of the ops that are ok: those of one group."""
    table = load()
    loose = table.more["captured by running once"]
    names = [n for n, (state, _) in table.states.items() if state == "ok" and n not in loose]
    return [n for n in names if zlib.crc32(n.encode()) % (5 * GROUPS) == group]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "group", [0, *[pytest.param(g, marks=pytest.mark.slow) for g in range(1, GROUPS)]]
)
def test_compiled_ops_equal_pytorch(group: int) -> None:
    ops = []
    for name in _share(group):
        applied = (Applied(op_infos()[name], sample) for sample in samples_of(name))
        first = next((a for a in applied if a.tensors and not is_random(a)), None)
        ops += [first] if first is not None else []
    assert ops
    model = Together(ops)
    tensors = [t for op in ops for t in op.tensors]
    captured = capture(model, tensors)
    assert not opaque_ops(captured.graph)
    with torch.no_grad():
        wanted = model(*[t.clone() for t in tensors])
    found = Runner(captured, "compiled")([t.clone() for t in tensors])
    same(found, pytree.tree_leaves(wanted), "results")
