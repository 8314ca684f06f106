"""How a model is called: which argument each graph input is, and what the outputs are put into.

A graph has flat inputs and outputs; a model has keyword arguments, optional ones, dicts, and
results of classes of its own. The signature of a graph says how one becomes the other, so that a
compiled module is called like its model. Containers are described by `Container`s, whose leaves are
`Leaf`s (a graph input or output) or `Fixed` values that the capture depended on.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from glasshouse.errors import TypeMismatch

KINDS = ("tensor", "complex", "int")


@dataclass(frozen=True)
class Leaf:
    """The graph's input or output of this number.

    `kind` of a result, one of `KINDS`, is "tensor"; "complex" where the graph has pairs of reals;
    "int" for what is a number in the model.
    """

    number: int
    kind: str = "tensor"


@dataclass(frozen=True)
class Fixed:
    """Not a tensor: what it was when the model was captured is part of the graph."""

    value: Any


@dataclass(frozen=True)
class Container:
    """A container. `kind` is "tuple", "list", "dict" or the name of a class.

    `take` gives the parts of an object of that class (None of any other) and `make` puts one
    together; both are None for the three plain kinds, and where the class is not at hand (a module
    that was loaded).
    """

    kind: str
    names: tuple[Any, ...]  # keys, fields, or positions
    parts: tuple[Structure, ...]
    take: Callable[[Any], Sequence[Any] | None] | None = field(
        default=None, compare=False, repr=False
    )
    make: Callable[[Sequence[Any]], Any] | None = field(default=None, compare=False, repr=False)
    is_tensor: bool = False  # whether the object is one tensor, and its parts are others


Structure = Leaf | Fixed | Container

_PLAIN: dict[str, type] = {"tuple": tuple, "list": list, "dict": dict}


class Results(dict[str, Any]):
    """Results by name, for a class that is not at hand: `out.logits` and `out["logits"]`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"there is no result {name!r}; there are: {known}") from None


