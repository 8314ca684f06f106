"""AITemplate's `Model`: a compiled module with named inputs and outputs, and constants to set."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

import glasshouse as gh
from glasshouse.errors import ExecutionError
from glasshouse.ir.dim import bounds, evaluate
from glasshouse.ir.dtype import to_storage
from glasshouse.ir.graph import Graph, Value
from glasshouse.ir.sources import CONSTANT
from glasshouse.numpy_ref.executor import bind_sizes

Tensors = Sequence[Any] | Mapping[str, Any]


class Model:
    """A compiled model: `Model(folder)` for a saved one, or what `compile_model` gives.

    Constants that an optimisation merged into others can be set too: the new ones are folded again
    from the graph as it was given, and the kernels, which stay the same, come from the cache.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = "",
        num_runtimes: int = 1,
        *,
        graph: Graph | None = None,
        context: gh.PassContext | None = None,
        bound: Sequence[str] = (),
    ) -> None:
        self.num_runtimes = num_runtimes
        self._graph = graph
        self._context = context
        self._bound = set(bound)
        self._waiting: dict[str, Any] = {}  # the second buffer, until it is swapped in
        self._next: Any = None  # the module with them, where they had to be folded again
        if graph is None:
            found = Path(path)
            self.module = gh.load(found if found.is_dir() else found.parent, num_runtimes)
        else:
            self.module = self._compiled(graph)

    def __enter__(self) -> Model:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """AITemplate frees its library here; ours goes when nobody holds it."""

    # ------------------------------------------------------------------------------------- running
    def run_with_tensors(
        self, inputs: Tensors, outputs: Tensors, sync: bool = True, graph_mode: bool = False
    ) -> dict[str, Any]:
        """Run into the outputs given; a buffer for the greatest size comes back as its part."""
        arranged, views = self._arranged(inputs, outputs)
        self.module.run_with_tensors(arranged, views)
        return dict(zip(self.get_output_name_to_index_map(), views, strict=True))

    def benchmark_with_tensors(
        self,
        inputs: Tensors,
        outputs: Tensors,
        graph_mode: bool = False,
        count: int = 10,
        repeat: int = 1,
    ) -> tuple[float, float, dict[str, Any]]:
        """(mean ms, standard deviation, outputs)."""
        arranged, views = self._arranged(inputs, outputs)
        runs = max(count, 1) * max(repeat, 1)
        mean, deviation, _ = self.module.benchmark_with_tensors(arranged, views, runs)
        return mean, deviation, dict(zip(self.get_output_name_to_index_map(), views, strict=True))

    def profile_with_tensors(
        self, inputs: Tensors, outputs: Tensors, num_iters: int = 20, filename: str = ""
    ) -> dict[str, float]:
        """Milliseconds of each kernel; also written as JSON where a file is named."""
        arranged, _ = self._arranged(inputs, outputs)
        times: dict[str, float] = {}
        for number, t in enumerate(self.module.profile(*arranged, count=num_iters)):
            times[f"{number}_{t.name}"] = t.seconds * 1e3
        if filename:
            Path(filename).write_text(json.dumps(times, indent=1))
        return times

    # ----------------------------------------------------------------------------------- constants
    def set_constant(self, name: str, tensor: Any) -> None:
        self.set_many_constants({name: tensor})

    def set_many_constants(self, tensors: Mapping[str, Any]) -> None:
        """Give constants new data, all at once."""
        direct = self._is_direct(tensors)
        if direct:
            self.module.set_many_constants(tensors)
        if self._graph is not None:
            # The graph keeps up even where the module took them as they are: a later constant may
            # need all of them folded again.
            self._graph = with_constants(self._graph, tensors)
            if not direct:
                self.module = self._compiled(self._graph)
        self._bound |= set(tensors)

    def set_double_buffer_constant(self, name: str, tensor: Any) -> None:
        self.set_many_double_buffer_constants({name: tensor})

    def set_many_double_buffer_constants(self, tensors: Mapping[str, Any]) -> None:
        """Load new data beside what is in use: runs go on, and are not held up."""
        self._waiting.update({k: np.array(gh.array(v).numpy()) for k, v in tensors.items()})
        if self._is_direct(self._waiting):
            self.module.set_many_double_buffer_constants(tensors)
        elif self._graph is not None:
            self._next = self._compiled(with_constants(self._graph, self._waiting))

    def swap_constants(self) -> None:
        """Let runs that begin from now on see what was loaded."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        if self._graph is not None:
            self._graph = with_constants(self._graph, waiting)
        if self._next is not None:
            self.module, self._next = self._next, None
        else:
            self.module.swap_constants()
        self._bound |= set(waiting)

    def _is_direct(self, names: Iterable[str]) -> bool:
        """Whether the module has these as they were given, not merged into others."""
        direct = self.module.constant_names()
        return self._graph is None or all(name in direct for name in names)

    def fold_constants(self, sync: bool = True, double_buffer: bool = False) -> None:
        """Nothing is left to do: setting constants folds them."""

    def get_constant_names(
        self, unbound_constants_only: bool = True, constant_folding_only: bool = False
    ) -> list[str]:
        """Names of constants; only of those that were given no data, unless asked otherwise."""
        if self._graph is None:
            names = self.module.constant_names()
        else:
            names = [n.attrs["name"] for n in self._graph.nodes_of(CONSTANT) if n.attrs["name"]]
        return [n for n in names if not unbound_constants_only or n not in self._bound]

    # ---------------------------------------------------------------------------------- the outside
    def get_input_name_to_index_map(self) -> dict[str, int]:
        return {v.node.attrs["name"]: i for i, v in enumerate(self.module.graph.inputs)}

    def get_output_name_to_index_map(self) -> dict[str, int]:
        graph = self.module.graph
        names = [*graph.output_names, *[""] * len(graph.outputs)]
        return {names[i] or f"output_{i}": i for i in range(len(graph.outputs))}

    def get_output_maximum_shape(self, output: int | str) -> list[int]:
        return [int(bounds(d)[1]) for d in self._output(output).type.shape]

    def get_output_dtype(self, output: int | str) -> str:
        return self._output(output).type.dtype.name

    def _output(self, output: int | str) -> Value:
        number = self.get_output_name_to_index_map()[output] if isinstance(output, str) else output
        return self.module.graph.outputs[number]

    def _compiled(self, graph: Graph) -> Any:
        context = self._context
        if context is None or gh.PassContext.current() is context:
            return gh.compile(graph, num_runtimes=self.num_runtimes)
        with context:
            return gh.compile(graph, num_runtimes=self.num_runtimes)

    def _arranged(self, inputs: Tensors, outputs: Tensors) -> tuple[list[Any], list[Any]]:
        given = _by_index(inputs, self.get_input_name_to_index_map(), "input")
        buffers = _by_index(outputs, self.get_output_name_to_index_map(), "output")
        graph = self.module.graph
        sizes = bind_sizes([v.type for v in graph.inputs], given)
        views = []
        for value, buffer in zip(graph.outputs, buffers, strict=True):
            shape = tuple(evaluate(d, sizes) for d in value.type.shape)
            count = int(np.prod(shape, dtype=np.int64))
            fits = tuple(buffer.shape) == shape
            views.append(buffer if fits else buffer.reshape(-1)[:count].reshape(shape))
        return given, views


def with_constants(graph: Graph, tensors: Mapping[str, Any]) -> Graph:
    """The same graph with other data in its named constants."""
    named = {n.attrs["name"]: n for n in graph.nodes_of(CONSTANT) if n.attrs["name"]}
    for name, tensor in tensors.items():
        if name not in named:
            raise ExecutionError(f"there is no constant {name!r}", hint=f"there are: {list(named)}")
        type, shape = named[name].output.type, tuple(tensor.shape)
        if shape != type.shape:
            raise ExecutionError(f"{name} must be {type}, got shape {list(shape)}")
    out = graph.copy()
    for name, tensor in tensors.items():
        node = out.node(named[name].id)
        data = to_storage(np.array(gh.array(tensor).numpy()), node.output.type.dtype)
        node.attrs = {**node.attrs, "data": data}
    return out


def _by_index(given: Tensors, places: Mapping[str, int], what: str) -> list[Any]:
    if not isinstance(given, Mapping):
        given = dict(zip(places, given, strict=False)) if len(given) == len(places) else {}
    if set(given) != set(places):
        raise ExecutionError(f"the {what}s are {', '.join(places)}; other ones were given")
    return [given[name] for name in places]
