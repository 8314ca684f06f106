"""Generated code grows with the graph, also where slices and concats multiply what is read."""

from __future__ import annotations

import numpy as np
import pytest

from glasshouse.ir import GraphBuilder
from glasshouse.numpy_ref import run
from glasshouse.runtime.compiler import compile_optimized


@pytest.mark.parametrize("rounds", [3, 12])
def test_values_that_are_read_at_many_places_are_computed_once(rounds: int) -> None:
    """Each round reads the one before at two places: 4,096 of them after twelve."""
    builder = GraphBuilder()
    given = builder.input("float32", (6, 40))
    x = given
    for _ in range(rounds):
        halves = [
            x.apply("slice", starts=(0, begin), ends=(6, end)) for begin, end in ((15, 40), (0, 15))
        ]
        turned = halves[0].apply("concat", halves[1], axis=1)
        x = x + turned * 0.5
    graph = builder.finish(x.apply("softmax"))
    module = compile_optimized(graph)
    array = np.random.default_rng(rounds).standard_normal((6, 40), "f")
    np.testing.assert_allclose(module(array), run(graph, [array])[0], rtol=1e-4, atol=1e-6)
    letters = sum(len(text) for text in module.source.kernels.values())
    assert letters < 12_000 * rounds
