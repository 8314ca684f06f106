"""`hidet.utils.netron`: a flow graph as JSON."""

from __future__ import annotations

import os
from typing import IO, Any

from glasshouse.compat.missing import names_what_is_there
from glasshouse.ir.graph import Graph
from glasshouse.passes.instruments.save_graph import flow_graph_json


def dump(flow_graph: Graph, fp: str | os.PathLike[str] | IO[Any]) -> None:
    """Write a graph to a path, or to a file that is open for text."""
    data = flow_graph_json(flow_graph)
    if isinstance(fp, (str, os.PathLike)):
        with open(fp, "wb") as file:
            file.write(data)
    else:
        fp.write(data.decode("utf-8"))


__all__ = ["dump"]
__getattr__ = names_what_is_there("hidet.utils.netron", __all__)
