"""How what only a recording knows travels in Model Explorer's attributes: under `gh.`.

Model Explorer shows these like any attribute; our reader puts them back where they came from.
"""

from __future__ import annotations

PREFIX = "gh."
ID, NAME, KIND, SOURCE, FRAMES = "gh.id", "gh.name", "gh.kind", "gh.source", "gh.frames"
PASS, RULE, REPLACES, GRAD_OF = "gh.pass", "gh.rule", "gh.replaces", "gh.grad_of"
OPERANDS = "gh.operands"  # how many operands there are, where some are absent
GROUP = "gh.group."  # with the grouping's name: the path in a grouping that is not the namespace

# Of groups:
CLASS = "gh.class"

# Of graphs (in the attributes of the empty namespace):
GRAPH, GROUPING, STAGE = "gh.graph", "gh.grouping", "gh.stage"
STAGE_NAME, STAGE_DOC, INPUTS, OUTPUTS = "gh.stage_name", "gh.doc", "gh.inputs", "gh.outputs"
STAGE_PASS, SECONDS, PARENT = "gh.stage_pass", "gh.seconds", "gh.parent"

STYLE_KIND = "model_explorer"
"""Kind of the style rows that keep what has no place elsewhere: one for each graph."""
