"""Where in the user's code a node comes from: module path and stack, at little cost a node.

A `Place` is one call of a module in the module hierarchy, at one line of the user's code. Places
form a tree and live as long as the process, so that a model which is called again finds its places,
and an op at the same line finds its `Origin`: a walk over the frames between the op and the call of
the innermost module (usually one of the user's and five of ours), and a dictionary look-up.

Frames of Glasshouse are hidden, except for the models that come with it, which are read like a
user's. So are frames of the standard library, and whatever launched the user's code (pytest, a
notebook's kernel).
"""

from __future__ import annotations

import inspect
import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from glasshouse.ir.origin import Frame, Origin, Scope, Source
from glasshouse.tensor.state import STATE, Labels

_HIDDEN, _LIBRARY, _USER = 0, 1, 2

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_MODELS = os.path.join(_PACKAGE, "nn", "models") + os.sep
_STDLIB = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_SCRIPTS = sysconfig.get_path("scripts") + os.sep
# Of this environment or of any other that it sees: a user's own, one beneath it, a target folder.
_INSTALLED = re.compile(r"[\\/](site|dist)-packages[\\/]")

# Keyed by id: the hash of a code object reads all of its constants.
_kinds: dict[int, int] = {}
_classified_codes: list[CodeType] = []
"""Keeps their ids from being used again."""

Key = tuple[int, ...]  # id of code and instruction, in turn, innermost first


class Place:
    """A module call at a line of the user's code; the root is "outside of any module"."""

    __slots__ = ("calls", "children", "frames", "origins", "scopes")

    def __init__(self, scopes: tuple[Scope, ...], frames: tuple[Frame, ...]) -> None:
        self.scopes = scopes
        self.frames = frames
        self.origins: dict[tuple[Labels, Key], Origin] = {}
        self.children: dict[tuple[str, str, Key], Place] = {}
        self.calls: dict[Any, Any] = {}  # functions that are called from here (`calls.py`)


ROOT = Place((), ())


def current_origin(frame: FrameType) -> Origin:
    """The origin of what is made now; `frame` is where to begin looking."""
    state = STATE.own
    if state.origin is not None:
        return state.origin
    place = state.place or ROOT
    key = walked(frame, state.boundary)
    labels = state.labels
    found = place.origins.get((labels, key))
    if found is None:
        frames = _stack(place, frame, state.boundary)
        found = Origin(Source(place.scopes, frames), labels=labels)
        place.origins[labels, key] = found
    return found


@contextmanager
def scope(name: str, cls: str) -> Iterator[None]:
    """Nodes made inside are in the module `name`, called where the user's innermost frame is."""
    state = STATE.own
    before = (state.place, state.boundary, state.owner)
    frame = sys._getframe(2)  # below this generator and contextlib's __enter__
    state.place = enter(state.place or ROOT, name, cls, frame, state.boundary)
    state.boundary = frame
    state.owner = None
    try:
        yield
    finally:
        state.place, state.boundary, state.owner = before


def enter(
    place: Place, name: str, cls: str, frame: FrameType | None, boundary: FrameType | None
) -> Place:
    """The place of a module below `place`, called from `frame`."""
    key = walked(frame, boundary)
    child = place.children.get((name, cls, key))
    if child is None:
        frames = _stack(place, frame, boundary)
        file, line = (frames[-1].file, frames[-1].line) if frames else ("", 0)
        child = Place((*place.scopes, Scope(name, cls, file, line)), frames)
        place.children[name, cls, key] = child
    return child


def caller_name(thing: object, frame: FrameType | None, default: str) -> str:
    """The name by which the user's innermost frame knows an object: `model`, `opt`."""
    while frame is not None:
        code = frame.f_code
        if _kind(code) == _USER:
            found = _name_in(frame.f_locals, thing)
            if sys.version_info < (3, 13) and code.co_flags & inspect.CO_OPTIMIZED:
                # Before 3.13, reading a function's locals leaves a copy of them in its frame, which
                # would keep alive what the user deletes. The locals themselves are elsewhere.
                frame.f_locals.clear()
            return found or _name_in(frame.f_globals, thing) or default
        frame = frame.f_back
    return default


def _name_in(names: Mapping[str, object], thing: object) -> str:
    return next((n for n, v in names.items() if v is thing and not n.startswith("_")), "")


def walked(frame: FrameType | None, boundary: FrameType | None) -> Key:
    """Which instructions of the user's are under way, up to the call of the innermost module."""
    key: list[int] = []
    kinds = _kinds
    while frame is not None and frame is not boundary:
        code = frame.f_code
        ident = id(code)
        if kinds[ident] if ident in kinds else _kind(code):
            key += (ident, frame.f_lasti)
        frame = frame.f_back
    return tuple(key)


def _stack(place: Place, frame: FrameType | None, boundary: FrameType | None) -> tuple[Frame, ...]:
    """The stack, outermost first. What launched the user's code stands before its first frame."""
    found: list[tuple[Frame, bool]] = []
    while frame is not None and frame is not boundary:
        code = frame.f_code
        kind = _kind(code)
        if kind:
            made = Frame(code.co_filename, frame.f_lineno, code.co_name)
            found.append((made, kind == _USER))
        frame = frame.f_back
    found.reverse()
    first = 0
    if not place.frames:
        user = [i for i, (_, is_user) in enumerate(found) if is_user]
        # `python -c` often starts a launcher (pytest-xdist): it counts only if nothing else does.
        in_files = [i for i in user if found[i][0].file != "<string>"]
        first = next(iter(in_files or user), 0)
    return (*place.frames, *(made for made, _ in found[first:]))


def _kind(code: CodeType) -> int:
    found = _kinds.get(id(code))
    if found is not None:
        return found
    file = code.co_filename
    if file.startswith(_PACKAGE):
        kind = _USER if file.startswith(_MODELS) else _HIDDEN
    elif _INSTALLED.search(file):
        kind = _LIBRARY
    elif file.startswith((_STDLIB, _SCRIPTS, "<frozen ")):
        kind = _HIDDEN
    else:
        kind = _USER
    _classified_codes.append(code)  # before its id is known to other threads
    _kinds[id(code)] = kind
    return kind
