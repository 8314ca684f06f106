"""AITemplate's `compile_model`: from marked outputs to a `Model`, with its files in `workdir`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import glasshouse as gh
from glasshouse.compat.aitemplate.compiler.model import Model, with_constants
from glasshouse.compat.aitemplate.sorted_graph import graph_of


def compile_model(
    tensor: gh.Tensor | Sequence[gh.Tensor],
    target: gh.PassContext,
    workdir: str | os.PathLike[str],
    test_name: str,
    *,
    constants: Mapping[str, Any] | None = None,
    num_runtimes: int = 1,
    do_optimize_graph: bool = True,
    **_: Any,
) -> Model:
    """Compile what computes the outputs given; `workdir/test_name` gets library and recording.

    Constants that are not given keep the data that their parameters have, until they are set.
    Options for GPUs and for profiling are not looked at.
    """
    outputs = [tensor] if isinstance(tensor, gh.Tensor) else list(tensor)
    graph = with_constants(graph_of(outputs), constants or {})
    context = target if do_optimize_graph else gh.PassContext([], target=target.target.name)
    model = Model(
        num_runtimes=num_runtimes, graph=graph, context=context, bound=list(constants or ())
    )
    model.module.save(Path(workdir) / test_name)
    return model
