"""What a recording can say: its tables, their columns, and since which version each exists.

Every dataclass below is one row of a table (or one object of the header); every field is one
column. The annotation fixes the column's type (see docs/design/0002-recording.md); `since` gives
the minor version that brought a field, so that a reader can tell "absent" from "empty". The JSON
Schema and `viewer/src/model/schema.ts` are generated from this file and checked against it.

Rules for changing it: a new field needs a default and the current minor version plus one; a field
is never renamed or given another meaning; anything else is a new major version.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NewType

FORMAT = "glasshouse"
VERSION = (1, 1)

Text = NewType("Text", str)
"""Long text that rows do not share: code, source files, JSON."""

NEVER = -1
"""`died` of a node that lives to the last stage; also "none" wherever a row refers to an id."""


# ------------------------------------------------------------------------------------- header
@dataclass(frozen=True)
class Stage:
    """One state of a graph: as traced (stage 0), or after a pass."""

    name: str
    pass_name: str = ""
    doc: str = ""  # what the pass says of itself
    seconds: float = 0.0
    options: dict[str, str] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)  # node ids of the graph's inputs
    output_nodes: list[int] = field(default_factory=list)  # outputs, as pairs with output_ports
    output_ports: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class GraphInfo:
    """A graph of the file; nested bodies (cond branches, fused insides) are graphs too."""

    name: str
    stages: list[Stage]
    parent: int = NEVER  # index of the graph that nests this one
    attrs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Header:
    format: str
    version: list[int]
    generator: str
    title: str
    graphs: list[GraphInfo]
    # how the numbers came to be: machine, threads, target, wall time, share attributed ...
    facts: dict[str, str] = field(default_factory=dict)
    # rows of each table that the file holds, by member name: what can be asked for, and proof that
    # nothing got lost. {} in a file whose writer did not count.
    tables: dict[str, int] = field(default_factory=dict)


# ------------------------------------------------------------------------------ tables of a graph
@dataclass(frozen=True)
class NodeRow:
    """A node during the stages `born <= s < died`."""

    id: int
    born: int
    died: int
    name: str  # the name that a person or a foreign file gave it; "" if none
    op: str  # as printed: "Matmul"
    # op family: matmul, conv, norm, elementwise, shape, reduction, move, quant, opaque, source
    kind: str
    input_nodes: list[int]  # producer ids, one for each operand in order; repeats are kept
    input_ports: list[int]  # which output of the producer
    outputs: list[str]  # one type for each output, as printed: "float32[1, 128]"
    attr_keys: list[str]
    attr_values: list[str]
    groups: list[int]  # rows of `groups`: the innermost one of each grouping
    file: str = ""  # the user's line
    line: int = 0
    pass_name: str = ""  # the pass that made it, "" if traced
    rule: str = ""
    replaces: list[int] = field(default_factory=list)  # nodes it was made from
    grad_of: int = NEVER  # forward node whose gradient it computes
    bodies: list[int] = field(default_factory=list)  # indices of graphs nested in it
    output_names: list[str] = field(default_factory=list)  # tensor names, where the file has them
    input_names: list[str] = field(default_factory=list)  # names of operands ("weight"), if any
    frames: list[str] = field(
        default_factory=list
    )  # whole stack "file:line function", innermost last


@dataclass(frozen=True)
class GroupRow:
    """A group of a grouping; `parent` is a row of this table that stands before it."""

    grouping: str  # "module", "kernel", "partition", "cluster", "phase" ...
    parent: int
    name: str  # last component: "attention"
    cls: str = ""  # class of the module: "BertAttention"
    file: str = ""
    line: int = 0
    attr_keys: list[str] = field(default_factory=list)
    attr_values: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class RewriteRow:
    stage: int
    pass_name: str
    rule: str
    why: str
    before: list[int]
    after: list[int]
    seconds: float = 0.0


@dataclass(frozen=True)
class RejectRow:
    """A decision not to act, on the nodes (for a fusion: the two ends of the edge)."""

    stage: int
    pass_name: str
    rule: str
    why: str
    nodes: list[int]
    numbers: str = ""  # JSON object of the figures that decided


@dataclass(frozen=True)
class KernelRow:
    id: int
    name: str
    node: int  # the (fused) node that it computes
    ops: list[int]  # ops inside, in order
    target: str
    variant: str
    code: Text
    language: str = "c++"
    bytes_read: float = 0.0
    bytes_written: float = 0.0
    flops: float = 0.0
    limit_seconds: float = 0.0  # what the machine could do at best
    file: str = ""  # where the generated code lies, if it does
    key: str = ""  # cache key, jit_key
    runs: int = 1  # how often one execution calls it
    # what a person calls it: "layer.8 intermediate.dense + gelu"; "" if only `name` is known
    title: str = field(default="", metadata={"since": 1})


@dataclass(frozen=True)
class CandidateRow:
    kernel: int
    variant: str
    seconds: float
    chosen: bool
    why: str = ""


@dataclass(frozen=True)
class BufferRow:
    """Where a value lies in memory, as the compiled program has it. Since 1.1.

    Kernels reach it through a table of pointers (`slot`), or at an `offset` of the arena.
    """

    node: int
    port: int
    # input, output, constant, variable, new value (of a variable), arena, prepared (a constant in
    # the form that a kernel wants; node is the constant's), fallback, run (its size is known then)
    place: str
    slot: int = NEVER  # in the table of pointers; NEVER for the arena
    offset: float = 0.0  # bytes from the arena's beginning
    bytes: float = 0.0  # at most; -1: no bound is known before a run
    first: int = NEVER  # the steps between which the memory is its own, both included
    last: int = NEVER
    of_node: int = NEVER  # the value whose memory it shares: what it is a view of, or written over
    of_port: int = NEVER
    # how it shares, or how a new value arrives: view, in place, by turns, by copy
    how: str = ""
    layout: list[int] = field(
        default_factory=list
    )  # axes as they lie, slowest first; []: row-major


@dataclass(frozen=True)
class TimeRow:
    """Measured seconds of a node or kernel in one run."""

    run: str
    node: int
    seconds: float
    kernel: int = NEVER
    spread: float = 0.0
    start: float = 0.0


@dataclass(frozen=True)
class ErrorRow:
    """Numeric error of a node's output against float64 replay of its origin ops."""

    stage: int
    node: int
    port: int
    max_abs: float
    max_rel: float
    own: float  # error of this kernel on its actual inputs
    inherited: float
    tolerance: float = 0.0
    # elements that are NaN or infinite and should not be, or the other way round; the first one's
    # index. Where there are any, the errors are infinite.
    wrong: int = field(default=0, metadata={"since": 1})
    at: list[int] = field(default_factory=list, metadata={"since": 1})


