"""How a TFLite model becomes a recording: a graph for each subgraph, weights as constants.

Groups come from the slashes in tensor names, which carry the scopes of the original model.
"""

from __future__ import annotations

from glasshouse.formats.flatbuffer import FlatBuffer, FlatTable
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.source import SourceFile
from glasshouse.formats.tflite_ops import ENUMS, OPERATORS, OPTIONS, TYPES
from glasshouse.record import GraphWriter, Recording, RecordingBuilder

GENERATOR = "tflite"
MAX_SHOWN = 8


def read(source: SourceFile) -> Recording:
    """The recording of a `.tflite` file."""
    buffer = FlatBuffer(source, source.data())
    if buffer.data[4:8] != b"TFL3":
        raise source.error("not a TFLite model")
    model = buffer.root()
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    made.facts["schema version"] = str(model.integer(0, "u32"))
    if model.string(3):
        made.facts["description"] = model.string(3)
    operators = [_operator(code) for code in model.tables(1)]
    sizes = [table.length(0) or table.integer(2, "u64") for table in model.tables(4)]
    subgraphs = model.tables(2)
    if not subgraphs:
        raise source.error("a TFLite model without a graph")
    builders = [
        made.graph(table.string(4) or ("main" if not i else f"subgraph {i}"))
        for i, table in enumerate(subgraphs)
    ]
    for builder, table in zip(builders, subgraphs, strict=True):
        _Subgraph(table, builder, builders, operators, sizes).read()
    return made.finish()


def _operator(code: FlatTable) -> str:
    # Numbers over 127 stand in a field of their own; the old one then holds 127.
    number = max(code.integer(0, "i8"), code.integer(3, "i32"))
    if OPERATORS[number : number + 1] == ("CUSTOM",):
        return code.string(1) or "CUSTOM"
    return OPERATORS[number] if 0 <= number < len(OPERATORS) else f"OPERATOR_{number}"


class _Subgraph:
    def __init__(
        self,
        table: FlatTable,
        builder: GraphWriter,
        all_graphs: list[GraphWriter],
        operators: list[str],
        sizes: list[int],
    ) -> None:
        self.table = table
        self.builder = builder
        self.all_graphs = all_graphs
        self.operators = operators
        self.sizes = sizes
        self.tensors = table.tables(0)
        self.names = [t.string(3) for t in self.tensors]
        self.types = [_type(t) for t in self.tensors]
        self.producer: dict[int, tuple[int, int]] = {}

    def read(self) -> None:
        builder, table = self.builder, self.table
        builder.stage("model")
        usable = [i for i in dict.fromkeys(table.ints(1)) if 0 <= i < len(self.tensors)]
        inputs = [self._source("Input", index) for index in usable]
        calls = table.tables(3)
        made = {o for call in calls for o in call.ints(2)}
        for call in calls:
            for index in call.ints(1):
                fresh = 0 <= index < len(self.tensors) and index not in self.producer
                if fresh and index not in made:
                    self._source("Constant", index)
        first = builder.next_id
        for i, call in enumerate(calls):
            for port, index in enumerate(call.ints(2)):
                self.producer.setdefault(index, (first + i, port))
        for i, call in enumerate(calls):
            self._call(first + i, call)
        builder.set_io(inputs, [self.producer[o] for o in table.ints(2) if o in self.producer])

    def _source(self, op: str, index: int) -> int:
        tensor = self.tensors[index]
        buffer = tensor.integer(2, "u32")
        size = self.sizes[buffer] if buffer < len(self.sizes) else 0
        attrs = ({"bytes": str(size)} if size else {}) | _quantization(tensor, 0)
        node = self.builder.node(
            op,
            name=self.names[index],
            kind="source",
            outputs=[self.types[index]],
            attrs=attrs,
            groups=[self._group(self.names[index])],
            output_names=[self.names[index]],
        )
        self.producer[index] = (node, 0)
        return node

    def _call(self, id: int, call: FlatTable) -> None:
        code = call.integer(0, "u32")
        op = self.operators[code] if code < len(self.operators) else f"operator {code}"
        outputs = [o for o in call.ints(2) if 0 <= o < len(self.tensors)]
        attrs = _options(call.integer(3, "u8"), call.table(4))
        if call.length(5):
            attrs["custom options"] = f"{call.length(5)} bytes"
        for port, index in enumerate(outputs):
            attrs |= _quantization(self.tensors[index], port)
        bodies = []
        for key, text in attrs.items():
            if key.endswith("subgraph") and 0 <= int(text) < len(self.all_graphs):
                body = self.all_graphs[int(text)]
                # A subgraph that is called names the graph that calls it as its parent.
                if body.index > 0 and body.parent < 0 and body.index != self.builder.index:
                    body.parent = self.builder.index
                bodies.append(body.index)
        name = self.names[outputs[0]] if outputs else ""
        self.builder.node(
            op,
            id=id,
            name=name,
            kind=kind_of(op),
            inputs=[self.producer.get(i, (-1, 0)) for i in call.ints(1)],
            outputs=[self.types[o] for o in outputs],
            attrs=attrs,
            groups=[self._group(name)],
            bodies=bodies,
            output_names=[self.names[o] for o in outputs],
        )

    def _group(self, name: str) -> int:
        # Fused tensors list several names; the last one is that of the result.
        last = [n for n in name.split(";") if n][-1:] or [""]
        path = [p for p in last[0].split("/")[:-1] if p]
        return self.builder.group_path("module", path)


def _type(tensor: FlatTable) -> str:
    number = tensor.integer(1, "i8")
    dtype = TYPES[number] if 0 <= number < len(TYPES) else f"type{number}"
    # The signature keeps -1 where a dimension is free; the shape has a placeholder there.
    dims = tensor.ints(7) or tensor.ints(0)
    return f"{dtype}[{', '.join('?' if d < 0 else str(d) for d in dims)}]"


def _quantization(tensor: FlatTable, port: int) -> dict[str, str]:
    table = tensor.table(4)
    if table is None:
        return {}
    scales, zeros = table.numbers(2, "f32"), table.ints(3, "i64")
    if not scales:
        return {}
    shown = (
        f"scale {_few([f'{s:.7g}' for s in scales])}, zero point {_few([str(z) for z in zeros])}"
    )
    if len(scales) > 1:
        shown += f", axis {table.integer(6)}"
    return {f"output:{port}:quantization": shown}


def _options(kind: int, table: FlatTable | None) -> dict[str, str]:
    out: dict[str, str] = {}
    if table is None or kind not in OPTIONS:
        return out
    for slot, spec in enumerate(OPTIONS[kind].split()):
        name, _, rest = spec.partition(":")
        layout, _, default = rest.partition(":")
        if name == "-":
            continue
        if layout in ENUMS:
            names, number = ENUMS[layout], table.integer(slot, "i8")
            said = names[number] if 0 <= number < len(names) else str(number)
        elif layout == "ints":
            said = str(table.ints(slot))
        elif layout == "string":
            said = table.string(slot)
        elif layout == "bool":
            said = str(bool(table.integer(slot, "u8")))
        elif layout == "f32":
            said = f"{table.number(slot, 'f32', 0.0):.7g}"
        else:
            said = str(table.integer(slot, layout, int(default or 0)))
        if said:
            out[name] = said
    return out


def _few(items: list[str]) -> str:
    if len(items) == 1:
        return items[0]
    more = f" ... ({len(items)})" if len(items) > MAX_SHOWN else ""
    return f"[{', '.join(items[:MAX_SHOWN])}{more}]"
