"""Where a captured node comes from: module path, the user's line, what lies below it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import torch

from glasshouse.ir.origin import Frame, Origin, Scope, Source

_FRAME = re.compile(r'File "(.*?)", line (\d+)(?:, in (\S+))?')
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
GRADIENT_OF = "gradient of"
"""In the meta of a node of a backward graph: the name of the op, in the forward graph, that it is
the gradient of. (`Origin.grad_of` is for nodes of the same graph.)"""
PHASE = "phase of the step"
"""In the meta of a node: the phase that it belongs to, where one graph has several."""
# A module that is called again is entered as "layer@1".
_AGAIN = re.compile(r"@\d+$")


class Sources:
    """The sources of one program's nodes; equal ones are shared."""

    def __init__(
        self,
        model: Any = None,
        strip: str = "",
        labels: tuple[tuple[str, str], ...] = (),
        called: tuple[Frame, ...] = (),
        outside: Scope | None = None,
    ) -> None:
        """`strip` is the name of a module around the user's that nobody should see, and `outside`
        stands for the path of what is in no module. `called` is the line that asked for the
        program: that of ops for which PyTorch knows none."""
        self._classes = (
            {name: type(m).__name__ for name, m in model.named_modules()}
            if isinstance(model, torch.nn.Module)
            else {}
        )
        self._frames: dict[str, tuple[tuple[Frame, ...], tuple[Frame, ...]]] = {}
        self._scopes: dict[tuple[Any, ...], tuple[Scope, ...]] = {}
        self._found: dict[tuple[Any, ...], Source] = {}
        self._strip = strip
        self._labels = labels
        self._called = called
        self._outside = (outside,) if outside is not None else ()

    def origin(self, node: Any, name: str = "", label: str = "") -> Origin:
        """The origin of what an fx node becomes."""
        labels = [("torch op", label), *self._labels] if label else [*self._labels]
        if PHASE in node.meta:
            labels = [*(p for p in labels if p[0] != "phase"), ("phase", node.meta[PHASE])]
        tag = node.meta.get("delegation_tag")
        if tag:
            labels.append(("partition", str(tag)))
        if GRADIENT_OF in node.meta:
            labels.append(("gradient of", node.meta[GRADIENT_OF]))
        return Origin(self.of(node), name or node.name, labels=tuple(labels))

    def of(self, node: Any) -> Source:
        meta = node.meta
        trace = meta.get("stack_trace") or ""
        stack = meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack") or {}
        key = (trace, *stack.items())
        found = self._found.get(key)
        if found is None:
            frames, below = self._stack(trace)
            path = self._path(stack)
            if not any(scope.name for scope in path):
                path = self._outside or path
            if self._called and not below and all(is_library(f.file) for f in frames):
                frames, below = self._called, frames
            found = Source(path, frames, below)
            self._found[key] = found
        return found

    def _stack(self, trace: str) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
        found = self._frames.get(trace)
        if found is None:
            found = self._frames[trace] = split_frames(frames_in(trace))
        return found

    def _path(self, stack: Mapping[str, Any]) -> tuple[Scope, ...]:
        entries = tuple(
            (path, cls if isinstance(cls, str) else f"{cls.__module__}.{cls.__qualname__}")
            for key, (path, cls) in stack.items()
            if not key.startswith("_empty_nn_module_stack")
        )
        found = self._scopes.get(entries)
        if found is None:
            found = self._scopes[entries] = tuple(self._steps(entries))
        return found

    def _steps(self, entries: tuple[tuple[str, str], ...]) -> list[Scope]:
        """One scope for each step of the path, also for containers that are never called."""
        out: list[Scope] = []
        before = ""
        for path, cls in entries:
            path = _AGAIN.sub("", path)
            if self._strip:
                if not path:
                    continue
                inner = path.removeprefix(f"{self._strip}.")
                path = "" if path == self._strip else inner
            short = cls.rsplit(".", 1)[-1]
            if not path:
                out.append(Scope("", short))
                continue
            inside = before and path.startswith(before + ".")
            parts = (path[len(before) + 1 :] if inside else path).split(".")
            at = before if inside else ""
            for i, part in enumerate(parts):
                at = f"{at}.{part}" if at else part
                last = i == len(parts) - 1
                full = f"{self._strip}.{at}" if self._strip else at
                out.append(Scope(part, short if last else self._classes.get(full, "")))
            before = path
        return out


def frames_in(trace: str) -> list[Frame]:
    """The frames that a formatted stack names, outermost first."""
    return [
        Frame(file, int(line), where or "")
        for file, line, where in _FRAME.findall(trace)
        if not is_ours(file)
    ]


def split_frames(frames: list[Frame]) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    """The stack down to the user's innermost line, and PyTorch's own frames below it."""
    last = next((i for i in reversed(range(len(frames))) if not is_library(frames[i].file)), -1)
    if last < 0:
        return tuple(frames), ()
    return tuple(frames[: last + 1]), tuple(frames[last + 1 :])


def is_library(file: str) -> bool:
    """Whether a file is part of PyTorch, whose lines say nothing about the user's model."""
    return file.startswith((_TORCH, "torch/")) or f"{os.sep}torch{os.sep}nn{os.sep}" in file


def is_ours(file: str) -> bool:
    """Whether a file belongs to this frontend."""
    return file.startswith(_OURS)
