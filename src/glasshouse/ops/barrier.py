"""What a barrier is: the same value, across which no pass merges, moves or fuses anything.

`Recompute` puts one before what it computes a second time, so that it is not merged with the first;
`EliminateBarrier` takes all of them out when that danger is past.
"""

from __future__ import annotations

from glasshouse.ir.op import Kind
from glasshouse.ops.declare import op
from glasshouse.ops.shapes import same_shape

barrier = op(
    "barrier", folds=False, merges=False, onnx="Identity",
    kind=Kind.OPAQUE, family="barrier", infer=same_shape, ref=lambda x: x,
    vjp=lambda g, x, y: (g,), doc="x, kept apart from what surrounds it",
)  # fmt: skip
