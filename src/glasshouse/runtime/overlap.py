"""Output buffers of the caller's that share memory with inputs, or with each other.

Kernels write outputs while they still read inputs: such inputs are copied before a run. Two outputs
in one place cannot both be right: they are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from glasshouse.errors import ExecutionError
from glasshouse.runtime.arrays import Array

Span = tuple[int, int]
"""Where something begins and where it ends, in bytes."""


def overlap(written: Sequence[Span], read: Sequence[Span]) -> bool:
    """Whether something written shares a byte with something else, written or read."""
    spans = sorted([(b, e, True) for b, e in written] + [(b, e, False) for b, e in read])
    written_to = read_to = 0  # how far those before reach
    for begin, end, writes in spans:
        if end > begin and (begin < written_to or (writes and begin < read_to)):
            return True
        if writes:
            written_to = max(written_to, end)
        else:
            read_to = max(read_to, end)
    return False


def apart(inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    """The inputs, copied where an output buffer overlaps them; ExecutionError for outputs that lie
    on each other."""
    written = _written([_span(y) for y in outputs])
    return [x.copy() if overlap(written, [_span(x)]) else x for x in inputs]


def tensors_apart(inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
    """The same of PyTorch's tensors, which are contiguous."""
    written = _written([_span_of_tensor(y) for y in outputs])
    return [x.clone() if overlap(written, [_span_of_tensor(x)]) else x for x in inputs]


def _written(spans: list[Span]) -> list[Span]:
    if overlap(spans, ()):
        raise ExecutionError(
            "two output buffers share memory", hint="give each output memory of its own"
        )
    return spans


def _span_of_tensor(tensor: Any) -> Span:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes


def _span(array: Array) -> Span:
    """From the lowest to the highest byte that an array may reach, whatever its strides."""
    if not array.size:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    begin = int(array.ctypes.data)
    return begin + low, begin + high + array.itemsize
