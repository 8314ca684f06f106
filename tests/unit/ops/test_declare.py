"""A declaration that is wrong is told by name, when the op is declared or first used."""

from __future__ import annotations

from typing import Any

import pytest

from glasshouse.errors import GradientError, TypeMismatch
from glasshouse.ir import Graph, GraphBuilder
from glasshouse.ir import op as registry
from glasshouse.ir.op import Kind, Op
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import same_shape
from glasshouse.tensor.grad import differentiate


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "REGISTRY", dict(registry.REGISTRY))
    monkeypatch.setattr(registry, "_BY_LABEL", dict(registry._BY_LABEL))


def _declared(name: str = "own", **changes: Any) -> Op:
    right: dict[str, Any] = {
        "kind": Kind.ELEMENTWISE, "family": "math", "infer": same_shape, "ref": lambda x: x * 2,
        "vjp": lambda g, x, y: (g * 2.0,), "doc": "Twice.",
    }  # fmt: skip
    return op(name, **{**right, **changes})


def _used(**changes: Any) -> Graph:
    declared, b = _declared(**changes), GraphBuilder()
    return b.finish(declared(b.input("float32", [3])))


def test_a_right_one() -> None:
    assert len(differentiate(_used()).outputs) == 2


@pytest.mark.parametrize("changes, says", [
    ({"name": "Not a name"}, "cannot be called 'Not a name'"),
    ({"label": "Own"}, "own: label='Own' is no attribute"),
    ({"infer": lambda x: "float32"}, "own: its rule for types gives 'float32', not types"),
    ({"infer": lambda x: None}, "own: its rule for types gives None"),
])  # fmt: skip
def test_a_wrong_declaration(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeMismatch, match=says):
        _used(**changes)


@pytest.mark.parametrize("vjp, says", [
    (lambda g, x, y: g * 2.0, r"gradient of own is Expr\(float32\[3\]\) of type Expr, not a tuple"),
    (lambda g, x, y: (2.0,), "own gives 2.0 of type float as a gradient"),
    (lambda g, x, y: (g, g), "own gives 2 gradients for 1 operands"),
])  # fmt: skip
def test_a_wrong_gradient(vjp: Any, says: str) -> None:
    graph = _used(vjp=vjp)
    with pytest.raises(GradientError, match=says):
        differentiate(graph)
