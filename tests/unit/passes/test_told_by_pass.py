"""A mistake in a pass is told with the pass, the node and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import glasshouse as gh
from glasshouse.errors import GraphError, PassError, TypeMismatch
from glasshouse.ir import GraphBuilder


@dataclass(frozen=True)
class AtRelu(gh.Pass):
    """Does one thing at each Relu."""

    does: Callable[[Any, Any], object]

    def run(self, graph: Any, rw: Any) -> None:
        for node in graph.nodes:
            if node.op.name == "relu":
                self.does(rw, node)


def run(does: Callable[[Any, Any], object]) -> None:
    b = GraphBuilder("net")
    graph = b.finish((b.input("float32", (4, 8), "x") * 2.0).apply("relu"))
    gh.optimize(graph, gh.PassContext(passes=[AtRelu(does)]))


def replaced(build: Callable[[Any], Any]) -> Callable[[Any, Any], object]:
    def does(rw: Any, node: Any) -> object:
        new = lambda: build(rw.expr(node.inputs[0]))  # noqa: E731
        return rw.replace(node, new, rule="r", why="w")

    return does


def test_another_shape_names_the_node_and_the_pass() -> None:
    with pytest.raises(GraphError) as caught:
        run(replaced(lambda x: x.apply("reshape", shape=(32,))))
    told = str(caught.value).splitlines()
    assert told[0].startswith("rule r turns float32[4, 8] into float32[32] in place of %")
    assert "Relu(" in told[0]
    assert "  in pass AtReluPass over net" in told
    assert told[-1] == "  what takes a value's place has its shape and element type"


def test_a_wrong_word_names_the_pass() -> None:
    with pytest.raises(TypeMismatch, match=r"there is no op 'rellu'\n  in pass AtReluPass over"):
        run(replaced(lambda x: x.apply("rellu")))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_an_error_of_python_keeps_its_kind_and_gets_a_note() -> None:
    with pytest.raises(AttributeError) as caught:
        run(lambda rw, node: node.nothing_like_this)
    assert caught.value.__notes__ == ["in pass AtReluPass over net"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"before": "fuse_operater"}, r"before 'fuse_operater'.*\n  did you mean 'fuse_operator'"),
        ({}, "name the one that it comes after"),
    ],
)
def test_a_place_that_is_not_there(given: dict[str, str], told: str) -> None:
    with pytest.raises(PassError, match=f"^a pass is to stand .*{told}"):
        gh.PassContext().insert(AtRelu(print), **given)
