"""PyTorch files of weights (`torch.save`): the tensors of the pickle as a tree, no data read.

State dicts, checkpoints with an optimiser's state and whole pickled models: `data.pkl` of the
archive is read as records, so that no class has to be there and none is called.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from glasshouse.formats.archive import ForeignArchive
from glasshouse.formats.pickled_objects import Made, Name, Persistent, load
from glasshouse.formats.source import SourceFile
from glasshouse.formats.unpickle import brief
from glasshouse.formats.weights import Weights
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.budget import Budget

GENERATOR = "pytorch"
PICKLE = "data.pkl"
MAX_PLAIN = 200
"""Numbers and texts beside the tensors that are kept: an epoch, a learning rate."""

_STORAGES = {
    "Float": ("float32", 4), "Double": ("float64", 8), "Half": ("float16", 2),
    "BFloat16": ("bfloat16", 2), "Long": ("int64", 8), "Int": ("int32", 4), "Short": ("int16", 2),
    "Char": ("int8", 1), "Byte": ("uint8", 1), "Bool": ("bool", 1),
    "ComplexFloat": ("complex64", 8), "ComplexDouble": ("complex128", 16),
    "QInt8": ("qint8", 1), "QUInt8": ("quint8", 1), "QInt32": ("qint32", 4),
}  # fmt: skip
_TENSORS = {
    f"torch._utils.{name}"
    for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")
}
_PARAMETERS = {
    "torch._utils._rebuild_parameter",
    "torch._utils._rebuild_parameter_with_state",
    "torch._tensor._rebuild_from_type_v2",
}
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")


@dataclass(frozen=True)
class WeightTensor:
    dtype: str
    shape: list[int]
    bytes: int
    storage: str

    @property
    def type(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


def read(source: SourceFile) -> Recording:
    """The recording of an archive that `torch.save` wrote."""
    with ForeignArchive(source) as archive:
        names = [n for n in archive.names if n == PICKLE or n.endswith(f"/{PICKLE}")]
        root = load(archive.read(names[0]), f"{source.name}: {names[0]}", source.budget)
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    weights = Weights(place="storage")
    plain: dict[str, str] = {}
    for name, value in leaves(root, source.budget):
        if isinstance(value, WeightTensor):
            weights.add(name, value.dtype, value.shape, value.bytes, value.storage)
        elif len(plain) < MAX_PLAIN:
            plain[name] = value
    weights.write(made, source.stem)
    made.graphs[0].attrs.update(plain)
    if isinstance(root, Made):
        made.facts["class"] = root.what
    return made.finish()


def leaves(root: Any, budget: Budget) -> Iterator[tuple[str, WeightTensor | str]]:
    """Tensors and plain values with their dotted names; every container is looked into once."""
    waiting: list[tuple[str, int, Any]] = [("", 0, root)]
    seen = set()
    while waiting:
        name, depth, value = waiting.pop()
        budget.spend("items")
        budget.spend("decoded_bytes", len(name))
        budget.within("depth", depth)
        tensor = tensor_of(value)
        if tensor is not None:
            yield name, tensor
        elif isinstance(value, (bool, int, float, str)):
            yield name, brief(value)
        else:
            inner = [] if id(value) in seen else inside(value)
            seen.add(id(value))
            before = f"{name}." if name else ""
            waiting += [(f"{before}{key[:200]}", depth + 1, v) for key, v in reversed(inner)]


def inside(value: Any) -> list[tuple[str, Any]]:
    """The named parts of a container, an object or a module."""
    if isinstance(value, Made):
        state = value.state
        if isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            state = state[1]  # of a class with __slots__
        parts = state if isinstance(state, dict) else value.items
        if any(isinstance(parts.get(p), dict) for p in _MODULE_PARTS):
            found = [parts[p] for p in _MODULE_PARTS if isinstance(parts.get(p), dict)]
            return [(str(k), v) for part in found for k, v in part.items()]
        return [(str(k), v) for k, v in parts.items()]
    if isinstance(value, dict):
        return [(str(k), v) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(i), v) for i, v in enumerate(value)]
    return []


def tensor_of(value: Any) -> WeightTensor | None:
    """The tensor that a record would have been unpickled to, if it is one."""
    for _ in range(3):
        if isinstance(value, Made) and value.what in _PARAMETERS:
            given = value.arguments
            value = given[0] if isinstance(given, tuple) and given else None
    if not isinstance(value, Made) or value.what not in _TENSORS:
        return None
    given = value.arguments
    if not isinstance(given, tuple) or len(given) < 3 or not isinstance(given[0], Persistent):
        return None
    storage, shape = given[0].value, given[2]
    if not isinstance(storage, tuple) or len(storage) < 3 or not isinstance(shape, tuple):
        return None
    if not all(type(n) is int and 0 <= n < 2**63 for n in shape[:64]) or len(shape) > 64:
        return None
    kind = storage[1].text.rpartition(".")[2] if isinstance(storage[1], Name) else "?"
    dtype, size = _STORAGES.get(kind.removesuffix("Storage"), (kind, 1))
    if len(given) > 6 and isinstance(given[6], Name):  # a storage without a type of its own
        dtype = given[6].text.rpartition(".")[2]
        size = {"uint16": 2, "uint32": 4, "uint64": 8}.get(dtype, 1)
    count = math.prod(shape)
    return WeightTensor(
        dtype, list(shape), count * size, f"data/{brief(storage[2]).strip(chr(39))}"
    )
