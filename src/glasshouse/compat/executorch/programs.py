"""What can be visualised: an exported program, or a manager with one for each method."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import torch

from glasshouse.compat.executorch.fx_graph import FxReader, Unread, roles_of
from glasshouse.compat.executorch.marks import Marks, NameOf, cluster_name, partition_name
from glasshouse.compat.executorch.modules import root_class
from glasshouse.compat.executorch.rules import highlight_rules
from glasshouse.errors import Unsupported
from glasshouse.record import Recording, RecordingBuilder

GENERATOR = "torch.export"


def recording_of(
    visualizable: Any,
    graph_module: torch.fx.GraphModule | None = None,
    *,
    partition_of: NameOf = partition_name,
    cluster_of: NameOf = cluster_name,
    title: str = "",
) -> Recording:
    """The recording of a program or of all methods of a manager, with the highlight style.

    `graph_module` stands in for the program's own graph, as a pass left it.
    """
    programs = _programs(visualizable)
    first = graph_module or programs[0][1].graph_module
    title = title or root_class(first.graph.nodes) or "program"
    made = RecordingBuilder(title, GENERATOR)
    made.facts["torch version"] = str(torch.__version__)
    marks = Marks(partition_of, cluster_of)
    for method, program in programs:
        builder = made.graph(method or title)
        builder.stage("exported")
        for symbol, bounds in getattr(program, "range_constraints", {}).items():
            builder.attrs[f"range {symbol}"] = f"{bounds.lower}..{bounds.upper}"
        # Bodies are read after the graph that holds them, from a list: nesting costs no recursion.
        # First come, first read: that is how partitions are counted.
        waiting = deque([Unread(builder, graph_module or program.graph_module, roles_of(program))])
        while waiting:
            reader = FxReader(made, waiting.popleft(), marks)
            reader.read()
            waiting += reader.bodies
    for rule in highlight_rules(len(marks.numbers)):
        made.style("rule", json.dumps(rule, separators=(",", ":")))
    return made.finish()


def _programs(visualizable: Any) -> list[tuple[str, Any]]:
    """Exported programs by method; a program that stands alone has no method's name."""
    if isinstance(visualizable, torch.export.ExportedProgram):
        return [("", visualizable)]
    # EdgeProgramManager and ExecutorchProgramManager, without importing executorch.
    give, methods = (getattr(visualizable, n, None) for n in ("exported_program", "methods"))
    names = sorted(methods() if callable(methods) else methods or ())
    if callable(give) and names:
        several = len(names) > 1
        return [(name if several else "", give(name)) for name in names]
    raise Unsupported(
        f"{type(visualizable).__name__} is no exported program",
        hint="give what torch.export.export or executorch's to_edge and to_executorch return",
    )
