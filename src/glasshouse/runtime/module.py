"""What a compiled model can do: run without copies, be timed, take new constants."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from glasshouse.backend.base import Backend, GeneratedSource
from glasshouse.cell import ShowsInCell
from glasshouse.errors import ExecutionError, LibraryRefused, Unsupported
from glasshouse.ir.graph import Graph, Node
from glasshouse.lower.plan import MemoryPlan
from glasshouse.lower.program import Call, Program, Step
from glasshouse.passes.instruments.record import Record
from glasshouse.record.reader import Recording
from glasshouse.runtime.arguments import Inputs, as_array, by_order, name_of, ordered
from glasshouse.runtime.arrays import Array, is_torch, like_inputs
from glasshouse.runtime.bodies import Bodies
from glasshouse.runtime.calling import flat_inputs, rebuilder, signature_for
from glasshouse.runtime.checks import check_outputs
from glasshouse.runtime.constants import ConstantSet, Packing
from glasshouse.runtime.general_run import GeneralRun, Run, See
from glasshouse.runtime.held_constants import HoldsConstants
from glasshouse.runtime.late_array import on_host
from glasshouse.runtime.lineage import Lineage
from glasshouse.runtime.mapped import MappedWeights
from glasshouse.runtime.on_device import RunsOnDevice
from glasshouse.runtime.openmp import pays_for, rest
from glasshouse.runtime.overlap import apart
from glasshouse.runtime.prefault import Prefaulted
from glasshouse.runtime.quick_fallback import QuickFallbacks, has_fallbacks
from glasshouse.runtime.quick_run import QuickCall, QuickRun
from glasshouse.runtime.seeds import next_seed, seeding, undisturbed
from glasshouse.runtime.taken import Taker
from glasshouse.runtime.updates import State
from glasshouse.runtime.workspace import Runtimes, Workspace, arena_for


@dataclass(frozen=True)
class KernelTime:
    """Measured time of one step."""

    name: str
    node: Node
    seconds: float
    spread: float = 0.0  # half of the range in which the middle half of the runs lies


class Module(HoldsConstants, RunsOnDevice, ShowsInCell):
    """A compiled model: call it with arrays or tensors, from any thread.

    As many calls as it has runtimes go on at the same time; further ones wait. Calls of a model
    that updates variables follow one another.
    """

    def __init__(
        self,
        program: Program,
        backend: Backend,
        library: Path,
        source: GeneratedSource,
        needs: Mapping[str, Any] | None = None,
        num_runtimes: int = 1,
        prefaulted: Prefaulted | None = None,
        mapped: MappedWeights | None = None,
        threads: int | None = None,
        owner: Taker | None = None,
        shares: bool = False,
    ) -> None:
        """`needs` tell what the library was built from; None: it was built here and now.

        `prefaulted` is memory for packed weights that was asked for ahead; `mapped` is the file
        that holds the weights. `threads` is a budget of its own; None: that of the process.
        `owner` is whose weights are taken over where they are packed. `shares`: packed forms of
        the same weights are held once for all modules that share.
        """
        if num_runtimes < 1 or (num_runtimes > 1 and program.graph.updates):
            raise Unsupported(
                f"num_runtimes is {num_runtimes}",
                hint="a model that updates variables has 1; others have at least 1",
            )
        super().__init__(program)
        plan = program.memory
        self.source = source
        self.library_path = library
        self.num_runtimes = num_runtimes
        self.threads = threads
        self.packed_bytes = 0  # of weights in forms that were made for it alone
        self.watched: Record | None = None  # the passes, until somebody asks what they did
        self._base_recording: Recording | None = None
        self.lineage: Lineage | None = None  # what it was traced to, when it was optimised here
        self.signature = signature_for(program.graph)
        self._takes_flat = self.signature.takes_flat
        self._returns_flat = self.signature.returns_flat
        self._rebuilt = rebuilder(self.signature)
        self.backend = backend
        executable = self._executable = backend.load(library, needs, threads)
        sources = self._sources(backend.elsewhere)
        self._state = State(plan, backend.elsewhere)
        if mapped is not None:  # variables have been copied
            mapped.release_all()
        self._general = GeneralRun(program, self._state, executable, threads)
        self._device = None  # made by the first run
        self._refused = {}
        steps, places = len(program.steps), plan.table_size
        self._workspaces = [
            Workspace(arena_for(backend, program), places, executable, steps, len(program.symbols))
            for _ in range(num_runtimes)
        ]
        packing = Packing(executable, program, prefaulted, mapped, shares)
        constants = ConstantSet.first(packing, sources, owner)
        self._runtimes = Runtimes(self._workspaces, constants, self._state, backend.elsewhere)
        self._runtimes.seed = seeding(program.graph, plan.table, self._state)
        self._rests = not backend.elsewhere and pays_for(program, threads)
        self._quick: QuickRun | None = None
        if not backend.elsewhere and QuickRun.serves(program):
            self._quick = self._new_quick(executable.call)
        # By the class of the first argument; filled as classes are met.
        self._makers: dict[type | None, QuickCall | None] = {}
        self._fillers: dict[type | None, QuickCall | None] = {}
        self._over: dict[type | None, QuickCall | None] = {}  # runs over arguments

    # ------------------------------------------------------------------------------------- running
    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """What the model returns, called as the model is: keywords, nested arguments, its results.

        Outputs are arrays; torch tensors when tensors were given.
        """
        self._calls_left -= 1
        if self._calls_left < 0:
            self._look_at_weights()
        if keywords or not inputs:
            return self._structured_call(inputs, keywords)
        # Whatever the model's arguments are: a tensor for each input of the graph needs no binding.
        call = self._makers.get(type(inputs[0]))
        made = None if call is None else call(inputs)
        if made is None:
            return self._structured_call(inputs, keywords)
        if self._returns_flat:
            return made
        return self._rebuilt(inputs, made if type(made) is tuple else (made,))

    def run_flat(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """All outputs of the graph, for all its inputs in order."""
        call = self._makers.get(type(inputs[0])) if inputs else None
        made = None if call is None else call(inputs)
        made = self._general_call(inputs) if made is None else made
        return (made,) if len(self.graph.outputs) == 1 else made

    def run_over(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """As `run_flat`, but the new value of an argument that the model writes to may be written
        over it: then that argument is what stands in its place among the outputs."""
        if self.backend.elsewhere and self._fixed is not None:
            made = self._fixed(inputs, over=True)
            if made is not None:
                return (made,) if len(self.graph.outputs) == 1 else made
        if not self.plan.overwrites or self.backend.elsewhere or self._quick is None:
            return self.run_flat(inputs)
        kind = type(inputs[0])
        if kind not in self._over:
            self._over[kind] = self._quick.call_for(kind, False, over=True)
        call = self._over[kind]
        made = None if call is None else call(inputs)
        if made is None:
            return self.run_flat(inputs)
        return (made,) if len(self.graph.outputs) == 1 else made

    def partly_bound(
        self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]
    ) -> QuickCall | None:
        """A function that runs on these arrays of the host's again and again: it takes those that
        are None here, and gives such outputs, or None where they are not as they must be. None:
        there is no such function, or these arrays will not do.

        Who calls it keeps the arrays alive, and what is brought apart from bound outputs. An output
        may lie on the input that it is the new value of (`plan.overwrites`).
        """
        if self._quick is None:
            return None
        from glasshouse.runtime.partly_bound import bound_call  # only lazy loops need it

        run = self._executable.call_in_loop
        return bound_call(self.graph, self.plan.overwrites, self._quick, run, inputs, outputs)

    def run_with_tensors(self, inputs: Inputs, outputs: Sequence[Any]) -> Sequence[Any]:
        """Run into given buffers, which must be contiguous and of the right type. One may lie on an
        input: that is copied first, unless the output is its new value (`plan.overwrites`)."""
        given = by_order(self.graph.inputs, inputs)
        kind = type(given[0]) if given else None
        if kind not in self._fillers:
            self._fillers[kind] = self._new_call(kind, True)
        call = self._fillers[kind]
        if call is None or call(given, outputs) is None:
            buffers = check_outputs(self.graph.outputs, outputs)
            self._run(apart(self._arrays(given), buffers), buffers)
        return outputs

    def benchmark_with_tensors(
        self, inputs: Inputs, outputs: Sequence[Any] | None = None, count: int = 10
    ) -> tuple[float, float, Sequence[Any]]:
        """(mean, standard deviation, outputs); times are milliseconds.

        A training step is timed without taking it: variables are as before.
        """
        given = by_order(self.graph.inputs, inputs)
        _check_count(count)

        def run() -> Sequence[Any]:
            if outputs is not None:
                return self.run_with_tensors(given, outputs)
            made = self(*given)
            return made if isinstance(made, tuple) else (made,)

        def again() -> Callable[[], Any]:
            """On a GPU's own tensors a run is a launch: all that these arguments let it be."""
            if not self.backend.elsewhere or outputs is None:
                return run
            try:
                return self.bound(given, outputs)
            except ExecutionError:  # of the host, or with steps between launches
                return run

        times: list[float] = []
        # A GPU works on when a call has returned: runs are waited for in tens.
        together = 10 if self.backend.elsewhere else 1
        with self.unchanged():
            results = run()
            repeated = again()
            for first in range(0, count, together):
                runs = min(together, count - first)
                self.synchronize()
                begin = time.perf_counter()
                for _ in range(runs):
                    repeated()
                self.synchronize()
                times += [(time.perf_counter() - begin) * 1e3 / runs] * runs
        return float(np.mean(times)), float(np.std(times)), results

    def profile(self, *inputs: Any, count: int = 10) -> list[KernelTime]:
        """Median time of each step over `count` runs, after one that warms up.

        Variables and PyTorch's generator are left as they were.
        """
        from glasshouse.runtime.account import measure_account  # it measures modules

        _check_count(count)
        return measure_account(self, inputs, count).kernel_times()

    def watch(self, inputs: Sequence[Any], see: See) -> list[Array]:
        """Run step by step; after each, `see` may read the operands and outputs of that step.

        It is a run like others, and takes a training step; `unchanged` takes it back.
        """
        with undisturbed():
            return self._run(self._arrays(inputs), see=see)

    def timed(self, inputs: Sequence[Any], times: Array) -> list[Array]:
        """Run once, adding the seconds of each step at `times`, and of copies behind the last."""
        return self._run(self._arrays(inputs), times=times)

    def clocked_call(self, times: Array) -> QuickCall | None:
        """A plain call on arrays that adds the seconds of steps at `times`; None where plain calls
        take the general path."""
        if self._quick is None:
            return None
        clocked, at = self._executable.clocked, times.ctypes.data
        call = self._new_quick(lambda frame: clocked(frame, at), times)
        return call.call_for(np.ndarray, False)

    def _new_quick(self, run: Callable[[Any], int], times: Array | None = None) -> QuickRun:
        program, runtimes = self.program, self._runtimes
        rests = self._rests and times is None
        if not has_fallbacks(program):
            return QuickRun(program, runtimes, run, rests)
        turns, ranges, bodies = self._state.turns, self._executable.run, self.bodies
        made = partial(QuickFallbacks, program, turns, ranges, bodies, times)
        return QuickRun(program, runtimes, run, rests, made)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """What runs inside leaves variables and PyTorch's generator as they were."""
        if self._device is not None:
            self._device.fetch()
        try:
            with undisturbed(), self._state.unchanged():
                yield
                if self._device is not None:
                    self._device.fetch()  # before the host's are put back
        finally:
            if self._device is not None:
                self._device.push()

    def poison(self, byte: int) -> None:
        """Fill the memory between steps, so that reading what nothing wrote cannot go unseen."""
        for workspace in self._workspaces:
            workspace.arena[...] = byte
            if workspace.sized is not None:
                workspace.sized[...] = byte

    def arguments(self, inputs: Sequence[Any]) -> list[Array]:
        """Arguments as arrays of the right element types, as they are stored."""
        return self._arrays(inputs)

    def held(self) -> dict[str, Array]:
        """What named constants and all variables hold at the next run, as it is stored."""
        out = {name: self.source_array(v.node) for name, v in self._by_name.items()}
        out |= {v.attrs["name"] or f"%{v.id}": self.source_array(v) for v in self.graph.updates}
        return {**out, **next_seed(self.graph)}

    @property
    def base_recording(self) -> Recording | None:
        """What the passes did, when they were watched."""
        watched = self.watched
        if watched is not None:
            self._base_recording = watched.recording
            self.watched = None  # its rows have been written
        return self._base_recording

    @base_recording.setter
    def base_recording(self, recording: Recording | None) -> None:
        self._base_recording, self.watched = recording, None

    def recording(self, *inputs: Any, count: int = 10) -> Recording:
        """All that is known: stages, rewrites, kernels with code; with inputs, times and errors."""
        from glasshouse.runtime.recording import recording_of  # it measures modules

        with self.unchanged():
            return recording_of(self, self.base_recording, inputs, count)

    def save(
        self, folder: str | os.PathLike[str], name: str = "model", weights: str = "auto"
    ) -> Path:
        """Write library, C header, weights and recording; `glasshouse.load` and C programs run it.

        Weights and variables are saved with the values that they have now: in the library where
        they take less than 2 GB, otherwise in a file beside it; "library" and "file" decide.
        """
        from glasshouse.runtime.save import save  # it reads modules

        with self._setting.lock, self._runtimes.one(changing=False):
            return save(self, Path(folder), name, weights)

    def give_weights_back(self, model: Any) -> None:
        """Copy the weights that `compile(model, ..., take_weights=True)` took over into the model.

        It is then what it was before, and both hold them.
        """
        from glasshouse.runtime.taken_model import give_back

        give_back(model, self._by_name, lambda name: self.source_array(self._by_name[name].node))

    def source_array(self, node: Node) -> Array:
        """What a constant or variable holds now."""
        place = self.plan.table[node.output]
        if self._device is not None:
            self._device.fetch()
        if node in self.graph.updates:
            return self._state.array(place)
        held = self._runtimes.constants.arrays.get(place)
        return np.asarray(node.attrs["data"] if held is None else held)  # unpacked, or fetched

    def constant_at(self, place: int) -> Array:
        """What a place of the table holds: a constant, or a form of one."""
        return on_host(self._runtimes.constants.arrays[place])

    @property
    def input_names(self) -> list[str]:
        """What the model's arguments are called, by input of the graph."""
        return [v.node.attrs["name"] or f"input_{i}" for i, v in enumerate(self.graph.inputs)]

    @property
    def output_names(self) -> list[str]:
        """Where in the model's results each output of the graph stands: `logits`, `cache.0`."""
        names = self.graph.output_names
        return [
            names[i] if i < len(names) else f"output_{i}" for i in range(len(self.graph.outputs))
        ]

    def __repr__(self) -> str:
        inputs = ", ".join(
            f"{n}: {v.type}" for n, v in zip(self.input_names, self.graph.inputs, strict=True)
        )
        outputs = ", ".join(
            f"{n}: {v.type}" for n, v in zip(self.output_names, self.graph.outputs, strict=True)
        )
        name = f" {self.graph.name}" if self.graph.name else ""
        kernels = len(self.program.kernels)
        return f"<Module{name} ({inputs}) -> ({outputs}), {kernels} kernels>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied as its saved form: library, weights as they are now, recording."""
        from glasshouse.runtime.pickled import reduced  # it reads modules

        return reduced(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        """As pickled, but that the classes of results are at hand."""
        restored, saved = self.__reduce__()
        twin: Module = restored(*saved)
        twin.signature = self.signature
        twin._rebuilt = rebuilder(self.signature)
        return twin

    @property
    def stamp(self) -> Callable[[int, int, int], int]:
        """See `Executable.stamp`."""
        return self._executable.stamp

    def quick_call(self, kind: type) -> QuickCall | None:
        """What a call with arguments of this class alone comes down to: it takes all inputs of the
        graph as a sequence, and gives None where `run_flat` must be asked. None: there is none."""
        if kind not in self._makers:
            self._makers[kind] = self._new_call(kind, False)
        return self._makers[kind]

    @property
    def bodies(self) -> Bodies:
        """Modules for the bodies of control flow."""
        return self._general.bodies

    @property
    def plan(self) -> MemoryPlan:
        """The offset or buffer of every value."""
        return self.program.memory

    @property
    def graph(self) -> Graph:
        """The optimised graph that was compiled."""
        return self.program.graph

    def summary(self) -> str:
        """A few lines for people: kernels, and memory against what it would be without a plan."""
        from glasshouse.runtime.summary import summary_of  # it reads modules

        return summary_of(self)

    @property
    def constant_bytes(self) -> int:
        """What constants take, with their packed forms."""
        return sum(a.nbytes for a in self._runtimes.constants.arrays.values())

    # ------------------------------------------------------------------------------------ internal
    def _structured_call(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """A call with arguments of any form that the model takes."""
        if not keywords and self._takes_flat and self._returns_flat:
            return self._general_call(args)
        given = flat_inputs(self.signature, len(self.graph.inputs), args, keywords)
        return self._rebuilt(given, self.run_flat(given))

    def _general_call(self, inputs: Sequence[Any]) -> Any:
        """What the quick path does not serve, or not yet; this one also reports what is wrong."""
        kind = type(inputs[0]) if inputs else None
        if kind not in self._makers:
            call = self._makers[kind] = self._new_call(kind, False)
            made = None if call is None else call(inputs)
            if made is not None:
                return made
        if self._rests and any(map(is_torch, inputs)):
            rest()
        arrays = self._run(self._arrays(inputs))
        pairs = zip(arrays, self.graph.outputs, strict=True)
        wrapped = [like_inputs(inputs, a, v.type.dtype) for a, v in pairs]
        return wrapped[0] if len(wrapped) == 1 else tuple(wrapped)

    def _new_call(self, kind: type | None, given_outputs: bool) -> QuickCall | None:
        if self.backend.elsewhere:
            return self._call_on_device
        if self._quick is None or kind is None:
            return None
        return self._quick.call_for(kind, given_outputs)

    def _run(
        self,
        inputs: Sequence[Array],
        outputs: Sequence[Array] | None = None,
        times: Array | None = None,
        see: See | None = None,
    ) -> list[Array]:
        if self.backend.elsewhere:
            device = self._on_device()
            try:
                with self._runtimes.one(), device.lock.lock:
                    self._draw_seed(device)
                    return device.run(self._runtimes.constants, inputs, outputs, times, see)
            except LibraryRefused as refused:
                self._compute_otherwise(refused)
                return self._run(inputs, outputs, times, see)
        kept, given, sizes = self._general.prepare(inputs, outputs)
        with self._runtimes.one() as workspace:
            if self._runtimes.seed is not None:
                self._runtimes.seed()
            return Run(self._general, workspace, kept, sizes).execute(given, times, see)

    def _arrays(self, inputs: Sequence[Any]) -> list[Array]:
        """Arguments as arrays of the right element types."""
        values = self.graph.inputs
        if self.backend.elsewhere:
            inputs = self.on_host(inputs)
        given = ordered(values, inputs, {})
        named = enumerate(zip(values, given, strict=True))
        return [as_array(name_of(v, i), v.type, x) for i, (v, x) in named]


def _check_count(count: Any) -> None:
    if not isinstance(count, int) or count < 1:
        raise ExecutionError(f"count is how often to run, an int from 1 on, got {count!r}")


def step_name(step: Step) -> str:
    """What a step is called in generated code."""
    return step.kernel.name if isinstance(step, Call) else f"fallback_{step.node.op.name}"
