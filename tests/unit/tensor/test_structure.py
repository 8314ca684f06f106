"""The key by which a compiled graph is found again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn
from glasshouse.tensor.pending import Extraction, pending_nodes
from glasshouse.tensor.structure import StructureKey, data_of, pending_key, structure_key

BASE = gh.trace(lambda x: (x * 2).sum(1), gh.spec(("n", 4)))

OTHERS = {
    "number": lambda: gh.trace(lambda x: (x * 3).sum(1), gh.spec(("n", 4))),
    "attribute": lambda: gh.trace(lambda x: (x * 2).sum(0), gh.spec(("n", 4))),
    "size": lambda: gh.trace(lambda x: (x * 2).sum(1), gh.spec(("n", 5))),
    "symbol": lambda: gh.trace(lambda x: (x * 2).sum(1), gh.spec(("m", 4))),
    "type": lambda: gh.trace(lambda x: (x * 2).sum(1), gh.spec(("n", 4), "float64")),
    "op": lambda: gh.trace(lambda x: (x + 2).sum(1), gh.spec(("n", 4))),
    "outputs": lambda: gh.trace(lambda x: (y := (x * 2).sum(1), y)[:2], gh.spec(("n", 4))),
}


def test_the_same_program_has_the_same_key() -> None:
    again = gh.trace(lambda other: (other * 2).sum(1), gh.spec(("n", 4)), name="named")
    assert structure_key(again) == structure_key(BASE)
    assert len({structure_key(again), structure_key(BASE)}) == 1


@pytest.mark.parametrize("what", OTHERS)
def test_another_program_has_another_key(what: str) -> None:
    assert structure_key(OTHERS[what]()) != structure_key(BASE)


def test_data_of_constants_counts_and_of_variables_does_not() -> None:
    one, two = nn.Linear(8, 8), nn.Linear(8, 8)

    def keys(variables: bool) -> set:
        graphs = [gh.trace(m, gh.spec((1, 8)), variables=variables) for m in (one, two)]
        return {structure_key(g) for g in graphs}

    assert len(keys(False)) == 2
    assert len(keys(True)) == 1


def test_equal_keys_are_compared_once() -> None:
    """A training loop asks for the same key in every step."""
    one, two, three = (StructureKey((("relu", i), "x" * 3)) for i in (0, 0, 1))
    assert one == two
    assert one.parts is two.parts
    assert one != three
    assert hash(one) == hash(two)


def test_minus_zero_and_nan() -> None:
    def key(value: float):
        return structure_key(gh.trace(lambda x: x.clip(value), gh.spec((1,))))

    assert key(0.0) != key(-0.0)
    assert key(float("nan")) == key(float("nan"))


def test_arrays_in_a_graph() -> None:
    def key(array: np.ndarray):
        return structure_key(gh.trace(lambda x: x + array, gh.spec((100,))))

    ones = np.ones(100, np.float32)
    assert key(ones) == key(ones.copy())
    assert key(ones) != key(ones * 2)


def test_pending_work_has_a_key_without_a_graph() -> None:
    """Equal for the same work on other data; its data is in the order of the graph's inputs."""

    def pending(first: float, swap: bool = False, number: float = 2.0) -> Any:
        a, b, c = (gh.array(np.full(3, first + i, np.float32)) for i in range(3))
        left, right = (b, a) if swap else (a, b)
        out = (left - right) * c + left.exp() * number
        nodes = pending_nodes([out.value])
        key, leaves = pending_key(nodes, [out.value])
        extraction = Extraction(nodes)
        extraction.value(out.value)
        assert [id(x) for x in data_of(leaves)] == [id(x) for x in extraction.fed]
        return key

    base = pending(0.0)
    assert base == pending(5.0)
    assert base != pending(0.0, number=3.0)
    # Leaves are numbered as they are read: the same work, whatever the data is called.
    assert base == pending(0.0, swap=True)
    x, y = gh.array(np.ones(3, "f")), gh.array(np.ones(3, "f"))
    keys = {pending_key(pending_nodes([z.value]), [z.value])[0] for z in (x - y + x, x - y + y)}
    assert len(keys) == 2
