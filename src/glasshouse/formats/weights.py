"""Files of weights as a recording: a tree of modules by dotted names, a node for each tensor.

Tensors are gathered as columns and added at once: files of experts have some hundred thousand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from glasshouse.record import RecordingBuilder
from glasshouse.record.schema import NEVER, DataRow


@dataclass
class Weights:
    """The tensors of one file, in its order."""

    names: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)  # "float32[2, 3]"
    sizes: list[int] = field(default_factory=list)  # in bytes
    places: list[str] = field(default_factory=list)  # where the data lies: an offset in the file
    place: str = "offset"  # what `places` are called
    parameters: int = 0

    def add(self, name: str, dtype: str, shape: list[int], size: int, place: object) -> None:
        self.names.append(name)
        self.types.append(f"{dtype}[{', '.join(map(str, shape))}]")
        self.sizes.append(size)
        self.places.append(str(place))
        # A hostile shape multiplies to a number of a million digits; a real one has under 64 dims.
        self.parameters += min(math.prod(shape[:64]), 2**63)

    def write(self, made: RecordingBuilder, title: str) -> None:
        """Add the graph and its facts to a recording."""
        graph = made.graph(title)
        graph.stage("weights")
        groups = [graph.group_path("module", name.split(".")[:-1]) for name in self.names]
        rows = len(self.names)
        one = np.ones(rows, np.int64)
        name, rank = made.indices(self.names), np.array(groups, np.int64)
        places = zip(map(str, self.sizes), self.places, strict=True)
        graph.nodes(
            {
                "id": np.arange(rows),
                "name": name,
                "op": np.full(rows, made.strings.index("Tensor")),
                "kind": np.full(rows, made.strings.index("source")),
                "outputs": (one, made.indices(self.types)),
                "output_names": (one, name),
                "attr_keys": (2 * one, np.tile(made.indices(["bytes", self.place]), rows)),
                "attr_values": (2 * one, made.indices([t for pair in places for t in pair])),
                "groups": ((rank != NEVER).astype(np.int64), rank[rank != NEVER]),
            }
        )
        data = {
            "name": np.full(rows, made.strings.index("bytes")),
            "node": np.arange(rows),
            "number": np.array(self.sizes, np.float64),
        }
        graph.extend(DataRow, rows, data)
        made.facts |= {
            "tensors": str(rows),
            "bytes": str(sum(self.sizes)),
            "parameters": str(self.parameters),
        }
