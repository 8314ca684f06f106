"""How an exported program becomes a recording, without torch and without unpickling.

Groups come from the whole `nn_module_stack`, so `encoder.0` and `decoder.0` stay apart; a node's
line is the innermost frame of the user's own code; bodies of `cond` and the like are graphs.
"""

from __future__ import annotations

import re
from typing import Any

from glasshouse.formats.archive import ForeignArchive
from glasshouse.formats.json_stream import read_json
from glasshouse.formats.kinds import kind_of
from glasshouse.formats.pt2 import values
from glasshouse.formats.pt2.values import text
from glasshouse.formats.source import SourceFile
from glasshouse.record import GraphWriter, Recording, RecordingBuilder

GENERATOR = "torch.export"
_FRAME = re.compile(r'File "([^"\n]*)", line (\d{1,9})(?:, in ([^\n]*))?')
_LIBRARY = re.compile(r"(^<)|site-packages|dist-packages|[/\\]torch[/\\](nn|_|fx|utils)")
CONSTANT_INPUT = "Constant input"
_INPUTS = {
    "parameter": ("Parameter", "parameter_name"), "buffer": ("Buffer", "buffer_name"),
    "tensor_constant": ("Constant", "tensor_constant_name"), "user_input": ("Input", ""),
    "custom_obj": ("Object", "custom_obj_name"), "token": ("Token", ""),
    "constant_input": (CONSTANT_INPUT, ""),
}  # fmt: skip


def read(source: SourceFile) -> Recording:
    """The recording of a `.pt2` archive, or of the JSON inside it."""
    made = RecordingBuilder(source.stem, GENERATOR, source.budget)
    programs = _programs(source)
    for name, program in programs:
        _program(source, made, name if len(programs) > 1 else source.stem, program)
    if not made.graphs:
        raise source.error("an exported program without a graph")
    return made.finish()


def _programs(source: SourceFile) -> list[tuple[str, Any]]:
    if source.head[:2] != b"PK":
        if source.head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in (b"{", b"["):
            begins = source.head[:4].hex(" ")
            raise source.error(
                "not an exported program: torch.export.save writes a ZIP archive, and this file "
                f"begins with the bytes {begins}"
            )
        return [(source.stem, read_json(source))]
    out = []
    with ForeignArchive(source) as archive:
        for name in archive.names:
            short = name.partition("/")[2] if "/models/" in f"/{name}" else name
            if name.endswith("serialized_exported_program.json"):
                title = source.stem
            elif (f"/{short}").startswith("/models/") and name.endswith(".json"):
                title = name.rpartition("/")[2].removesuffix(".json")
            else:
                continue
            part = SourceFile(archive.read(name), f"{source.name}: {name}", source.budget)
            out.append((title, read_json(part)))
    return out


def _program(source: SourceFile, made: RecordingBuilder, name: str, program: Any) -> None:
    module = program.get("graph_module") if isinstance(program, dict) else None
    graph = module.get("graph") if isinstance(module, dict) else None
    if not isinstance(module, dict) or not isinstance(graph, dict):
        raise source.error("an exported program without graph_module.graph")
    for fact in ("torch_version", "schema_version", "opset_version"):
        if fact in program:
            made.facts[fact.replace("_", " ")] = text(program[fact])
    builder = made.graph(name)
    builder.stage("exported")
    for symbol, bounds in _dict(program.get("range_constraints")).items():
        low, high = _dict(bounds).get("min_val"), _dict(bounds).get("max_val")
        builder.attrs[f"range {symbol}"] = f"{text(low)}..{text(high)}"
    signature = _dict(module.get("signature"))
    roles = _roles(signature)
    # Bodies are read after the graph that holds them, from a list: nesting costs no recursion.
    waiting: list[tuple[GraphWriter, dict[str, Any], dict[str, tuple[str, str]]]] = []
    waiting.append((builder, graph, roles))
    while waiting:
        target, raw, role_of = waiting.pop()
        waiting += [(b, g, {}) for b, g in _Pt2Graph(made, target, raw, role_of).read()]
    for i, spec in enumerate(_list(signature.get("output_specs"))):
        for kind, inner in _dict(spec).items():
            if kind != "user_output" and isinstance(inner, dict):
                what = [text(v) for k, v in inner.items() if k.endswith("_name")]
                builder.attrs[f"output {i}"] = " ".join([kind.replace("_", " "), *what])


