"""Which lines PyTorch writes down for each op that it captures.

PyTorch keeps the lines of functions called `forward`. A user's model calls plain functions too, so
while we capture, every frame from the outermost `forward` inwards is kept, but for PyTorch's own
machinery; of PyTorch's own files, those of layers stay.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.fx.proxy import TracerBase

from glasshouse.frontend.torch.source import is_library, is_ours
from glasshouse.ir.origin import Frame

_PACKAGE = str(Path(__file__).resolve().parents[2]) + os.sep
_SCRIPTS = sysconfig.get_path("scripts") + os.sep
_HELPERS = {contextlib.__file__, functools.__file__}
_PYTORCH = os.path.dirname(torch.__file__) + os.sep
_LAYERS = re.compile(r"torch[/\\]nn[/\\]modules[/\\](?!module\.py)")


def kept(stack: Any) -> list[Any]:
    """The frames of a model's code among those of a whole stack, outermost first."""
    found: list[Any] = []
    inside = False
    for frame in stack:
        told = _is_told(frame.filename)
        inside = inside or (frame.name == "forward" and (told or is_ours(frame.filename)))
        if inside and told:
            found.append(frame)
    return found


def calling_line() -> tuple[Frame, ...]:
    """The innermost line of the stack that is the user's: what asked for a model to be captured."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        hidden = file.startswith((_PACKAGE, _SCRIPTS, "<")) or file in _HELPERS
        if not (hidden or is_library(file)):
            return (Frame(file, frame.f_lineno, frame.f_code.co_name),)
        frame = frame.f_back
    return ()


@functools.cache
def _is_told(file: str) -> bool:
    if is_library(file):
        return _LAYERS.search(file) is not None
    return not is_ours(file)


class _Stack(list[Any]):
    """Frames that are written as Python writes them; each line is made once, for speed."""

    def format(self) -> list[str]:
        return [_text(f.filename, f.lineno, f.name) for f in self]


@functools.cache
def _text(file: str, line: int, function: str) -> str:
    code = linecache.getline(file, line).strip()
    return f'  File "{file}", line {line}, in {function}\n    {code}\n'


@contextmanager
def users_lines() -> Iterator[None]:
    """While it lasts, tracers of PyTorch write down what `kept` keeps."""

    def filtered(_: Any, stack: Any) -> _Stack:
        return _Stack(kept(stack))

    # PyTorch reads its own files when it is imported, and Python keeps their text: 1 MB.
    _forget_texts(f for f in _with_texts() if f.startswith(_PYTORCH))
    known = set(_with_texts())
    before = TracerBase._filter_traceback_frames
    TracerBase._filter_traceback_frames = filtered
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = before
        # Those of the stacks, of whole files for a line of each: 3 MB of PyTorch's, 1 of
        # transformers'. Read once more where a traceback needs a line of it.
        _forget_texts(f for f in _with_texts() if f not in known)


def _with_texts() -> list[str]:
    """Files whose text Python holds: not what was never in a file (a cell, code that was made), and
    not where it has yet to look."""
    held = list(linecache.cache.items())
    return [file for file, entry in held if len(entry) > 1 and entry[1] is not None]


def _forget_texts(files: Iterable[str]) -> None:
    for file in files:
        linecache.cache.pop(file, None)


@contextmanager
def module_paths(model: torch.nn.Module) -> Iterator[None]:
    """While it lasts, nodes that any tracer makes say which modules they were made in."""
    inside: list[dict[str, tuple[str, type]]] = [{}]

    def tell() -> None:
        fx_traceback.current_meta["nn_module_stack"] = inside[-1]

    def enter(path: str, module: Any, _: Any) -> None:
        inside.append({**inside[-1], path: (path, type(module))})
        tell()

    def leave(*_: Any) -> None:
        inside.pop()
        tell()

    hooks = []
    with fx_traceback.preserve_node_meta():
        try:
            for path, module in model.named_modules():
                if isinstance(module, torch.jit.ScriptModule):  # takes no hooks
                    continue
                hooks.append(module.register_forward_pre_hook(functools.partial(enter, path)))
                hooks.append(module.register_forward_hook(leave, always_call=True))
            yield
        finally:
            fx_traceback.current_meta.pop("nn_module_stack", None)
            for hook in hooks:
                hook.remove()