@dataclass(frozen=True)
class SummaryRow:
    """What a tensor held."""

    node: int
    port: int
    minimum: float
    maximum: float
    mean: float
    std: float
    nans: float
    infs: float
    zeros: float
    sample: Text = Text("")  # first values, as text
    # how many elements (or every n-th of them) lie in each equal part of minimum .. maximum
    histogram: list[int] = field(default_factory=list, metadata={"since": 1})


@dataclass(frozen=True)
class DataRow:
    """Free data by node: a value that can colour it, or plain text."""

    name: str
    node: int
    number: float
    label: str = ""
    background: str = ""
    text_color: str = ""


# ------------------------------------------------------------------------------ tables of the file
@dataclass(frozen=True)
class SourceRow:
    """Text of a source file, where its owner allows it."""

    path: str
    text: Text


@dataclass(frozen=True)
class StyleRow:
    """A style rule (JSON, docs/formats.md), applied in order; or an extra of a foreign format."""

    kind: str
    json: Text


GRAPH_TABLES: dict[str, type] = {
    "nodes": NodeRow,
    "groups": GroupRow,
    "rewrites": RewriteRow,
    "rejects": RejectRow,
    "kernels": KernelRow,
    "candidates": CandidateRow,
    "buffers": BufferRow,
    "times": TimeRow,
    "errors": ErrorRow,
    "summaries": SummaryRow,
    "data": DataRow,
}
FILE_TABLES: dict[str, type] = {"sources": SourceRow, "styles": StyleRow}
TABLE_NAMES: dict[type, str] = {
    cls: name for tables in (GRAPH_TABLES, FILE_TABLES) for name, cls in tables.items()
}
