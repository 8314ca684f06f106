"""An executor of lazy tensors for tests: graphs that were run once count as compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np

from glasshouse.ir.graph import Graph
from glasshouse.tensor.execute import BoundRun, KeyedExecutor, reference
from glasshouse.tensor.structure import StructureKey

Array = np.ndarray[Any, Any]


class Keeps(KeyedExecutor):
    """Has every graph "compiled" from its second run on; `whole` counts runs without a graph,
    `bound_runs` those of steps that are bound to their memory."""

    def __init__(self) -> None:
        self.graphs: dict[StructureKey, Graph] = {}
        self.whole = 0
        self.bound_runs = 0

    def __call__(self, graph: Graph, inputs: Sequence[Array], report: Any = None) -> Any:
        return reference(graph, inputs, report)

    def run_keyed(
        self, key: StructureKey, inputs: Sequence[Array], make: Callable[[], Graph]
    ) -> Sequence[Array]:
        return reference(self.graphs.setdefault(key, make()), inputs)

    def run_compiled(
        self, key: StructureKey, inputs: Sequence[Array], outputs: Sequence[Array] | None = None
    ) -> Sequence[Array] | None:
        if key not in self.graphs:
            return None
        self.whole += 1
        made = [np.array(a) for a in reference(self.graphs[key], inputs)]
        if outputs is None:
            return made
        for place, array in zip(outputs, made, strict=True):
            place[...] = array
        return outputs

    def bound(
        self, key: StructureKey, inputs: Sequence[Array | None], outputs: Sequence[Array | None]
    ) -> BoundRun | None:
        if key not in self.graphs:
            return None

        # Whoever holds an array more is somebody who may read it: a bound run holds none.
        read, written = ([None if a is None else ref(a) for a in s] for s in (inputs, outputs))

        def again(given: Sequence[Array]) -> Sequence[Array] | None:
            brought = iter(given)
            made = self.run_compiled(key, [next(brought) if x is None else _at(x) for x in read])
            assert made is not None
            self.bound_runs += 1
            for place, array in zip(written, made, strict=True):
                if place is not None:
                    _at(place)[...] = array
            return [a for y, a in zip(written, made, strict=True) if y is None]

        return again

    def overwrites(self, key: StructureKey) -> Mapping[int, int]:
        return self.graphs[key].written if key in self.graphs else {}


def _at(place: ref[Array]) -> Array:
    found = place()
    assert found is not None, "bound to an array that nobody holds"
    return found
