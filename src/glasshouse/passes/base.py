"""What a pass is, and how passes are known by name and configured by text.

@register_pass(after="subgraph_rewrite")
@dataclass(frozen=True)
class DropDropout(Pass):
    '''Take dropout out of a graph that is not trained.'''
    def run(self, graph: Graph, rw: Rewriter) -> None:
        for node in graph.nodes_of(op_named("dropout")):
            rw.replace(node, node.inputs[0], rule="drop-dropout", why="not training")
"""

from __future__ import annotations

import ast
import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from glasshouse.backend.base import target_named
from glasshouse.errors import PassError, nearest
from glasshouse.ir.graph import Graph
from glasshouse.ir.rewriter import Rewriter
from glasshouse.lower.program import Program
from glasshouse.lower.target import Target

if TYPE_CHECKING:
    from glasshouse.passes.context import PassContext


@dataclass(frozen=True)
class Pass(ABC):
    """Its docstring is what the viewer shows; its fields are its options.

    `run` changes the graph through `rw`. What it returns (a plan, a table) is kept as
    `ctx.results[name]`.
    """

    name: ClassVar[str] = "pass"  # snake case of the class: "fold_constant"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    @abstractmethod
    def run(self, graph: Graph, rw: Rewriter) -> object: ...

    @property
    def title(self) -> str:
        """As instruments print it: "FoldConstantPass"."""
        label = type(self).__name__
        return label if label.endswith("Pass") else label + "Pass"

    @property
    def doc(self) -> str:
        return " ".join((type(self).__doc__ or "").split())

    def options(self) -> dict[str, str]:
        """The fields as text."""
        return {f.name: str(getattr(self, f.name)) for f in dataclasses.fields(self)}

    def inner(self) -> Sequence[Pass]:
        """The passes of which this one is made; () for a pass that does the work itself."""
        return ()


@dataclass(frozen=True)
class ProgramPass(Pass):
    """A pass over the program that a graph becomes: it decides how the graph is computed.

    `lowered` tells whether it works on kernels, or comes before there are any.
    """

    lowered: ClassVar[bool] = True

    def run(self, graph: Graph, rw: Rewriter) -> object:
        raise PassError(f"{self.title} works on programs", hint="compile the graph")

    @abstractmethod
    def decide(self, program: Program, ctx: PassContext) -> Program:
        """The program with the decision in it."""

    def result(self, program: Program) -> object:
        """What is kept as `ctx.results[name]`."""
        return None


@dataclass(frozen=True)
class PassSequence(Pass):
    """Several passes under one name."""

    passes: tuple[Pass, ...] = ()
    label: str = "PassSequence"

    def run(self, graph: Graph, rw: Rewriter) -> object:
        raise PassError(f"{self.label} is run part by part", hint="run it with run_passes")

    @property
    def title(self) -> str:
        return self.label

    def inner(self) -> Sequence[Pass]:
        return self.passes


# ------------------------------------------------------------------------------------- registry
PASSES: dict[str, type[Pass]] = {}
PIPELINE: list[str] = []
"""Names of the passes that `optimize` runs, in order."""

P = TypeVar("P", bound=type[Pass])


def register_pass(*, after: str | None = None, before: str | None = None) -> Callable[[P], P]:
    """Make a pass known by name; `after` or `before` also places it in the default pipeline."""

    def add(cls: P) -> P:
        if PASSES.get(cls.name, cls).__qualname__ != cls.__qualname__:
            raise PassError(f"there is a pass {cls.name!r} already: {PASSES[cls.name].__module__}")
        known = cls.name in PASSES  # a notebook cell that is run again defines the class anew
        PASSES[cls.name] = cls
        if (after or before) and not known:
            place(PIPELINE, cls.name, after=after, before=before)
        return cls

    return add


def place(
    names: list[str], name: str, *, after: str | None = None, before: str | None = None
) -> None:
    """Put a name into a list of passes behind or in front of another."""
    anchor = after or before or ""
    if anchor not in names:
        raise PassError(
            f"a pass is to stand {'after' if after else 'before'} {anchor!r}, which is not there"
            if anchor
            else "a pass is to stand somewhere: name the one that it comes after, or before",
            hint=nearest(anchor, names, "the pipeline is"),
        )
    names.insert(names.index(anchor) + (1 if after else 0), name)


def pass_class(name: str) -> type[Pass]:
    """The registered pass of this name, without options."""
    key = name.removesuffix("Pass")
    key = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", key).lower()
    if key not in PASSES:
        raise PassError(f"there is no pass {name!r}", hint=nearest(name, sorted(PASSES)))
    return PASSES[key]


def pass_named(name: str, options: Mapping[str, Any] | None = None) -> Pass:
    """The registered pass of this name, with options given as values or as text."""
    cls = pass_class(name)
    key = cls.name
    fields = {f.name: f for f in dataclasses.fields(cls)}
    given = {}
    for option, value in (options or {}).items():
        if option not in fields:
            hint = nearest(option, fields, "its options")
            raise PassError(f"pass {key} has no option {option!r}", hint=hint)
        given[option] = _converted(key, option, value, fields[option])
    return cls(**given)


def _converted(pass_name: str, option: str, value: Any, field: dataclasses.Field[Any]) -> Any:
    """Text from a command line as the type that the option's default has."""
    if not isinstance(value, str):
        return value
    make: Any = field.default_factory
    default: Any = field.default if make is dataclasses.MISSING else make()
    if isinstance(default, str):
        return value
    if isinstance(default, Target):
        return target_named(value)
    try:
        read = ast.literal_eval(value)
        if isinstance(default, tuple) and not isinstance(read, (tuple, list)):
            read = (read,)
        return read if default is None else type(default)(read)
    except (ValueError, SyntaxError, TypeError):
        where = f"option {option} of pass {pass_name}"
        raise PassError(f"{where} must be {type(default).__name__}, got {value!r}") from None
