"""From a module to a graph: a self-attention layer, written for Hidet, traced, printed and run.

Only the import lines differ from a script for Hidet. Needs NumPy alone.
"""

import math

import numpy as np

import glasshouse.compat.hidet as hidet
from glasshouse import numpy_ref
from glasshouse.compat.hidet import Tensor
from glasshouse.compat.hidet.graph import nn, ops


class SelfAttention(nn.Module):
    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.size = width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def split_heads(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        x = x.reshape([batch, length, self.heads, self.size])
        return x.rearrange([[0, 2], [1], [3]])  # batch and heads become one axis

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        query = self.split_heads(self.query(x))
        key = self.split_heads(self.key(x))
        value = self.split_heads(self.value(x))
        scores = ops.matmul(query, ops.transpose(key, [-1, -2])) / math.sqrt(self.size)
        scores = scores + mask  # int32 meets float32: the cast stands in the graph
        weights = ops.softmax(scores, axis=-1)
        mixed = ops.matmul(weights, value)
        mixed = mixed.reshape([batch, self.heads, length, self.size])
        return mixed.rearrange([[0], [2], [1, 3]])


def main() -> None:
    model = SelfAttention()
    print(model)

    x = hidet.randn([1, 128, 768])
    mask = hidet.ones([1, 128], dtype="int32")
    graph = model.flow_graph_for(inputs=[x, mask])
    print(graph)

    print("which line became which op:")
    for node in graph.nodes:
        if node.inputs:
            path = node.origin.source.path or "forward"
            print(f"  {node.op.label:<10} {path:<10} line {node.origin.source.frames[-1].line}")

    (from_graph,) = numpy_ref.run(graph, [x.numpy(), mask.numpy()])
    from_tensors = model(x, mask).numpy()
    difference = np.abs(from_graph - from_tensors).max()
    print(f"result {from_graph.shape}, greatest difference to the lazy run: {difference}")


if __name__ == "__main__":
    main()
