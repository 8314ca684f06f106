"""All of PyTorch's ops that can run here, compiled for the CPU: many samples of many in a program.

What PyTorch draws at random is compared in shapes and element types, and so is memory that nobody
wrote; everything else in values. An op whose state is ok leaves nothing to PyTorch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from glasshouse.frontend.dynamo.execute import Runner
from glasshouse.frontend.torch import capture, opaque_ops
from opinfo.samples import samples_of
from opinfo.suite import Applied, is_random, leaves_of, same
from opinfo.table import load

TABLE = load()
GROUPS = 60
"""Programs that ops are put into, by their names: what takes the time is a C++ compiler's start."""

QUICK = 10
"""The group that `make test` runs."""

UNDEFINED = "what it gives is memory that nobody wrote"
CANNOT_RUN = {
    "PyTorch has it for GPUs alone": 5,
}
"""Why an op is not compiled, and how many there are."""


@dataclass
class Sample:
    """One sample of an op, and what is left of it to compare."""

    op: str
    applied: Applied
    values: bool

    @property
    def alone(self) -> bool:
        """Whether it cannot share a graph: it is captured by running once, or takes no tensor."""
        return self.op in TABLE.more["captured by running once"] or not self.applied.tensors


class Together(torch.nn.Module):
    """Several samples, each on its own inputs."""

    def __init__(self, samples: list[Sample]) -> None:
        super().__init__()
        self.ops = torch.nn.ModuleList(s.applied for s in samples)

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        return [op(*[next(given) for _ in op.tensors]) for op in self.ops]


def compiled_ops() -> list[str]:
    return [n for n, (_, reason) in TABLE.states.items() if reason not in CANNOT_RUN]


def _samples(group: int) -> Iterator[Sample]:
    for name in compiled_ops():
        if zlib.crc32(name.encode()) % GROUPS != group:
            continue
        defined = TABLE.states[name][1] != UNDEFINED
        for sample in samples_of(name):
            applied = Applied(name, sample)
            yield Sample(name, applied, defined and not is_random(applied))


def _compare(samples: list[Sample]) -> list[str]:
    """How results of one compiled program differ from PyTorch's, by op."""
    captured = capture(Together(samples), _copies(samples))
    left = opaque_ops(captured.graph) if _spelled(samples) else []
    differing = [f"{samples[0].op} and others: left to PyTorch: {left}"] if left else []
    found = iter(Runner(captured, "compiled")(leaves_of(_copies(samples))))
    for sample in samples:
        with torch.no_grad():
            wanted = sample.applied.wanted_of(*_copies([sample]))
        leaves = leaves_of(wanted)
        try:
            same([next(found) for _ in leaves], leaves, "results", sample.values)
        except AssertionError as error:
            differing.append(f"{sample.op}: {' '.join(str(error).split())[:300]}")
    return differing


def _copies(samples: list[Sample]) -> list[torch.Tensor]:
    return [s.applied.copy(t) for s in samples for t in s.applied.tensors]


def _spelled(samples: list[Sample]) -> bool:
    """Whether all of it is in core ops."""
    return all(TABLE.states[s.op][0] == "ok" for s in samples)


@pytest.mark.filterwarnings("ignore")  # PyTorch deprecates, and says how it captures
@pytest.mark.parametrize(
    "group", [pytest.param(g, marks=[] if g == QUICK else pytest.mark.slow) for g in range(GROUPS)]
)
def test_compiled_ops_equal_pytorch(group: int) -> None:
    samples = list(_samples(group))
    assert samples
    together = [s for s in samples if not s.alone]
    programs = [
        [s for s in together if _spelled([s])],
        [s for s in together if not _spelled([s])],
        *[[s] for s in samples if s.alone],
    ]
    assert not [line for program in programs if program for line in _compare(program)]


def test_every_op_is_compiled_or_cannot_run_here() -> None:
    reasons = [reason for _, reason in TABLE.states.values() if reason in CANNOT_RUN]
    assert {r: reasons.count(r) for r in CANNOT_RUN} == CANNOT_RUN
    assert len(compiled_ops()) == len(TABLE.states) - sum(CANNOT_RUN.values()) == 697
    groups = {zlib.crc32(n.encode()) % GROUPS for n in compiled_ops()}
    assert groups == set(range(GROUPS))
