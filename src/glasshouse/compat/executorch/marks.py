"""Which partition and which cluster a node is in: groupings beside the module hierarchy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from glasshouse.compat.executorch.clusters import find_clusters
from glasshouse.record import GraphWriter

NameOf = Callable[[Any], str | None]


def partition_name(node: Any) -> str | None:
    """What ExecuTorch's partitioners write: the tag of the delegate that takes the node."""
    found = node.meta.get("delegation_tag")
    return None if found is None else str(found)


def cluster_name(node: Any) -> str | None:
    """What quantisers that know their clusters write."""
    found = node.meta.get("cluster")
    return None if found is None else str(found)


class Marks:
    """The partitions and clusters of a program; partitions are counted as they are first seen."""

    def __init__(self, partition_of: NameOf, cluster_of: NameOf) -> None:
        self.partition_of = partition_of
        self.cluster_of = cluster_of
        self.numbers: dict[str, int] = {}

    def groups(self, nodes: Sequence[Any], builder: GraphWriter) -> dict[Any, list[int]]:
        """Rows of the groups of each fx node: the grouping "partition", the grouping "cluster"."""
        clusters = {n: name for n in nodes if (name := self.cluster_of(n))}
        clusters |= find_clusters(nodes, clusters)
        out: dict[Any, list[int]] = {}
        for node in nodes:
            cluster = [f"cluster ({clusters[node]})"] if node in clusters else []
            partition = self.partition_of(node)
            mine = [builder.group_path("cluster", cluster)]
            if partition:
                number = self.numbers.setdefault(partition, len(self.numbers))
                # Clusters stand inside partitions too: one look shows both.
                path = [f"partition {number} ({partition})", *cluster]
                mine.append(builder.group_path("partition", path))
            out[node] = mine
        return out
