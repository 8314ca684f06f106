"""Where an imported node comes from: module path, class names and user's line as left by
the exporter in metadata, else the slashes in node names."""

from __future__ import annotations

import ast
import re
from typing import Any

from glasshouse.ir.origin import Frame, Origin, Scope, Source

_SCOPES, _CLASSES = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy"
_STACK = "pkg.torch.onnx.stack_trace"
_FRAME = re.compile(r'File "(.*?)", line (\d+)(?:, in (\S+))?')
_LIBRARY = re.compile(r"(^|[\\/])(torch|site-packages)[\\/]")


class OnnxSources:
    """The sources of one model's nodes; equal ones are shared."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], Source] = {}

    def origin(self, node: Any, prefix: tuple[Scope, ...] = ()) -> Origin:
        op = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        name = node.name or next((n for n in node.output if n), "")
        return Origin(self.of(node, prefix), name, labels=(("onnx op", op),))

    def of(self, node: Any, prefix: tuple[Scope, ...] = ()) -> Source:
        properties = {p.key: p.value for p in node.metadata_props}
        path = node.name.rpartition("/")[0]
        marks = (properties.get(_SCOPES), properties.get(_CLASSES), properties.get(_STACK))
        key = (prefix, path, *marks)
        found = self._found.get(key)
        if found is None:
            frames, below = _frames(marks[2] or "")
            scopes = (*prefix, *_scopes(path, marks[0], marks[1]))
            found = self._found[key] = Source(scopes, frames, below)
        return found


def called(node: Any, prefix: tuple[Scope, ...]) -> tuple[Scope, ...]:
    """The path of what lies inside a function that a node calls."""
    return (*prefix, Scope(node.name.replace("/", ".").strip(".") or node.op_type, node.op_type))


def _scopes(path: str, names: str | None, classes: str | None) -> tuple[Scope, ...]:
    listed, kinds = _strings(names), _strings(classes)
    if listed and len(listed) == len(kinds):
        out: list[Scope] = []
        before = ""
        # The last entry is the op itself. Each path holds the one before it.
        for full, cls in zip(listed[:-1], kinds[:-1], strict=True):
            if full:
                step = full.removeprefix(before + ".") if before else full
                out.append(Scope(step, cls.rpartition(".")[2]))
                before = full
        return tuple(out)
    return tuple(Scope(part) for part in path.split("/") if part)


def _strings(text: str | None) -> list[str]:
    """A printed Python list of strings; [] for anything else."""
    if not text or len(text) > 10_000 or not text.startswith("["):
        return []
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return value if isinstance(value, list) and all(isinstance(v, str) for v in value) else []


def _frames(trace: str) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    frames = [Frame(f, int(n), where or "") for f, n, where in _FRAME.findall(trace)]
    last = next((i for i in reversed(range(len(frames))) if not _library(frames[i])), -1)
    if last < 0:
        return tuple(frames), ()
    return tuple(frames[: last + 1]), tuple(frames[last + 1 :])


def _library(frame: Frame) -> bool:
    return _LIBRARY.search(frame.file) is not None
