"""What the compiler knows of a machine: its figures, and which ops, tiles and vectors it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from glasshouse.ir.dtype import DType
from glasshouse.ir.graph import Node
from glasshouse.lower.kernel.statement import Form, Scratch, Tile

if TYPE_CHECKING:
    from glasshouse.lower.builder import KernelBuilder
    from glasshouse.lower.choice import Choice, Problem
    from glasshouse.lower.program import Call

TileMaker = Callable[["KernelBuilder", Node], None]
"""Adds the tile of an op to a kernel, with its operands in memory and what follows it in the
epilogue; raises `Unsupported` for what the target's routines do not take."""

Needs = tuple[tuple[Form, ...], tuple[Scratch, ...]]


@dataclass(frozen=True)
class Teams:
    """How a target shares rows: threads that keep it busy, those that share a row, and how many
    share `columns` rows that are neighbours in memory. No threads: folds are in one piece."""

    threads: int = 0
    row: int = 1
    columns: int = 1
    block: int = 1

    def parts(self, rows: int, neighbours: bool) -> int:
        """Parts of a row's fold that keep the target busy; 1 where the rows do."""
        together = neighbours and rows >= self.columns
        used = -(-rows // self.columns) * self.block if together else rows * self.row
        return 1 if used * 4 > self.threads else -(-self.threads // used)


@dataclass(frozen=True)
class Vectors:
    """What can be computed for several neighbours side by side."""

    elements: frozenset[DType] = frozenset()  # that can be loaded, held and stored
    arithmetic: frozenset[DType] = frozenset()
    bytes: frozenset[DType] = frozenset()  # held as real numbers: their arithmetic would not wrap
    mask: DType | None = None  # the type of truth values
    on_masks: frozenset[str] = frozenset()  # ops that take or give truth values
    scalar_only: frozenset[str] = frozenset()  # elementwise ops without a vector form
    folds: frozenset[str] = frozenset()


def needs_nothing(tile: Tile) -> Needs:
    """A routine that takes its operands as they are."""
    return (), ()


@dataclass(frozen=True)
class Target:
    """One machine, given once and threaded through passes, lowering and recording.

    The figures are rough: enough to compare two ways to compute something. A target made of figures
    alone takes its tables from the backend of its name.
    """

    name: str
    cores: int
    operations: float  # float32 operations a second, all cores
    bandwidth: float  # bytes a second from main memory
    launch: float  # seconds to start one kernel
    low_precision: tuple[str, ...] = ()  # element types in which contractions are faster
    measured: frozenset[str] = field(default=frozenset({"conv"}), repr=False, compare=False)
    """Problems whose variants the backend can time."""
    opaque: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Variants whose code nobody can read: calls of libraries."""
    candidates: float = field(default=float("inf"), repr=False, compare=False)
    """Variants of our own that are measured unasked for all problems of a program together: where
    each is built first, that is what the first result waits for."""
    elementwise: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Ops that stand in loops."""
    folds: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Reductions that do."""
    tiles: Mapping[str, TileMaker] = field(default_factory=dict, repr=False, compare=False)
    """Ops that have a routine."""
    needs: Callable[[Tile], Needs] = field(default=needs_nothing, repr=False, compare=False)
    """Forms of constants and scratch of a tile, for its variant."""
    vectors: Vectors = field(default_factory=Vectors, repr=False, compare=False)
    widest: int = 1  # lanes: a loop split at a multiple of this never cuts a vector in two
    teams: Teams = field(default_factory=Teams, repr=False, compare=False)
    """How rows are shared: long folds for few rows are computed in parts (`fold_parts.py`)."""
    parallel_from: float = float("inf")
    """Elements from which a nest is worth a second thread: waking one costs about as much."""
    cuts: bool = False
    """Whether several nests cost no more than one, so that one behind a concatenation is cut; where
    each is started by itself they do."""
    fallbacks: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Ops that run through Python on purpose, each with the reason."""
    alternatives: Callable[[Call, Target], tuple[Choice, ...]] = field(
        default=lambda call, target: (), repr=False, compare=False
    )
    """What else a kernel's ops could have been computed by, where nothing was measured."""
    estimate: Callable[[Problem, str, Target], tuple[float, str] | None] = field(
        default=lambda problem, name, target: None, repr=False, compare=False
    )
    """Seconds that a variant of a problem would take, and why; None: no figure."""
    images: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Ops whose kernels make images with their channels last, beside those that do everywhere."""
    turned: frozenset[str] = field(default=frozenset(), repr=False, compare=False)
    """Ops that write rows, and then turn them as a whole where a convolution wants channels last:
    a reader would gather them one by one."""
    refuses: Callable[[Node], bool] = field(default=lambda node: False, repr=False, compare=False)
    """Nodes of an op that has a routine for which there is no kernel all the same: nothing is fused
    into them."""
    spatial: int = 3
    """Spatial axes that convolutions have at most where there is a kernel for them."""
    shifts: int = 0
    """Kernels take operands that begin at any element so many bytes, or a multiple, behind their
    beginning, so that unrolled steps share one: 1 for any, more for code that counts on aligned
    addresses; 0: at their beginning alone."""
    nests_beside: bool = False
    """Whether nests of one kernel that do not read each other's results are started together."""
    early_constants: bool = False
    """Whether kernels ask for constants before what comes before them has ended."""
    shifted_means: bool = True
    """Whether means inside of norms are summed up relative to a row's first element, which makes
    rows of equal elements exact."""
    compares_places: bool = False
    """Whether each element asks if it is one of few that are written, instead of a write to it."""
    widened: frozenset[str] = frozenset()
    """Ops whose routines have vectors for float32, and none for half floats."""
    joined_rows: float = 0
    """Rows up to which one kernel computes products of a value with several weights where these
    lie; 0: none."""
    normed_rows: float = 0
    """Rows up to which a layer norm between products is part of them: one leaves statistics of its
    rows, the next takes rows as they were before; 0: it is a kernel of its own."""
    tf32: bool = False
    """Whether matrix products of float32 may round to TF32: it was asked for."""
    tf32_convs: bool = False
    """The same of convolutions, where a library computes them."""

    def computes(self, node: Node) -> bool:
        """Whether there may be a kernel for a node, so that others are fused into it."""
        far = node.op.name == "conv" and node.inputs[0].type.rank - 2 > self.spatial
        return node.op.name not in self.fallbacks and not far and not self.refuses(node)

    @property
    def operations_per_byte(self) -> float:
        """Operations that take as long as moving one byte."""
        return self.operations / self.bandwidth

    @property
    def launch_bytes(self) -> float:
        """Bytes that move in the time in which a kernel starts."""
        return self.launch * self.bandwidth

    def seconds(self, operations: float, bytes: float, efficiency: float = 1.0) -> float:
        """The roofline: what takes longer, computing or moving; and the launch."""
        return (
            max(operations / (self.operations * efficiency), bytes / self.bandwidth) + self.launch
        )
