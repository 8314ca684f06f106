"""What a name of TorchScript code can stand for while its calls are written as nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from glasshouse.record import GraphWriter


class Space:
    """A graph in the making: the model's, or the body of a branch or loop."""

    def __init__(self, builder: GraphWriter) -> None:
        self.builder = builder
        self.captured: dict[tuple[int, int, int], Ref] = {}  # (graph, node, port) -> the outer ref
        self._inside: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.weights: dict[str, int] = {}  # nodes of parameters and buffers, by dotted name

    def local(self, ref: Ref) -> tuple[int, int]:
        """A value as an operand here; one of a graph around this one is captured once."""
        if ref.space is self:
            return ref.node, ref.port
        key = ref.space.builder.index, ref.node, ref.port
        if key not in self._inside:
            node = self.builder.node("Captured", kind="source", outputs=[""])
            self._inside[key] = node, 0
            self.captured[key] = ref
        return self._inside[key]

    def inputs(self) -> list[tuple[int, int]]:
        """The nodes that stand for values from outside."""
        return list(self._inside.values())


@dataclass(frozen=True)
class Ref:
    """An output of a node."""

    space: Space
    node: int
    port: int = 0


@dataclass(frozen=True)
class ScriptModule:
    """A submodule of the model, or the model itself."""

    cls: str
    path: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FunctionName:
    name: str


@dataclass(frozen=True)
class Plain:
    """A number, a text or an expression that no node computes."""

    text: str


@dataclass(frozen=True)
class Several:
    """A tuple or list."""

    items: tuple[Value, ...]


Value = Ref | ScriptModule | FunctionName | Plain | Several


@dataclass
class CallFrame:
    """The names of a function or of a block in it."""

    space: Space
    module: ScriptModule  # whose method this is: the group of its nodes
    file: str
    parent: CallFrame | None = None  # of a block: the code around it
    names: dict[str, Value] = field(default_factory=dict)
    result: Value | None = None

    def find(self, name: str) -> Value | None:
        frame: CallFrame | None = self
        while frame is not None:
            if name in frame.names:
                return frame.names[name]
            frame = frame.parent
        return None
