"""Hidet's `FlowGraph`: a graph that knows its device, is run by calling it, and tells its time."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import glasshouse as gh
from glasshouse.compat.hidet.device import device_name, placed
from glasshouse.ir.graph import Graph


class FlowGraph(Graph):
    """A graph, and where it runs: "cpu" or "cuda"."""

    device = "cpu"

    @classmethod
    def of(cls, graph: Graph, device: object) -> FlowGraph:
        """A graph that nobody else holds, with a device."""
        made = cls(graph.name)
        vars(made).update(vars(graph))
        made.device = device_name(device)
        return made

    @cached_property
    def module(self) -> gh.Module:
        """The graph compiled for its device; an error where there is no such."""
        return gh.compile(self, target=self.device, progress=False)

    def __call__(self, *inputs: Any) -> Any:
        """Run it. Hidet's tensors lie on the host here: to a GPU they are copied, and results back.
        PyTorch's tensors of the GPU are read where they are."""
        made = self.module(*inputs)
        results = made if isinstance(made, tuple) else (made,)
        if any(isinstance(x, gh.Tensor) for x in inputs):
            results = tuple(placed(gh.array(r), self.device) for r in results)
        return results[0] if len(results) == 1 else results

    def latency(self, warmup: int = 1, number: int = 20, repeat: int = 5) -> float:
        """Milliseconds of a run on random inputs, the median of `repeat` means of `number` runs.
        Where PyTorch uses the GPU, inputs and results lie there."""
        inputs: Sequence[Any] = [_made_up(v.type.shape, v.type.dtype.name) for v in self.inputs]
        outputs: Sequence[Any] | None = None
        torch: Any = sys.modules.get("torch")
        if self.device == "cuda" and torch is not None and torch.cuda.is_available():
            inputs = [torch.from_numpy(x.numpy().copy()).cuda() for x in inputs]
            made = self.module(*inputs)
            outputs = made if isinstance(made, tuple) else (made,)
        for _ in range(warmup):
            self.module.benchmark_with_tensors(inputs, outputs, 1)
        times: list[float] = [
            self.module.benchmark_with_tensors(inputs, outputs, number)[0] for _ in range(repeat)
        ]
        return sorted(times)[len(times) // 2]


def _made_up(shape: Sequence[Any], dtype: str) -> gh.Tensor:
    sizes = [int(d) for d in shape]
    whole = "int" in dtype or dtype == "bool"
    return gh.full(tuple(sizes), 1, dtype) if whole else gh.randn(tuple(sizes), dtype=dtype)
