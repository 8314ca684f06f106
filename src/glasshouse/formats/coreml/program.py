"""Programs of Core ML (MIL): a graph for each function, blocks of branches and loops as bodies.

Every flag of an op is an op of its own there (`const`). Those of up to eight elements are shown as
attributes of the ops that read them, as they are in every other format.
"""

from __future__ import annotations

import math
from typing import Any

from glasshouse.formats.kinds import kind_of
from glasshouse.record import GraphWriter, RecordingBuilder

FEW = 8
_SMALL = 1024  # bytes that a value of `FEW` elements takes at most
_DTYPES = {
    1: "bool", 2: "string", 10: "float16", 11: "float32", 12: "float64", 13: "bfloat16", 21: "int8",
    22: "int16", 23: "int32", 24: "int64", 25: "int4", 31: "uint8", 32: "uint16", 33: "uint32",
    34: "uint64", 35: "uint4", 36: "uint2", 37: "uint1", 38: "uint6", 39: "uint3",
}  # fmt: skip
_LISTS = ("floats", "ints", "bools", "strings", "longInts", "doubles")


def write_program(made: RecordingBuilder, program: Any, builder: GraphWriter) -> None:
    """Adds the functions of a program; "main", or else the first, into the given graph."""
    functions = sorted(program.functions, key=lambda entry: entry.key != "main")
    for place, entry in enumerate(functions):
        function = entry.value
        blocks = function.block_specializations
        chosen = [b.value for b in blocks if b.key == function.opset] or [b.value for b in blocks]
        if not chosen:
            continue
        graph = builder if not place else made.graph(entry.key)
        if function.opset:
            graph.attrs["opset"] = function.opset
        waiting = [(chosen[0], graph, function.inputs)]
        while waiting:
            block, target, inputs = waiting.pop()
            waiting += _Block(made, target).write(block, inputs)


class _Block:
    """One block being written."""

    def __init__(self, made: RecordingBuilder, builder: GraphWriter) -> None:
        self.made = made
        self.builder = builder
        self.producer: dict[str, tuple[int, int]] = {}
        self.shown: dict[str, str] = {}  # small constants, by name

    def write(self, block: Any, named: Any) -> list[tuple[Any, GraphWriter, Any]]:
        """Adds the nodes; returns the blocks inside, with their graphs."""
        builder = self.builder
        builder.stage("model")
        inputs = [self._source("Input", n.name, type_text(n.type)) for n in (*named, *block.inputs)]
        later: list[tuple[Any, GraphWriter, Any]] = []
        for operation in block.operations:
            later += self._operation(operation)
        builder.set_io(inputs, [self._read(name) for name in block.outputs])
        return later

    def _source(self, op: str, name: str, type: str) -> int:
        node = self.builder.node(
            op, name=name, kind="source", outputs=[type], output_names=[name] if name else []
        )
        self.producer[name] = (node, 0)
        return node

    def _read(self, name: str) -> tuple[int, int]:
        """The producer of a name; what this block does not make comes from around it."""
        if name not in self.producer:
            self._source("Captured", name, "")
        return self.producer[name]

    def _operation(self, operation: Any) -> list[tuple[Any, GraphWriter, Any]]:
        attrs = {
            entry.key: text
            for entry in operation.attributes
            if entry.key not in ("name", "val") and (text := value_text(entry.value))
        }
        made = [output.name for output in operation.outputs]
        if operation.type == "const":
            values = [entry.value for entry in operation.attributes if entry.key == "val"]
            text = value_text(values[0]) if values else ""
            if text and len(made) == 1 and not values[0].has("blobFileValue"):
                self.shown[made[0]] = text
                return []
            attrs |= {"value": text} if text else {}
        inputs, input_names = [], []
        for entry in operation.inputs:
            for place, binding in enumerate(entry.value.arguments):
                key = entry.key if len(entry.value.arguments) == 1 else f"{entry.key}.{place}"
                if binding.has("value"):
                    attrs[key] = value_text(binding.value)
                elif binding.name in self.shown:
                    attrs[key] = self.shown[binding.name]
                else:
                    inputs.append(self._read(binding.name))
                    input_names.append(key)
        bodies = [
            (block, self.made.graph(f"block {i}", parent=self.builder.index), ())
            for i, block in enumerate(operation.blocks)
        ]
        name = made[0] if made else ""
        node = self.builder.node(
            operation.type,
            name=name,
            kind="source" if operation.type == "const" else kind_of(operation.type),
            inputs=inputs,
            outputs=[type_text(output.type) for output in operation.outputs],
            attrs=attrs,
            groups=[self.builder.group_path("module", [p for p in name.split("/")[:-1] if p])],
            bodies=[graph.index for _, graph, _ in bodies],
            output_names=made,
            input_names=input_names,
        )
        self.producer.update({said: (node, port) for port, said in enumerate(made)})
        return list(bodies)


def type_text(type: Any) -> str:
    """A type as it is shown: "float32[1, 16]"."""
    if not type.has("tensorType"):
        chosen: str = type.chosen("listType", "tupleType", "dictionaryType", "stateType")
        return chosen.removesuffix("Type")
    tensor = type.tensorType
    dtype = _DTYPES.get(tensor.dataType, f"type{tensor.dataType}")
    dims = [str(d.constant.size) if d.has("constant") else "?" for d in tensor.dimensions[:64]]
    return f"{dtype}[{', '.join(dims)}]"


def value_text(value: Any) -> str:
    """A small value, or where a large one lies; "" for a large one in the file itself."""
    if value.has("blobFileValue"):
        blob = value.blobFileValue
        return f"{blob.fileName} at byte {blob.offset}"
    tensor = value.immediateValue.tensor
    chosen = tensor.chosen(*_LISTS)
    if not chosen:
        return ""
    held = getattr(tensor, chosen)
    sizes = [d.constant.size for d in value.type.tensorType.dimensions[:64]]
    if held.byte_count() > _SMALL or not 0 <= math.prod(sizes) <= FEW:
        return ""
    items = [f"{v:.7g}" if isinstance(v, float) else str(v) for v in held.values]
    return items[0] if not sizes and len(items) == 1 else f"[{', '.join(items)}]"
