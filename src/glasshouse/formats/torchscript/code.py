"""The `code/` of a TorchScript archive: classes and functions by qualified name, parsed on demand.

The text is Python's grammar, so `ast` reads it; it is never compiled or run.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field

from glasshouse.formats.archive import ForeignArchive
from glasshouse.record import RecordingBuilder

TREE = 50  # bytes that a character of text takes as a tree, measured on scripted models: 35 to 45


@dataclass
class Class:
    """A class of the archive: the types of its attributes, its constants and its methods."""

    file: str
    types: dict[str, str] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)
    methods: dict[str, ast.FunctionDef] = field(default_factory=dict)


@dataclass
class ScriptFunction:
    file: str
    definition: ast.FunctionDef


def dotted(expression: ast.expr) -> str:
    """The name that a chain of attributes spells: "torch.nn.Linear"; "" for anything else."""
    parts = []
    while isinstance(expression, ast.Attribute):
        parts.append(expression.attr)
        expression = expression.value
    if not isinstance(expression, ast.Name):
        return ""
    return ".".join([expression.id, *reversed(parts)])


class Code:
    """All code of an archive; a file is read when something in it is asked for."""

    def __init__(self, archive: ForeignArchive, made: RecordingBuilder) -> None:
        self.archive = archive
        self.made = made
        self._members: dict[str, str] = {}  # "__torch__/torch/nn.py" -> name of the member
        for name in archive.names:
            outer, inside, path = f"/{name}".partition("/code/")
            if inside and path.endswith(".py") and outer.count("/") <= 1:
                self._members.setdefault(path, name)
        self._read: dict[str, dict[str, Class | ScriptFunction]] = {}

    def find(self, name: str) -> Class | ScriptFunction | None:
        """A class or function by its qualified name: "__torch__.Net"."""
        module, _, last = name.rpartition(".")
        path = module.replace(".", "/") + ".py"
        if path not in self._members:
            return None
        if path not in self._read:
            self._read[path] = self._parse(path)
        return self._read[path].get(last)

    def class_of(self, name: str) -> Class | None:
        found = self.find(name)
        return found if isinstance(found, Class) else None

    def _parse(self, path: str) -> dict[str, Class | ScriptFunction]:
        member, source = self._members[path], self.archive.source
        raw = self.archive.read(member)
        source.budget.spend("decoded_bytes", TREE * len(raw))
        text = raw.decode("utf-8", "replace")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strings with odd escapes
                tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 1
            raise source.error(f"member {member[:80]!r} is no TorchScript (line {line})") from None
        file = f"code/{path}"
        self.made.source(file, text)
        out: dict[str, Class | ScriptFunction] = {}
        for item in tree.body:
            if isinstance(item, ast.ClassDef):
                out[item.name] = _class(file, item)
            elif isinstance(item, ast.FunctionDef):
                out[item.name] = ScriptFunction(file, item)
        return out


def _class(file: str, definition: ast.ClassDef) -> Class:
    out = Class(file)
    for item in definition.body:
        if isinstance(item, ast.FunctionDef):
            out.methods[item.name] = item
        elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            out.types[item.target.id] = dotted(item.annotation)
            if item.value is not None:
                out.constants[item.target.id] = item.value
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Subscript):
            # A name that is no identifier: __annotations__["0"] = __torch__.torch.nn.Linear
            key = item.targets[0].slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                out.types[key.value] = dotted(item.value)
    return out
