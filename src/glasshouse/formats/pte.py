"""How an ExecuTorch program becomes a recording: instructions as nodes, values as edges.

An instruction lists the values that it reads and writes without telling them apart. A tensor that
is neither an input, nor has data, nor was written before is what the instruction writes; a value
mentioned twice at the end is written too. Delegates become nodes with the size of their blob, and
the grouping `partition` tells which nodes run where.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.formats.flatbuffer import FlatBuffer, FlatTable
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder

GENERATOR = "executorch"
_DTYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32",
    7: "float64", 8: "complex32", 9: "complex64", 10: "complex128", 11: "bool", 12: "qint8",
    13: "quint8", 14: "qint32", 15: "bfloat16", 16: "quint4x2", 17: "quint2x4", 22: "bits16",
    23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz",
    27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
_DYNAMISM = {1: "dynamic, bounded", 2: "dynamic"}
_KERNEL, _DELEGATE, _MOVE, _JUMP, _FREE = 1, 2, 3, 4, 5
_NULL, _INT, _BOOL, _DOUBLE, _TENSOR, _STRING, _INTS, _DOUBLES, _BOOLS, _TENSORS, _OPTIONAL = range(
    1, 12
)


@dataclass
class PlanValue:
    """An entry of a plan's value table."""

    kind: int
    text: str = ""  # a scalar or list, as printed
    type: str = ""  # of a tensor
    items: list[int] = field(default_factory=list)
    has_data: bool = False
    attrs: dict[str, str] = field(default_factory=dict)
    name: str = ""


def read(source: SourceFile) -> Recording:
    """The recording of a `.pte` file: a graph for each method."""
    buffer = FlatBuffer(source, source.data())
    if buffer.data[4:6] != b"ET":
        raise source.error("not an ExecuTorch program")
    program = buffer.root()
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    made.facts["schema version"] = str(program.integer(0, "u32"))
    segments = program.tables(4)
    if segments:
        sizes = [s.integer(1, "u64") for s in segments]
        made.facts["segments"] = f"{len(sizes)}, {sum(sizes)} bytes"
    plans = program.tables(1)
    if not plans:
        raise source.error("an ExecuTorch program without a method")
    inline = program.tables(3)
    for plan in plans:
        _Plan(plan, made.graph(plan.string(0) or "method"), inline, segments).read()
    return made.finish()


