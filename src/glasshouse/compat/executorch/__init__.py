"""ExecuTorch's visualisation calls: `from glasshouse.compat.executorch import visualize`.

Programs are read node by node from their fx graphs, so that what partitioners and quantisers wrote
on them stays. Modules, partitions and clusters are groupings that a person switches between.
"""

from __future__ import annotations

import os
from typing import Any

import glasshouse
from glasshouse import formats
from glasshouse.compat.executorch.marks import NameOf, cluster_name, partition_name
from glasshouse.compat.executorch.programs import recording_of
from glasshouse.compat.executorch.rules import highlight_rules
from glasshouse.compat.executorch.stay import stay_for
from glasshouse.compat.missing import names_what_is_there
from glasshouse.record import Recording

# Keywords of Model Explorer's own server that mean nothing here.
_OF_ITS_SERVER = frozenset({"cors_host", "extensions", "watch"})


def visualize(
    visualizable: Any, reuse_server: bool = True, no_open_in_browser: bool = False, **kwargs: Any
) -> Any:
    """Show an ExportedProgram, or all methods of an Edge- or ExecutorchProgramManager.

    `reuse_server` adds to the server that runs and leaves other tabs alone. Keywords are those of
    `glasshouse.view`. A script in a terminal stays at its end until Ctrl-C, so that pages live.
    """
    return _show(recording_of(visualizable), reuse_server, no_open_in_browser, kwargs)


def visualize_graph(
    graph_module: Any,
    exported_program: Any,
    reuse_server: bool = True,
    no_open_in_browser: bool = False,
    **kwargs: Any,
) -> Any:
    """Show a graph that a pass made out of a program's own."""
    recording = recording_of(exported_program, graph_module)
    return _show(recording, reuse_server, no_open_in_browser, kwargs)


def visualize_with_clusters(
    exported_program: Any,
    json_file_name: str | os.PathLike[str] | None = None,
    no_open_in_browser: bool = False,
    reuse_server: bool = False,
    get_node_partition_name: NameOf = partition_name,
    get_node_qdq_cluster_name: NameOf = cluster_name,
    **kwargs: Any,
) -> Any:
    """Show a program grouped by partitions and clusters, or write it as Model Explorer JSON.

    With a file's name nothing is started and nothing is returned.
    """
    recording = recording_of(
        exported_program,
        partition_of=get_node_partition_name,
        cluster_of=get_node_qdq_cluster_name,
    )
    if json_file_name is not None:
        formats.write(recording, json_file_name, format="model_explorer")
        return None
    kwargs.setdefault("grouping", _best_grouping(recording))
    return _show(recording, reuse_server, no_open_in_browser, kwargs)


def _best_grouping(recording: Recording) -> str:
    there = {group.grouping for graph in recording.graphs for group in graph.groups}
    return next((g for g in ("partition", "cluster") if g in there), "module")


def _show(
    recording: Recording, reuse_server: bool, no_open_in_browser: bool, kwargs: dict[str, Any]
) -> Any:
    given = {k: v for k, v in kwargs.items() if k not in _OF_ITS_SERVER}
    if "colab_height" in given:
        given["height"] = given.pop("colab_height")
    if no_open_in_browser:
        given["open_browser"] = False
    shown = glasshouse.view(recording, reuse_server=reuse_server, **given)
    if not no_open_in_browser:
        stay_for(shown)
    return shown


__all__ = [
    "highlight_rules", "recording_of", "visualize", "visualize_graph", "visualize_with_clusters",
]  # fmt: skip
__getattr__ = names_what_is_there("glasshouse.compat.executorch", __all__)
