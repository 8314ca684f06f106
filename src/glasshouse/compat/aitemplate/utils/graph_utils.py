"""`aitemplate.utils.graph_utils`: a graph as text."""

from __future__ import annotations

from glasshouse.compat.aitemplate.sorted_graph import GraphTensor, SortedGraph
from glasshouse.compat.missing import names_what_is_there
from glasshouse.ir.printer import attributes, label_of


def sorted_graph_pseudo_code(sorted_graph: SortedGraph, with_shape: bool = True) -> str:
    """Each op with its number, what it gives and what it reads."""

    def shown(tensor: GraphTensor) -> str:
        return str(tensor) if with_shape else f"Tensor(name={tensor._attrs['name']})"

    out = []
    for node in sorted_graph.ops():
        outputs = ", ".join(shown(sorted_graph.by_value[v]) for v in node.outputs)
        name = label_of(node) if node.op.name == "fused" else node.op.name
        hidden = ("body", "label", "types")
        given = ", ".join(f"{k}={v}" for k, v in attributes(node).items() if k not in hidden)
        operands = "".join(f"{shown(sorted_graph.by_value[v])},\n" for v in node.inputs)
        out.append(f"# {node.op.name}_{node.id}\n({outputs})\n= {name}({given})(\n{operands})\n")
    return "\n".join(out)


__all__ = ["sorted_graph_pseudo_code"]
__getattr__ = names_what_is_there("aitemplate.utils.graph_utils", __all__)