class _Plan:
    def __init__(
        self,
        plan: FlatTable,
        graph: GraphWriter,
        inline: list[FlatTable],
        segments: list[FlatTable],
    ) -> None:
        self.inline = inline
        self.segments = segments
        self.plan = plan
        self.graph = graph
        self.values = [_value(t) for t in plan.tables(2)]
        for value in self.values:
            if value.kind == _INTS:
                # The items of an integer list are themselves values.
                value.text = f"[{', '.join(self._scalar(i) for i in value.items)}]"
        self.producer: dict[int, tuple[int, int]] = {}
        self.operators = plan.tables(6)
        self.delegates = plan.tables(7)
        self.groups: dict[str, int] = {}

    def read(self) -> None:
        graph, plan = self.graph, self.plan
        graph.stage("program")
        memory = plan.ints(8, "i64")
        if memory:
            graph.attrs["memory"] = f"{sum(memory)} bytes in {len(memory)} arenas"
        inputs = []
        for place, index in enumerate(plan.ints(3)):
            value = self._at(index)
            if value is None:
                continue
            node = graph.node(
                "Input",
                name=f"input {place}",
                kind="source",
                outputs=[value.type or value.text],
                attrs=_output_attrs(0, value),
            )
            self.producer[index] = (node, 0)
            inputs.append(node)
        for chain in plan.tables(5):
            stacks = chain.tables(3)
            for place, instruction in enumerate(chain.tables(2)):
                frames = stacks[place].tables(0) if place < len(stacks) else []
                self._instruction(instruction, frames, place)
        outputs = [self._operand(i) for i in plan.ints(4)]
        graph.set_io(inputs, [o for o in outputs if o is not None])

    # ---------------------------------------------------------------------------- instructions
    def _instruction(self, instruction: FlatTable, frames: list[FlatTable], place: int) -> None:
        kind, call = instruction.integer(0, "u8"), instruction.table(1)
        if call is None:
            return
        where = [(f.string(0), max(f.integer(1), 0), f.string(2)) for f in frames]
        if kind == _KERNEL:
            index = call.integer(0)
            name = self._operator(index)
            self._call(name, call.ints(1), {}, "portable kernels", where)
        elif kind == _DELEGATE:
            self._delegate(call, where)
        elif kind == _MOVE:
            self._call("move", [call.integer(0), call.integer(1)], {}, "", where)
        elif kind == _JUMP:
            attrs = {"to instruction": str(call.integer(1)), "instruction": str(place)}
            self._call("jump_if_false", [call.integer(0)], attrs, "", where)
        elif kind == _FREE:
            self._call("free", [call.integer(0)], {}, "", where)

    def _operator(self, index: int) -> str:
        if not 0 <= index < len(self.operators):
            return f"operator {index}"
        operator = self.operators[index]
        name, overload = operator.string(0).replace("::", "."), operator.string(1)
        return f"{name}.{overload}" if overload else name

    def _delegate(self, call: FlatTable, where: list[tuple[str, int, str]]) -> None:
        index = call.integer(0)
        attrs = {"delegate": str(index)}
        backend = "unknown backend"
        if 0 <= index < len(self.delegates):
            delegate = self.delegates[index]
            backend = delegate.string(0) or backend
            attrs["backend"] = backend
            attrs["blob bytes"] = str(self._blob(delegate.table(1)))
            for spec in delegate.tables(2):
                raw = bytes(b & 255 for b in spec.ints(1, "u8")[:64])
                attrs[f"spec {spec.string(0)}"] = raw.hex(" ")
        self._call("executorch_call_delegate", call.ints(1), attrs, f"{index} {backend}", where)

    def _blob(self, reference: FlatTable | None) -> int:
        """How large a delegate's data is."""
        if reference is None:
            return 0
        inline, index = reference.integer(0, "u8") == 0, reference.integer(1, "u32")
        tables = self.inline if inline else self.segments
        if index >= len(tables):
            return 0
        return tables[index].length(0) if inline else tables[index].integer(1, "u64")

    def _call(
        self,
        op: str,
        arguments: list[int],
        attrs: dict[str, str],
        partition: str,
        where: list[tuple[str, int, str]],
    ) -> None:
        written = self._written(op, arguments)
        is_written = set(written)
        inputs: list[tuple[int, int]] = []
        said: dict[str, str] = {}
        for place, index in enumerate(arguments):
            value = self._at(index)
            if value is None or index in is_written:
                continue
            if value.kind in (_TENSORS, _OPTIONAL):
                # A list that only repeats what is written adds no edge.
                found = [self._operand(i) for i in value.items if i not in is_written]
                inputs += [operand for operand in found if operand is not None]
            elif value.kind == _TENSOR:
                operand = self._operand(index)
                inputs += [operand] if operand is not None else []
            else:
                said[f"argument {place}"] = value.text
        outputs = [self.values[i] for i in written]
        for port, value in enumerate(outputs):
            said |= _output_attrs(port, value)
        group = -1
        if partition:
            if partition not in self.groups:
                self.groups[partition] = self.graph.group("partition", partition)
            group = self.groups[partition]
        node = self.graph.node(
            op,
            kind=kind_of(op),
            inputs=inputs,
            outputs=[v.type for v in outputs],
            attrs=attrs | said,
            groups=[group],
            output_names=[v.name for v in outputs] if any(v.name for v in outputs) else [],
            file=where[-1][0] if where else "",
            line=where[-1][1] if where else 0,
            frames=[f"{file}:{line} {name}".rstrip() for file, line, name in where],
        )
        for port, index in enumerate(written):
            self.producer[index] = (node, port)

    def _written(self, op: str, arguments: list[int]) -> list[int]:
        """Which of its values an instruction writes, in order."""
        if op in ("free", "jump_if_false"):
            return []
        flat: list[int] = []
        for index in arguments:
            value = self._at(index)
            if value is not None:
                flat += value.items if value.kind in (_TENSORS, _OPTIONAL) else [index]
        found: dict[int, None] = {}
        for index in flat:
            value = self._at(index)
            fresh = value is not None and value.kind == _TENSOR and not value.has_data
            if fresh and index not in self.producer and index not in found:
                found[index] = None
        if not found and arguments:
            last = arguments[-1]
            again = op == "move" or last in arguments[:-1]
            value = self._at(last)
            if again and value is not None and value.kind not in (_TENSORS, _OPTIONAL):
                found[last] = None
        return list(found)

    # ---------------------------------------------------------------------------- values
    def _at(self, index: int) -> PlanValue | None:
        return self.values[index] if 0 <= index < len(self.values) else None

    def _scalar(self, index: int) -> str:
        value = self._at(index)
        return value.text if value is not None else "?"

    def _operand(self, index: int) -> tuple[int, int] | None:
        """Who made a tensor; a constant becomes a node when first read."""
        value = self._at(index)
        if index in self.producer:
            return self.producer[index]
        if value is None or value.kind != _TENSOR:
            return None
        node = self.graph.node(
            "Constant" if value.has_data else "Uninitialised",
            name=value.name,
            kind="source",
            outputs=[value.type],
            attrs=_output_attrs(0, value),
            output_names=[value.name] if value.name else [],
        )
        self.producer[index] = (node, 0)
        return self.producer[index]


