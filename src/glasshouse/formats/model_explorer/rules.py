"""How styler rules and sync mappings travel: as style rows, word for word.

Our own style rules are Model Explorer's (docs/formats.md), so importing is copying: a row of kind
`rule` for each rule, in order, and a row of kind `sync` for each mapping.
"""

from __future__ import annotations

import json
from typing import Any

from glasshouse.formats.json_stream import read_json
from glasshouse.formats.model_explorer.write import node_names
from glasshouse.formats.source import SourceFile, graph_of
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.schema import RewriteRow

RULE, SYNC = "rule", "sync"


def parse_rules(source: SourceFile) -> list[dict[str, Any]]:
    """The rules of a file, checked."""
    value = read_json(source)
    rules = value if isinstance(value, list) else [value]
    for i, rule in enumerate(rules):
        if not isinstance(rule, dict) or not isinstance(rule.get("queries"), list):
            raise source.error(f"style rule {i} has no list of queries")
        if not isinstance(rule.get("styles", {}), dict):
            raise source.error(f"style rule {i}: styles must be an object")
    return rules


def parse_sync(source: SourceFile) -> dict[str, Any]:
    """A mapping between the nodes of two graphs, checked."""
    value = read_json(source)
    entries = value.get("mappingEntries") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(entries, list):
        raise source.error("a sync mapping must have mappingEntries")
    for i, entry in enumerate(entries):
        sides = (
            (entry.get("leftNodeIds"), entry.get("rightNodeIds")) if isinstance(entry, dict) else ()
        )
        if len(sides) != 2 or not all(isinstance(s, list) for s in sides):
            raise source.error(f"mapping entry {i} has no leftNodeIds and rightNodeIds")
    return value


def read_rules(source: SourceFile) -> Recording:
    """Rules alone: a recording without graphs, whose styles can be attached to another."""
    return _alone(source, RULE, parse_rules(source))


def read_sync(source: SourceFile) -> Recording:
    """A mapping alone."""
    return _alone(source, SYNC, [parse_sync(source)])


def _alone(source: SourceFile, kind: str, values: list[dict[str, Any]]) -> Recording:
    made = RecordingBuilder(source.stem, "model explorer", source.budget)
    add(made, kind, values)
    return made.finish()


def add(made: RecordingBuilder, kind: str, values: list[dict[str, Any]]) -> None:
    for value in values:
        made.style(kind, json.dumps(value, separators=(",", ":")))


def write_rules(recording: Recording) -> bytes:
    """The rules of a recording, for "Import rules"."""
    rules = [json.loads(s.json) for s in recording.styles if s.kind == RULE]
    return json.dumps(rules, indent=1).encode()


def write_sync(recording: Recording, graph: int = 0, left: int = 0, right: int = -1) -> bytes:
    """How the nodes of one stage became those of another, as a sync mapping.

    A mapping that the recording holds already is given back; otherwise it follows the ids that
    both stages have and the rewrites between them.
    """
    for style in recording.styles:
        if style.kind == SYNC:
            return style.json.encode()
    view = graph_of(recording, graph)
    one, two = view.stage(left), view.stage(right)
    left_names = dict(zip(one.nodes.array("id").tolist(), node_names(one), strict=True))
    right_names = dict(zip(two.nodes.array("id").tolist(), node_names(two), strict=True))
    # Each id of the left stage, followed through the rewrites to the ids that stand for it.
    now = {id: {id} for id in left_names}
    where: dict[int, set[int]] = {id: {id} for id in left_names}
    for rewrite in view.table(RewriteRow):
        if one.index < rewrite.stage <= two.index:
            origins = set().union(*(where.pop(b, set()) for b in rewrite.before))
            for origin in origins:
                now[origin] -= set(rewrite.before)
                now[origin] |= set(rewrite.after)
            for made in rewrite.after:
                where.setdefault(made, set()).update(origins)
    entries = []
    for id, name in left_names.items():
        found = [right_names[r] for r in sorted(now[id]) if r in right_names]
        if found:
            entries.append({"leftNodeIds": [name], "rightNodeIds": found})
    value = {"type": "sync_navigation", "mappingEntries": entries, "showDiffHighlights": True}
    return json.dumps(value, separators=(",", ":")).encode()


def attach_rules(source: SourceFile, recording: Recording, made: RecordingBuilder) -> None:
    """Add rules to the copy `made` of a recording."""
    add(made, RULE, parse_rules(source))


def attach_sync(source: SourceFile, recording: Recording, made: RecordingBuilder) -> None:
    """Add a mapping to the copy `made` of a recording."""
    add(made, SYNC, [parse_sync(source)])
