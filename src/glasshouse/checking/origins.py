"""Whether what is made still says truly where it comes from: lines that exist, in the function that
they name; and after every rewrite the place of one of the ops that it replaced."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from glasshouse.checking.finding import Finding, place
from glasshouse.collection import no_collection
from glasshouse.ir.graph import Graph, Node
from glasshouse.ir.origin import NOWHERE, Frame, Source
from glasshouse.ir.rewriter import Rewrite
from glasshouse.passes.context import PassContext
from glasshouse.passes.instrument import Instrument
from glasshouse.passes.pipeline import run_pass
from glasshouse.runtime.module import Module


def origin_findings(module: Module) -> list[Finding]:
    """The first line that cannot be right, or the first rewrite whose place is from elsewhere."""
    lineage = module.lineage
    traced = module.graph if lineage is None else lineage.traced
    wrong = next((n for n in traced.nodes if not _is_code(n)), None)
    if wrong is not None:
        frame = wrong.origin.source.frames[-1]
        what = f"line {frame.line} of {Path(frame.file).name} is no code of {frame.function}"
        return [Finding("origin", what, wrong.op.name, place(wrong))]
    if lineage is None:
        return []
    graph, lines = traced.copy(), _Lines(traced.nodes)
    ctx = PassContext(passes=[], instruments=[lines])
    with no_collection():
        for pass_ in lineage.passes:
            run_pass(pass_, graph, ctx)
    return lines.found[:1]


class _Lines(Instrument):
    """Follows the place of every node through rewrites."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.found: list[Finding] = []
        self._of = {n.id: n.origin.source for n in nodes}

    def rewritten(self, graph: Graph, step: Rewrite) -> None:
        before = [self._of[i] for i in step.before if self._of.get(i, NOWHERE).frames]
        for id in step.after:
            node = graph.find(id)
            if node is None:
                continue
            source = self._of[id] = node.origin.source
            if before and not any(_is_from(source, b) for b in before):
                what = "what a rewrite made has the place of none of the ops that it replaced"
                self.found.append(
                    Finding(
                        "origin", what, node.op.name, place(node), step.pass_name, step.rule
                    )
                )  # fmt: skip


def _is_from(source: Source, before: Source) -> bool:
    """The same line, in the same module or in one around it: what several modules became is
    theirs together."""
    inside = before.path == source.path or before.path.startswith(f"{source.path}.")
    return source.frames[-1:] == before.frames[-1:] and (inside or not source.path)


def _line(node: Node) -> Frame | None:
    frames = node.origin.source.frames
    return frames[-1] if frames else None


def _is_code(node: Node) -> bool:
    """Whether a node's line is one of the function that it names, as far as its file tells."""
    frame = _line(node)
    if frame is None or not frame.function.isidentifier():
        return True
    functions = _functions(frame.file).get(frame.function)
    return functions is None or any(frame.line in lines for lines in functions)


@cache
def _functions(file: str) -> dict[str, list[set[int]]]:
    """The lines with code of each function of a file, by its name; none where it cannot be read."""
    try:
        tree = ast.parse(Path(file).read_text())
    except (OSError, SyntaxError, ValueError):
        return {}
    out: dict[str, list[set[int]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            decorated = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            lines = set(range(decorated, node.body[0].lineno))
            for part in ast.walk(node):
                if isinstance(part, ast.expr):
                    lines |= set(range(part.lineno, (part.end_lineno or part.lineno) + 1))
                elif isinstance(part, ast.stmt):
                    lines.add(part.lineno)
            out.setdefault(node.name, []).append(lines)
    return out