def _value(entry: FlatTable) -> PlanValue:
    kind, inner = entry.integer(0, "u8"), entry.table(1)
    if inner is None or kind == _NULL:
        return PlanValue(_NULL, "None")
    if kind == _INT:
        return PlanValue(kind, str(inner.integer(0, "i64")))
    if kind == _BOOL:
        return PlanValue(kind, str(bool(inner.integer(0, "u8"))))
    if kind == _DOUBLE:
        return PlanValue(kind, str(inner.number(0, "f64", 0.0)))
    if kind == _STRING:
        return PlanValue(kind, inner.string(0))
    if kind in (_INTS, _TENSORS, _OPTIONAL):
        return PlanValue(kind, items=inner.ints(0, "i64" if kind == _INTS else "i32"))
    if kind in (_DOUBLES, _BOOLS):
        return PlanValue(kind, str(inner.numbers(0, "f64" if kind == _DOUBLES else "bool")))
    if kind == _TENSOR:
        return _tensor(inner)
    return PlanValue(kind, f"value of kind {kind}")


def _tensor(table: FlatTable) -> PlanValue:
    dtype = table.integer(0, "i8")
    sizes = ", ".join(map(str, table.ints(2)))
    value = PlanValue(_TENSOR, type=f"{_DTYPES.get(dtype, f'type{dtype}')}[{sizes}]")
    order = table.ints(3, "u8")
    if order != list(range(len(order))):
        value.attrs["dimension order"] = str(order)
    allocation = table.table(6)
    if allocation is not None:
        offset = allocation.integer(1, "u32") | allocation.integer(2, "u32") << 32
        value.attrs["memory"] = f"arena {allocation.integer(0, 'u32')}, offset {offset}"
    dynamism = table.integer(8, "i8")
    if dynamism in _DYNAMISM:
        value.attrs["shape"] = _DYNAMISM[dynamism]
    extra = table.table(9)
    if extra is not None:
        value.name = extra.string(1)
        if extra.integer(2, "i8") == 1:
            value.attrs["data"] = "in another file"
            value.has_data = True
    value.has_data = value.has_data or table.integer(5, "u32") > 0
    return value


def _output_attrs(port: int, value: PlanValue) -> dict[str, str]:
    return {f"output:{port}:{key}": text for key, text in value.attrs.items()}
