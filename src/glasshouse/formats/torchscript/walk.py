"""TorchScript methods as nodes: calls of submodules unfolded into groups, branches as bodies.

This follows the text and computes nothing. What it cannot follow is kept as the text that it is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from glasshouse.formats.kinds import kind_of
from glasshouse.formats.source import SourceFile
from glasshouse.formats.torch_weights import WeightTensor
from glasshouse.formats.torchscript.code import Class, Code, ScriptFunction, dotted
from glasshouse.formats.torchscript.values import (
    CallFrame,
    FunctionName,
    Plain,
    Ref,
    ScriptModule,
    Several,
    Space,
    Value,
)
from glasshouse.record import RecordingBuilder

MAX_CALLS = 50  # calls in calls; real models have some twelve
MAX_TEXT = 200
_CASTS = ("annotate", "unchecked_cast")  # of the compiler: (type, value)


class Walk:
    """One pass over the code that a model's method reaches."""

    def __init__(
        self,
        source: SourceFile,
        made: RecordingBuilder,
        code: Code,
        known: Mapping[str, WeightTensor | str],  # attributes of all modules by dotted name
    ) -> None:
        self.source = source
        self.made = made
        self.code = code
        self.known = known
        self.depth = 0

    def model(self, cls: str, method: str) -> None:
        """The graph of a method of the outermost module."""
        builder = self.made.graph(method)
        builder.stage("torchscript")
        space = Space(builder)
        root = self.code.class_of(cls)
        assert root is not None
        definition = root.methods[method]
        inputs = []
        arguments: list[Value] = []
        for argument in definition.args.args[1:]:
            said = dotted(argument.annotation) if argument.annotation else ""
            node = builder.node("Input", name=argument.arg, kind="source", outputs=[said])
            inputs.append(node)
            arguments.append(Ref(space, node))
        result = self._call(definition, root.file, ScriptModule(cls), arguments, {}, space)
        builder.set_io(inputs, [space.local(r) for r in self._refs(result)])

    # ------------------------------------------------------------------------------ statements
    def _call(
        self,
        definition: ast.FunctionDef,
        file: str,
        module: ScriptModule,
        arguments: list[Value],
        keywords: dict[str, Value],
        space: Space,
        *,
        method: bool = True,
    ) -> Value:
        """Unfold a function; a method's first parameter is its module."""
        if self.depth >= MAX_CALLS:
            raise self.source.error(f"calls in calls, more than {MAX_CALLS} deep")
        parameters = definition.args.args
        frame = CallFrame(space, module, file)
        given: list[Value] = [module, *arguments] if method else arguments
        for parameter, default in zip(
            reversed(parameters), reversed(definition.args.defaults), strict=False
        ):
            frame.names[parameter.arg] = self._value(default, frame)
        for parameter, value in zip(parameters, given, strict=False):
            frame.names[parameter.arg] = value
        frame.names.update(keywords)
        self.depth += 1
        self._block(definition.body, frame)
        self.depth -= 1
        return frame.result if frame.result is not None else Plain("None")

    def _block(self, statements: list[ast.stmt], frame: CallFrame) -> None:
        for statement in statements:
            self.source.budget.spend("items")
            if isinstance(statement, ast.Return):
                if statement.value is not None:
                    frame.result = self._value(statement.value, frame)
            elif isinstance(statement, ast.Assign):
                self._assign(statement.targets[0], statement.value, frame)
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assign(statement.target, statement.value, frame)
            elif isinstance(statement, ast.Expr):
                self._value(statement.value, frame)
            elif isinstance(statement, ast.If):
                self._if(statement, frame)
            elif isinstance(statement, (ast.For, ast.While)):
                self._loop(statement, frame)
            elif isinstance(statement, ast.With):
                self._block(statement.body, frame)

    def _assign(self, target: ast.expr, given: ast.expr, frame: CallFrame) -> None:
        if isinstance(target, ast.Name):
            frame.names[target.id] = self._value(given, frame)
        elif isinstance(target, (ast.Tuple, ast.List)):
            count = len(target.elts)
            value = self._value(given, frame, count)
            if not isinstance(value, Several) or len(value.items) != count:
                value = self._node("TupleUnpack", [value], {}, frame, given.lineno, count)
            assert isinstance(value, Several) or count == 1
            parts = value.items if isinstance(value, Several) else (value,)
            for part, item in zip(target.elts, parts, strict=False):
                if isinstance(part, ast.Name):
                    frame.names[part.id] = item
        else:  # an attribute or an element is written
            what = {"to": _text(target)}
            self._node("SetAttr", [self._value(given, frame)], what, frame, target.lineno, 0)

    def _if(self, statement: ast.If, frame: CallFrame) -> None:
        condition = self._value(statement.test, frame)
        if isinstance(condition, Plain) and condition.text in ("True", "False"):
            self._block(statement.body if condition.text == "True" else statement.orelse, frame)
            return
        bodies = [
            self._body(block, frame, name)
            for block, name in ((statement.body, "then"), (statement.orelse, "else"))
        ]
        # What both branches set is what the branch gives; what one sets is its own.
        names = [name for name in bodies[0].names if name in bodies[1].names]
        self._close("If", [condition], bodies, names, frame, statement.lineno)

    def _loop(self, statement: ast.For | ast.While, frame: CallFrame) -> None:
        index = ""
        if isinstance(statement, ast.For):
            over = self._value(statement.iter, frame)
            index = statement.target.id if isinstance(statement.target, ast.Name) else ""
        else:
            over = self._value(statement.test, frame)
        body = self._body(statement.body, frame, "body", index)
        carried = [name for name in body.names if frame.find(name) is not None]
        op = type(statement).__name__
        self._close(op, [over], [body], carried, frame, statement.lineno)

    def _body(
        self, block: list[ast.stmt], frame: CallFrame, name: str, index: str = ""
    ) -> CallFrame:
        """A block in a graph of its own."""
        builder = self.made.graph(name, parent=frame.space.builder.index)
        builder.stage("torchscript")
        inner = CallFrame(Space(builder), frame.module, frame.file, frame)
        if index:
            node = builder.node("Index", name=index, kind="source", outputs=["int"])
            inner.names[index] = Ref(inner.space, node)
        self._block(block, inner)
        return inner

    def _close(
        self,
        op: str,
        operands: list[Value],
        bodies: list[CallFrame],
        names: list[str],
        frame: CallFrame,
        line: int,
    ) -> None:
        """The node of a branch or loop, once its bodies are written."""
        for body in bodies:
            results = [self._ref(body.names[name], body, line) for name in names]
            inside = body.space.builder
            sources = [node for node, _ in body.space.inputs()]
            inside.set_io(sources, [body.space.local(r) for r in results])
        captured = {k: ref for body in bodies for k, ref in body.space.captured.items()}
        graphs = [body.space.builder.index for body in bodies]
        value = self._node(op, [*operands, *captured.values()], {}, frame, line, len(names), graphs)
        parts = value.items if isinstance(value, Several) else (value,)
        for name, part in zip(names, parts, strict=False):
            frame.names[name] = part
        # A return inside of a branch: what it gives is what the branch gives.
        for body in bodies:
            if body.result is not None and frame.result is None:
                frame.result = value

    # ------------------------------------------------------------------------------ expressions
    def _value(self, expression: ast.expr, frame: CallFrame, outputs: int = 1) -> Value:
        if isinstance(expression, ast.Name):
            return frame.find(expression.id) or Plain(expression.id)
        if isinstance(expression, ast.Call):
            return self._call_of(expression, frame, outputs)
        if isinstance(expression, (ast.Tuple, ast.List)):
            return Several(tuple(self._value(e, frame) for e in expression.elts))
        if isinstance(expression, ast.Attribute):
            return self._attribute_of(expression, frame)
        if isinstance(expression, ast.Subscript):
            value = self._value(expression.value, frame)
            index = expression.slice
            if isinstance(value, Several) and isinstance(index, ast.Constant):
                place = index.value
                if isinstance(place, int) and -len(value.items) <= place < len(value.items):
                    return value.items[place]
            return self._node(
                "getitem", [value, self._value(index, frame)], {}, frame, expression.lineno
            )
        if isinstance(expression, ast.Dict):
            values = [self._value(v, frame) for v in expression.values]
            keys = ", ".join(_text(k) for k in expression.keys[:20] if k is not None)
            return self._node("dict", values, {"keys": keys}, frame, expression.lineno)
        if isinstance(expression, ast.IfExp):
            parts = (expression.test, expression.body, expression.orelse)
            operands = [self._value(part, frame) for part in parts]
            return self._node("If", operands, {}, frame, expression.lineno)
        return Plain(_text(expression))

    def _attribute_of(self, expression: ast.Attribute, frame: CallFrame) -> Value:
        name = dotted(expression)
        if name.startswith("CONSTANTS."):
            return self._weight(name, frame, "Constant")
        if name.startswith("__torch__."):
            return FunctionName(name)
        value = self._value(expression.value, frame)
        if isinstance(value, ScriptModule):
            return self._member(value, expression.attr, frame)
        if isinstance(value, (Ref, Several)):
            what = {"name": expression.attr}
            return self._node("getattr", [value], what, frame, expression.lineno)
        return Plain(_text(expression))

    def _member(self, module: ScriptModule, name: str, frame: CallFrame) -> Value:
        """What a module's attribute is: a module, a weight, a constant."""
        cls = self.code.class_of(module.cls)
        type = cls.types.get(name, "") if cls else ""
        if self.code.class_of(type) is not None:
            return ScriptModule(
                type, (*module.path, name), (*module.classes, type.rpartition(".")[2])
            )
        key = ".".join((*module.path, name))
        said = self.known.get(key)
        if isinstance(said, WeightTensor):
            return self._weight(key, frame, "Parameter", module)
        if said is not None:
            return Plain(said)
        constant = cls.constants.get(name) if cls else None
        return Plain(_text(constant) if constant is not None else name)

    def _weight(
        self, key: str, frame: CallFrame, op: str, module: ScriptModule | None = None
    ) -> Ref:
        space = frame.space
        if key not in space.weights:
            said = self.known.get(key)
            owner = module or frame.module
            group = space.builder.group_path("module", owner.path, owner.classes)
            space.weights[key] = space.builder.node(
                op,
                name=key,
                kind="source",
                outputs=[said.type if isinstance(said, WeightTensor) else ""],
                attrs={"bytes": str(said.bytes)} if isinstance(said, WeightTensor) else {},
                groups=[group],
                output_names=[key],
            )
        return Ref(space, space.weights[key])

    def _call_of(self, call: ast.Call, frame: CallFrame, outputs: int) -> Value:
        self.source.budget.spend("items")
        function = call.func
        name = dotted(function)
        arguments = call.args
        if name in _CASTS and len(arguments) == 2:
            return self._value(arguments[1], frame, outputs)
        if name == "uninitialized":
            return Plain("uninitialized")
        if name == "getattr" and len(arguments) >= 2 and isinstance(arguments[1], ast.Constant):
            value = self._value(arguments[0], frame)
            if isinstance(value, ScriptModule):
                return self._member(value, str(arguments[1].value), frame)
        given = [self._value(a, frame) for a in arguments]
        keywords = {k.arg: self._value(k.value, frame) for k in call.keywords if k.arg}
        if isinstance(function, ast.Attribute) and not name.startswith(("torch.", "ops.")):
            unfolded = self._method(function, given, keywords, frame)
            if unfolded is not None:
                return unfolded
        elif isinstance(function, ast.Name):
            value = frame.find(function.id) or Plain("")
            if isinstance(value, FunctionName):
                return self._function(value, given, keywords, frame, call.lineno, outputs)
        op = (name or _text(function)).removeprefix("torch.").removeprefix("ops.")
        attrs = {str(i): v.text for i, v in enumerate(given) if isinstance(v, Plain)}
        attrs |= {k: v.text for k, v in keywords.items() if isinstance(v, Plain)}
        for i, value in enumerate(given):
            if isinstance(value, Several) and all(isinstance(p, Plain) for p in value.items[:8]):
                shown = [p.text for p in value.items[:8] if isinstance(p, Plain)]
                attrs[str(i)] = f"[{', '.join([*shown, '...'] if value.items[8:] else shown)}]"
        operands = [*given, *keywords.values()]
        return self._node(op, operands, attrs, frame, call.lineno, outputs)

    def _method(
        self,
        function: ast.Attribute,
        given: list[Value],
        keywords: dict[str, Value],
        frame: CallFrame,
    ) -> Value | None:
        """A call of a module's method or of a function by its full name; None if it is neither."""
        value = self._value(function.value, frame)
        if isinstance(value, FunctionName):
            full = FunctionName(f"{value.name}.{function.attr}")
            return self._function(full, given, keywords, frame, function.lineno, 1)
        cls = self.code.class_of(value.cls) if isinstance(value, ScriptModule) else None
        if cls is None or function.attr not in cls.methods:
            return None
        assert isinstance(value, ScriptModule)
        definition = cls.methods[function.attr]
        return self._call(definition, cls.file, value, given, keywords, frame.space)

    def _function(
        self,
        function: FunctionName,
        given: list[Value],
        keywords: dict[str, Value],
        frame: CallFrame,
        line: int,
        outputs: int,
    ) -> Value:
        found: Class | ScriptFunction | None = self.code.find(function.name)
        if not isinstance(found, ScriptFunction):
            op = function.name.rpartition(".")[2]
            return self._node(op, [*given, *keywords.values()], {}, frame, line, outputs)
        return self._call(found.definition, found.file, frame.module, given, keywords, frame.space,
                          method=False)  # fmt: skip

    # ------------------------------------------------------------------------------ nodes
    def _node(
        self,
        op: str,
        operands: list[Value],
        attrs: dict[str, str],
        frame: CallFrame,
        line: int,
        outputs: int = 1,
        bodies: list[int] | None = None,
    ) -> Value:
        builder = frame.space.builder
        module = frame.module
        inputs = [frame.space.local(ref) for value in operands for ref in self._refs(value)]
        self.source.budget.spend("items", len(inputs) + outputs)
        node = builder.node(
            op[:MAX_TEXT],
            kind=kind_of(op),
            inputs=inputs,
            outputs=[""] * outputs,
            attrs=attrs,
            groups=[builder.group_path("module", module.path, module.classes)],
            file=frame.file,
            line=line,
            bodies=bodies or [],
        )
        refs = tuple(Ref(frame.space, node, port) for port in range(outputs))
        return refs[0] if outputs == 1 else Several(refs)

    def _refs(self, value: Value) -> list[Ref]:
        """All outputs of nodes in a value, in order; tuples of one tuple unfold, so they count."""
        out: list[Ref] = []
        waiting = [value]
        while waiting:
            here = waiting.pop()
            self.source.budget.spend("items")
            if isinstance(here, Ref):
                out.append(here)
            elif isinstance(here, Several):
                waiting += reversed(here.items)
        return out

    def _ref(self, value: Value, frame: CallFrame, line: int) -> Ref:
        """A value as an output of a node, made if it is none."""
        if isinstance(value, Ref):
            return value
        if isinstance(value, Several):
            made = self._node("tuple", [value], {}, frame, line)
        else:
            text = value.text if isinstance(value, Plain) else str(getattr(value, "path", ""))
            made = self._node("Constant", [], {"value": text}, frame, line)
        assert isinstance(made, Ref)
        return made


def _text(expression: ast.expr) -> str:
    text = ast.unparse(expression)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."