def _roles(signature: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Op and target of each input by name: ("Parameter", "layers.0.weight")."""
    out = {}
    for spec in _list(signature.get("input_specs")):
        for kind, inner in _dict(spec).items():
            if kind not in _INPUTS or not isinstance(inner, dict):
                continue
            op, field = _INPUTS[kind]
            argument = inner.get("arg")
            name = inner.get("name")
            if isinstance(argument, dict):
                name = argument.get("name")
                for _, named in values.operands(argument):
                    name = named
            if name is not None:
                out[text(name)] = (op, text(inner.get(field)) if field else "")
    return out


class _Pt2Graph:
    def __init__(
        self,
        made: RecordingBuilder,
        builder: GraphWriter,
        raw: dict[str, Any],
        roles: dict[str, tuple[str, str]],
    ) -> None:
        self.made = made
        self.builder = builder
        self.raw = raw
        self.roles = roles
        self.producer: dict[str, tuple[int, int]] = {}
        self.types: dict[str, str] = {}
        for name, meta in _dict(raw.get("tensor_values")).items():
            self.types[name] = values.tensor_type(meta)
        for table, kind in (("sym_int_values", "int"), ("sym_bool_values", "bool"),
                            ("sym_float_values", "float")):  # fmt: skip
            for name, meta in _dict(raw.get(table)).items():
                self.types[name] = f"{kind} {values.size(meta)}"

    def read(self) -> list[tuple[GraphWriter, dict[str, Any]]]:
        """Adds all nodes; returns the bodies that are still to be read."""
        bodies: list[tuple[GraphWriter, dict[str, Any]]] = []
        inputs = []
        unnamed = [name for name, (op, _) in self.roles.items() if op == CONSTANT_INPUT]
        for argument in _list(self.raw.get("inputs")):
            named = [name for _, name in values.operands(argument)]
            said = values.constant(argument)
            if not named and said is not None and unnamed:
                # A plain number: only the signature says what it is called.
                inputs.append(self._input(unnamed.pop(0), said))
            inputs += [self._input(name) for name in named]
        for raw in _list(self.raw.get("nodes")):
            if isinstance(raw, dict):
                bodies += self._node(raw)
        outputs = [
            self.producer[name]
            for argument in _list(self.raw.get("outputs"))
            for _, name in values.operands(argument)
            if name in self.producer
        ]
        self.builder.set_io(inputs, outputs)
        return bodies

    def _input(self, name: str, value: str = "") -> int:
        op, target = self.roles.get(name, ("Input", ""))
        path = target.split(".")[:-1] if target else []
        attrs = {"target": target} if target else {}
        node = self.builder.node(
            op,
            name=name,
            kind="source",
            outputs=[self.types.get(name, "")],
            attrs=attrs | ({"value": value} if value else {}),
            groups=[self.builder.group_path("module", path)],
            output_names=[name],
        )
        self.producer[name] = (node, 0)
        return node

    def _node(self, raw: dict[str, Any]) -> list[tuple[GraphWriter, dict[str, Any]]]:
        target = text(raw.get("target")).removeprefix("torch.ops.")
        metadata = _dict(raw.get("metadata"))
        inputs, input_names, attrs, bodies = [], [], {}, []
        for place, argument in enumerate(_list(raw.get("inputs"))):
            named = _dict(argument)
            name, given = text(named.get("name", "")), named.get("arg")
            for suffix, value in values.operands(given):
                inputs.append(self.producer.get(value, (-1, 0)))
                input_names.append(name + suffix)
            for title, graph in values.graphs(given):
                bodies.append((self.made.graph(title, parent=self.builder.index), graph))
            said = values.constant(given)
            if said is not None:
                attrs[name or str(place)] = said
        outputs = [n for a in _list(raw.get("outputs")) for _, n in values.operands(a)]
        frames = frames_of(text(metadata.get("stack_trace", "")))
        file, line = user_line(frames)
        attrs |= {
            # "relu_2;function.relu": which call of all relus it was says nothing of this one.
            k: text(v).rpartition(";")[2] if k == "torch_fn" else text(v)
            for k, v in metadata.items()
            if k not in ("stack_trace", "nn_module_stack", "from_node")
        }
        id = self.builder.node(
            target,
            name=text(raw.get("name")) if raw.get("name") else (outputs[0] if outputs else ""),
            kind=kind_of(target),
            inputs=inputs,
            outputs=[self.types.get(n, "") for n in outputs],
            attrs=attrs,
            groups=[self._group(text(metadata.get("nn_module_stack", "")))],
            file=file,
            line=line,
            bodies=[b.index for b, _ in bodies],
            output_names=outputs,
            input_names=input_names if any(input_names) else [],
            frames=[f"{f}:{n} {where}".rstrip() for f, n, where in frames],
        )
        for port, name in enumerate(outputs):
            self.producer[name] = (id, port)
        for body, _ in bodies:
            body.stage("exported")
        return bodies

    def _group(self, stack: str) -> int:
        path, classes = module_path(stack)
        return self.builder.group_path("module", path, classes)


def module_path(stack: str) -> tuple[list[str], list[str]]:
    """Names and classes of the modules around a node, the root left out.

    An entry is "key,path,class"; a path is that of its module from the root, so what it adds to the
    path of the entry before it names the groups in between: a ModuleList has no entry of its own.
    """
    names: list[str] = []
    classes: list[str] = []
    before = ""
    for entry in stack.split(";"):
        parts = entry.split(",")
        if len(parts) < 3:
            continue
        path, cls = parts[-2].strip(), parts[-1].strip().rpartition(".")[2]
        if not path:
            continue
        added = path.removeprefix(before + ".") if before else path
        for step in added.split("."):
            names.append(step)
            classes.append("")
        classes[-1] = cls
        before = path
    return names, classes


def frames_of(trace: str) -> list[tuple[str, int, str]]:
    """File, line and function of each frame of a printed stack, innermost last."""
    return [(f, int(n), where or "") for f, n, where in _FRAME.findall(trace)]


def user_line(frames: list[tuple[str, int, str]]) -> tuple[str, int]:
    """The innermost frame that is not of a library."""
    for file, line, _ in reversed(frames):
        if not _LIBRARY.search(file):
            return file, line
    return frames[-1][:2] if frames else ("", 0)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
