"""Which ops of a graph each kernel of its module computes, for whoever listens to what ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from glasshouse.backend.cache import hash_text, write_whole
from glasshouse.backend.cache_folder import made_cache_folder
from glasshouse.ir.graph import Graph
from glasshouse.ir.op import Kind
from glasshouse.ir.rewriter import Rewrite
from glasshouse.lower.group import member_ids
from glasshouse.lower.program import Call
from glasshouse.passes.instrument import Instrument
from glasshouse.runtime.module import Module, step_name

_ENDING = {"c++": ".cpp", "kernel ir": ".kernel"}


class Roots(Instrument):
    """Follows nodes through rewrites: `of` tells which nodes of the first graph one stands for."""

    def __init__(self) -> None:
        self.of: dict[int, frozenset[int]] = {}

    def rewritten(self, graph: Graph, step: Rewrite) -> None:
        before = frozenset[int]().union(*(self.roots(i) for i in step.before))
        for made in step.after:
            self.of[made] = before
        if not step.after:  # what stays computes what was replaced
            for _, (kept, _port) in step.equal:
                self.of[kept] = self.roots(kept) | before

    def roots(self, id: int) -> frozenset[int]:
        return self.of.get(id) or frozenset({id})


@dataclass(frozen=True)
class FusedGroup:
    """Numbers of nodes in a graph that one kernel computes, its key and the file of its code."""

    positions: Sequence[int]
    key: str
    file: str


def groups_of(module: Module, graph: Graph, roots: Roots) -> list[FusedGroup]:
    """The kernels of a module in the order in which they run; each op is in the first that has it.

    Constants, and ops that only rename memory, are in none.
    """
    positions = {
        n.id: i for i, n in enumerate(graph.nodes) if n.op.kind is not Kind.SOURCE
    }  # fmt: skip
    taken: set[int] = set()
    out: list[FusedGroup] = []
    for step in module.program.steps:
        ids = frozenset[int]().union(*(roots.roots(i) for i in member_ids(step.node)))
        ids |= roots.roots(step.node.id)
        found = sorted(positions[i] for i in ids if i in positions and i not in taken)
        taken |= ids
        if found:
            out.append(FusedGroup(found, step_name(step), _file(module, step_name(step), step)))
    return out


def _file(module: Module, name: str, step: object) -> str:
    """The generated code of a kernel, written to the cache once."""
    if not isinstance(step, Call):
        return ""
    text = module.source.kernels[name]
    ending = _ENDING.get(module.source.language, ".txt")
    path = made_cache_folder() / f"{hash_text(text)}{ending}"
    if not path.exists():
        write_whole(path, text)
    return str(path)