@dataclass(frozen=True)
class Signature:
    """`parameters` are those of the model's `forward`; None where they are not known.

    `arguments` has the structure of each argument that was given, by name, in order. `written`
    pairs arguments that the model writes to with the outputs that hold what it writes.
    """

    arguments: Mapping[str, Structure]
    results: Structure
    parameters: inspect.Signature | None = None
    written: tuple[tuple[int, int], ...] = ()  # (graph input, graph output)

    @property
    def takes_flat(self) -> bool:
        """Whether the graph's inputs are just the model's arguments."""
        given = list(self.arguments.values())
        return given == [Leaf(i) for i in range(len(given))]

    @cached_property
    def takes_tensors_apart(self) -> bool:
        """Whether a tensor among the arguments is no input of the graph itself."""
        pending = list(self.arguments.values())
        while pending:
            found = pending.pop()
            if isinstance(found, Container):
                if found.is_tensor:
                    return True
                pending += found.parts
        return False

    @property
    def returns_flat(self) -> bool:
        """Whether the graph's output, or the tuple of them, is what the model returns."""
        if self.written:
            return False
        if isinstance(self.results, Leaf):
            return self.results == Leaf(0)
        if not isinstance(self.results, Container) or self.results.kind != "tuple":
            return False
        wanted = tuple(Leaf(i) for i in range(len(self.results.parts)))
        return len(wanted) > 1 and self.results.parts == wanted

    # -------------------------------------------------------------------------------------- calling
    def bind(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        """The graph's inputs, in order, for a call of the model."""
        found: dict[int, Any] = {}
        given = self._by_name(args, keywords)
        for name, structure in self.arguments.items():
            if name not in given and not _is_fixed(structure):
                raise TypeMismatch(f"the argument {name!r} is missing", hint=f"call it as {self}")
            if name in given:
                _match(name, given.pop(name), structure, found)
        for name, value in given.items():
            default = self.parameters.parameters[name].default if self.parameters else None
            empty = value in ((), {}) if isinstance(value, (tuple, dict)) else False
            if not empty and not _same(value, default):
                raise TypeMismatch(
                    f"the argument {name!r} was not given when the model was compiled",
                    hint=f"compile it with {name}=..., or call it as {self}",
                )
        return [found[i] for i in range(len(found))]

    def rebuilder(
        self, kinds: Mapping[str, Callable[[Any], Any]]
    ) -> Callable[[Sequence[Any]], Any]:
        """What makes the model's results of the graph's outputs; `kinds` say what becomes of those
        that are no tensors there. It is written out as one expression: walking the structure in
        every call took 5 us for two tensors."""
        names: dict[str, Any] = {}  # alone: nothing that a structure says is part of the text
        exec(f"def rebuild(outputs): return {_spelled(self.results, kinds, names)}", names)
        made: Callable[[Sequence[Any]], Any] = names["rebuild"]
        return made

    def _by_name(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        if self.parameters is None:
            return self._by_position(args, keywords)
        try:
            bound = self.parameters.bind_partial(*args, **keywords)
        except TypeError as error:
            raise TypeMismatch(f"{error}", hint=f"call it as {self}") from None
        return dict(bound.arguments)

    def _by_position(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Without parameters: arguments are told by the order and the names of the inputs."""
        names = list(self.arguments)
        if len(args) > len(names):
            raise TypeMismatch(
                f"{len(args)} arguments given, wanted {len(names)}", hint=f"call it as {self}"
            )
        given = dict(zip(names, args, strict=False))
        for name, value in keywords.items():
            if name in given or name not in self.arguments:
                what = "given twice" if name in given else "unknown"
                raise TypeMismatch(f"the argument {name!r} is {what}", hint=f"call it as {self}")
            given[name] = value
        return given

    def __str__(self) -> str:
        names = [n for n, s in self.arguments.items() if not _is_fixed(s)]
        return f"module({', '.join(names)})"


def _is_fixed(structure: Structure) -> bool:
    """Whether no tensor is in it, so that it need not be given again."""
    if isinstance(structure, Container):
        return all(_is_fixed(p) for p in structure.parts)
    return isinstance(structure, Fixed)


def _match(name: str, given: Any, wanted: Structure, found: dict[int, Any]) -> None:
    """Take an argument apart as it was when the model was captured.

    Containers are nested a few levels deep, so this recursion has a small bound.
    """
    if isinstance(wanted, Leaf):
        if given is None or isinstance(given, (str, bytes)):
            raise TypeMismatch(
                f"{name} must be a tensor, got {given!r}",
                hint="the model was compiled with one; compile it again for a call without",
            )
        found[wanted.number] = given
    elif isinstance(wanted, Fixed):
        if not _same(given, wanted.value):
            before = _shown(wanted.value)
            raise TypeMismatch(
                f"{name} was {before} when the model was compiled, got {_shown(given)}",
                hint=f"compile it again with this {name}: what depends on it is fixed in the code",
            )
    else:
        for label, part, inner in zip(
            wanted.names, _parts(name, given, wanted), wanted.parts, strict=True
        ):
            spelled = f"[{label!r}]" if wanted.kind in _PLAIN else f".{label}"
            _match(f"{name}{spelled}", part, inner, found)


def _parts(name: str, given: Any, wanted: Container) -> Sequence[Any]:
    plain = _PLAIN.get(wanted.kind)
    if plain is dict and isinstance(given, Mapping):
        if list(given) != list(wanted.names) and set(given) == set(wanted.names):
            return [given[k] for k in wanted.names]
        if list(given) == list(wanted.names):
            return list(given.values())
        raise TypeMismatch(
            f"{name} has the keys {sorted(map(str, given))}, "
            f"wanted {sorted(map(str, wanted.names))}"
        )
    if plain in (tuple, list) and isinstance(given, (tuple, list)):
        if len(given) != len(wanted.parts):
            raise TypeMismatch(f"{name} has {len(given)} elements, wanted {len(wanted.parts)}")
        return given
    if plain is None:
        taken = _taken(given, wanted)
        if taken is not None and len(taken) == len(wanted.parts):
            return taken
    raise TypeMismatch(f"{name} must be a {wanted.kind}, got {_shown(given)}")


def _taken(given: Any, wanted: Container) -> Sequence[Any] | None:
    """The parts of an object of a class; by name where the class is not at hand."""
    if wanted.take is not None and (taken := wanted.take(given)) is not None:
        return taken
    if isinstance(given, Mapping) and all(n in given for n in wanted.names):
        return [given[n] for n in wanted.names]
    if wanted.take is None and all(hasattr(given, str(n)) for n in wanted.names):
        parts = [getattr(given, str(n)) for n in wanted.names]
        return [p() if callable(p) else p for p in parts]  # a sparse tensor's are methods
    return None


def _spelled(
    wanted: Structure, kinds: Mapping[str, Callable[[Any], Any]], names: dict[str, Any]
) -> str:
    """A structure as an expression over `outputs`; what it needs beside them goes into `names`."""
    if isinstance(wanted, Leaf):
        output = f"outputs[{int(wanted.number)}]"
        return (
            output if wanted.kind == "tensor" else f"{_named(kinds[wanted.kind], names)}({output})"
        )
    if isinstance(wanted, Fixed):
        return _named(wanted.value, names)
    parts = [_spelled(p, kinds, names) for p in wanted.parts]
    if wanted.kind == "dict":
        keys = [_named(k, names) for k in wanted.names]
        return f"{{{', '.join(f'{k}: {p}' for k, p in zip(keys, parts, strict=True))}}}"
    if wanted.kind == "tuple":
        return f"({''.join(f'{p}, ' for p in parts)})"
    listed = f"[{', '.join(parts)}]"
    if wanted.kind == "list":
        return listed
    if wanted.make is not None:
        return f"{_named(wanted.make, names)}({listed})"
    fields = _named([str(n) for n in wanted.names], names)
    return f"{_named(Results, names)}(zip({fields}, {listed}))"


def _named(value: Any, names: dict[str, Any]) -> str:
    name = f"given{len(names)}"
    names[name] = value
    return name


def _same(given: Any, wanted: Any) -> bool:
    if given is wanted:
        return True
    if hasattr(given, "shape") or type(given) is not type(wanted):
        return False
    try:
        return bool(given == wanted)
    except Exception:  # objects of the user's, with an == of their own
        return False


def _shown(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"a tensor of shape {list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__}"
