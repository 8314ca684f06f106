"""Random recordings for hypothesis, through the public builder."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from glasshouse.record import RecordingBuilder
from glasshouse.record.columns import fields_of
from glasshouse.record.schema import FILE_TABLES, GRAPH_TABLES, GroupRow, NodeRow

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ints = st.integers(-(2**53), 2**53)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": ints,
    "float": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "str": texts,
    "text": texts,
    "list<int>": st.lists(ints, max_size=3),
    "list<str>": st.lists(texts, max_size=3),
}


def rows(row_class: type) -> st.SearchStrategy[Any]:
    return st.builds(row_class, **{f.name: VALUES[f.type] for f in fields_of(row_class)})


@st.composite
def builders(draw: st.DrawFn) -> RecordingBuilder:
    made = RecordingBuilder(draw(texts), draw(texts))
    made.facts.update(draw(st.dictionaries(texts, texts, max_size=2)))
    for row_class in FILE_TABLES.values():
        for row in draw(st.lists(rows(row_class), max_size=2)):
            made.add(row)
    for _ in range(draw(st.integers(0, 2))):
        graph = made.graph(draw(texts), attrs=draw(st.dictionaries(texts, texts, max_size=2)))
        groups = [
            graph.group(draw(texts), draw(texts), draw(st.integers(-1, i - 1)), cls=draw(texts))
            for i in range(draw(st.integers(0, 3)))
        ]
        alive: list[int] = []
        for _ in range(draw(st.integers(1, 3))):
            graph.stage(draw(texts), doc=draw(texts), seconds=draw(st.floats(0, 1e6)))
            for node in draw(st.sets(st.sampled_from(alive))) if alive else ():
                graph.end(node)
                alive.remove(node)
            for _ in range(draw(st.integers(0, 4))):
                node = graph.node(
                    draw(texts),
                    name=draw(texts),
                    inputs=draw(st.lists(st.tuples(ints, st.integers(0, 3)), max_size=3)),
                    outputs=draw(st.lists(texts, max_size=2)),
                    attrs=draw(st.dictionaries(texts, texts, max_size=2)),
                    groups=draw(st.sets(st.sampled_from(groups))) if groups else (),
                    file=draw(texts),
                    line=draw(st.integers(0, 10**6)),
                    frames=draw(st.lists(texts, max_size=2)),
                )
                alive.append(node)
        for row_class in GRAPH_TABLES.values():
            if row_class not in (NodeRow, GroupRow):
                for row in draw(st.lists(rows(row_class), max_size=2)):
                    graph.add(row)
    return made
