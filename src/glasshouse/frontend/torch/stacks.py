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
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.fx import traceback as fx_traceback
from torch.fx.proxy import TracerBase
from torch.utils import _traceback

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
    """Frames that are written as Python writes them, but for the text of their lines.

    Equal stacks are one string for all ops that have it: a Llama of 22 layers has 1,300 ops, whose
    stacks take 1.8 MB one by one. The text would be read a whole file at a time: 1 MB of
    transformers' for a model of its own.
    """

    def format(self) -> list[str]:
        return [_text(tuple((f.filename, f.lineno, f.name) for f in self))]


@functools.lru_cache(maxsize=1024)
def _text(frames: tuple[tuple[str, int, str], ...]) -> str:
    return "\n".join(f'File "{file}", line {line}, in {name}' for file, line, name in frames)


def _frames(symbolized: Any, skip: int) -> traceback.StackSummary:
    """A stack as PyTorch makes it, whose lines are looked up when somebody asks for their text:
    those of every frame of every op otherwise, 4 MB of files while a model is captured."""
    stack = traceback.StackSummary()
    stack.extend(
        traceback.FrameSummary(f["filename"], f["line"], f["name"], lookup_line=False)
        for f in reversed(symbolized[skip:])
    )
    return stack


@contextmanager
def users_lines() -> Iterator[None]:
    """While it lasts, tracers of PyTorch write down what `kept` keeps."""

    def filtered(_: Any, stack: Any) -> _Stack:
        return _Stack(kept(stack))

    # PyTorch reads its own files when it is imported, and Python keeps their text: 1 MB.
    _forget_texts(f for f in _with_texts() if f.startswith(_PYTORCH))
    known = set(_with_texts())
    before = TracerBase._filter_traceback_frames, _traceback._extract_symbolized_tb
    TracerBase._filter_traceback_frames = filtered
    _traceback._extract_symbolized_tb = _frames
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames, _traceback._extract_symbolized_tb = before
        # A mode of fake tensors keeps the stack that it was made on, with the text of its lines:
        # 1.4 MB of whole files, read once more where a traceback needs a line of one.
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
