"""How an exported program becomes a graph: inputs, weights, state, outputs, names."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from glasshouse.errors import CaptureError, TypeMismatch
from glasshouse.frontend.torch.complex import Complex
from glasshouse.frontend.torch.dims import Symbols, mended
from glasshouse.frontend.torch.dtypes import COMPLEX_PARTS, dtype_of
from glasshouse.frontend.torch.groups import label_clusters
from glasshouse.frontend.torch.importer import Importer
from glasshouse.frontend.torch.memory import storage_of
from glasshouse.frontend.torch.slot import Slot
from glasshouse.frontend.torch.source import Sources
from glasshouse.frontend.torch.stacks import calling_line
from glasshouse.frontend.torch.strided import NAMES, Strided, is_whole
from glasshouse.frontend.torch.taken_apart import TakenApart, elements_of_storage, in_memory
from glasshouse.frontend.torch.weights import data_of, identity
from glasshouse.ir.builder import GraphBuilder
from glasshouse.ir.dim import SymDim
from glasshouse.ir.dtype import bool_, int64, to_storage
from glasshouse.ir.given_sizes import may_give_size, sizes_given, symbols_needed
from glasshouse.ir.graph import Graph
from glasshouse.ir.signature import Fixed
from glasshouse.ir.sources import CONSTANT, INPUT, VARIABLE
from glasshouse.ir.types import tensor_type
from glasshouse.runtime.arrays import as_complex


@dataclass
class Captured:
    """A graph, and how a call of the model it was captured from goes in and comes out."""

    graph: Graph
    in_spec: Any = None
    out_spec: Any = None
    inputs: list[int] = field(default_factory=list)  # graph input -> number of the flat argument
    outputs: list[Any] = field(default_factory=list)  # flat result -> graph output, or a `Fixed`
    written: list[tuple[int, int]] = field(default_factory=list)  # (flat argument, graph output)
    aliases: dict[str, str] = field(default_factory=dict)  # name of a tied weight -> its name here
    refused: list[tuple[str, str]] = field(
        default_factory=list
    )  # (op, why its spelling did not do)
    frozen: bool = False  # whether it holds decisions that the example's data took
    numbers: set[int] = field(default_factory=set)  # graph outputs that are ints in the model
    complex: set[int] = field(default_factory=set)  # graph outputs that are pairs of reals

    apart: dict[int, TakenApart] = field(default_factory=dict)  # arguments that enter as others

    def given(self, flat: Sequence[Any]) -> list[Any]:
        """The graph's inputs, of a call's flat arguments."""
        if not self.apart:
            return [flat[i] for i in self.inputs]
        parts = {number: iter(self._taken(flat, number)) for number in self.apart}
        return [next(parts[i]) if i in parts else flat[i] for i in self.inputs]

    def _taken(self, flat: Sequence[Any], number: int) -> Sequence[Any]:
        how = self.apart[number]
        found = how.take(flat[number])
        if found is None:
            raise TypeMismatch(f"argument {number} must be a {how.kind}")
        return found

    def flat_inputs(
        self, args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
    ) -> list[Any]:
        """The tensors among the arguments of a call, in the order of the graph's inputs."""
        return self.given(pytree.tree_leaves((tuple(args), dict(kwargs or {}))))

    def flat_results(self, outputs: Sequence[Any]) -> list[Any]:
        """What the model returns, taken apart, from the outputs of a run."""
        return [o.value if isinstance(o, Fixed) else self._result(o, outputs) for o in self.outputs]

    def _result(self, number: int, outputs: Sequence[Any]) -> Any:
        found = outputs[number]
        if number in self.numbers:
            return int(found)
        if number in self.complex and isinstance(found, torch.Tensor):
            return as_complex(found.contiguous())
        return found

    def results(self, outputs: Sequence[Any]) -> Any:
        """What the model returns, from the outputs of a run."""
        flat = self.flat_results(outputs)
        return pytree.tree_unflatten(flat, self.out_spec) if self.out_spec else flat


class Assembler:
    """Puts the inputs and the state of a captured program into a graph."""

    def __init__(self, symbols: Symbols, sources: Sources, name: str = "") -> None:
        self.builder = GraphBuilder(name)
        self.symbols = symbols
        self.importer = Importer(self.builder, symbols, sources)
        self.captured = Captured(self.builder.graph)
        self.state: list[tuple[Slot, Any]] = []  # slot of a tensor that is written, its variable
        self.given: dict[int, Slot] = {}  # number of a flat argument -> slot of that input
        self.names: dict[int, str] = {}
        self.slots: dict[str, Slot] = {}  # by the name of the weight
        self._tied: dict[tuple[Any, ...], tuple[str, Slot]] = {}

    def input(self, val: Any, name: str, number: int) -> Slot:
        """A tensor that is given at each run."""
        shape = self.symbols.shape(val.shape)
        if val.dtype in COMPLEX_PARTS:
            shape = (*shape, 2)
        handle = self.builder.input(dtype_of(val.dtype), shape, name)
        self.captured.inputs.append(number)
        self.names[number] = name
        slot = Slot(Complex(handle) if val.dtype in COMPLEX_PARTS else handle)
        self.given[number] = slot
        return slot

    def memory(self, val: Any, name: str, number: int) -> Slot:
        """A tensor that is given at each run with the memory that it lies in."""
        how = self.captured.apart[number] = in_memory(val)
        shape: tuple[Any, ...] = (elements_of_storage(val),)
        shape = (*shape, 2) if val.dtype in COMPLEX_PARTS else shape
        handle = self.builder.input(dtype_of(val.dtype), shape, f"{name}.{how.names[0]}")
        self.captured.inputs.append(number)
        self.names[number] = name
        whole = Slot(Complex(handle) if val.dtype in COMPLEX_PARTS else handle)
        self.given[number] = whole
        return Strided(whole, None, (val.shape, val.stride()), val.storage_offset()).view()

    def size(self, dim: SymDim, number: int) -> None:
        """A number that is given at each run and is a size: an input that is nothing but long."""
        self.builder.input(bool_, (dim,), f"size:{dim}")
        self.captured.inputs.append(number)

    def weight(self, tensor: torch.Tensor, name: str, changes: bool) -> Slot:
        """A parameter, buffer or constant; it enters the graph where it is first read."""
        key = identity(tensor)
        if key in self._tied:
            first, slot = self._tied[key]
            self.captured.aliases[name] = first
            return slot

        def make() -> Any:
            source = self.builder.origin.source
            origin = type(self.builder.origin)(source, name)
            with self.builder.at(origin):
                handle = self._source(tensor, name, changes)
            if changes:
                self.state.append((slot, handle))
            return Complex(handle) if tensor.dtype in COMPLEX_PARTS else handle

        slot = Slot(make=make)
        self._tied[key] = (name, slot)
        self.slots[name] = slot
        return slot

    def _source(self, tensor: torch.Tensor, name: str, changes: bool) -> Any:
        kind = dtype_of(tensor.dtype)
        data = data_of(tensor, kind)
        shape = tuple(int(s) for s in tensor.shape)
        if tensor.dtype in COMPLEX_PARTS:
            shape = (*shape, 2)
        if isinstance(data, np.ndarray):
            data = to_storage(data, kind)
        attrs = {"dtype": kind, "shape": shape, "name": name, "data": data}
        op = VARIABLE if changes else CONSTANT
        node = self.builder.emit(op, (), attrs, (tensor_type(kind, shape),))
        return self.builder.wrap(node.output)

    def finish(self, results: Sequence[Any], names: Sequence[str]) -> Captured:
        """Declare outputs and updates; results may be slots, sizes, numbers or None."""
        handles: list[Any] = []
        kept: list[str] = []
        for result, name in zip(results, names, strict=True):
            handle = self._handle(result)
            if handle is None:
                self.captured.outputs.append(Fixed(result))
                continue
            if isinstance(result, SymDim):
                self.captured.numbers.add(len(handles))
            elif isinstance(result, Slot) and isinstance(result.read(), Complex):
                self.captured.complex.add(len(handles))
            self.captured.outputs.append(len(handles))
            handles.append(handle)
            kept.append(name)
        for number, slot in self.given.items():
            if slot.written and number in self.captured.apart:
                raise CaptureError(
                    f"the model writes into its argument {self.names[number]}, which enters as "
                    f"{', '.join(self.captured.apart[number].names)}",
                    hint="write into a copy (tensor.clone())",
                )
            if slot.written:
                self.captured.written.append((number, len(handles)))
                self.captured.graph.written[len(handles)] = self.captured.inputs.index(number)
                handles.append(_plain(slot.read()))
                kept.append(f"written:{self.names[number]}")
        for slot, variable in self.state:
            if slot.written:
                self.builder.update(variable, _plain(slot.read()))
        remove_dead(self.builder.finish(*handles, names=kept))
        label_clusters(self.captured.graph)
        self.captured.refused = self.importer.refused
        return self.captured

    def _handle(self, result: Any) -> Any:
        if isinstance(result, Slot):
            return _plain(result.read())
        if isinstance(result, SymDim):
            return self.builder.apply("full", shape=(), value=result, dtype=int64)
        return result if hasattr(result, "builder") else None


def remove_dead(graph: Graph) -> None:
    """Take out nodes that no output or update needs; inputs stay, and nodes that give sizes which
    others have.

    So do variables that are only written: their new values are results.
    """
    sized = any(may_give_size(n) for n in graph.nodes)
    needed: set[str] = set()  # symbols of the nodes that stay
    for node in reversed(list(graph.nodes)):
        stays = node.op is INPUT or node in graph.updates or any(map(graph.uses, node.outputs))
        if stays or not needed.isdisjoint(sizes_given(node)):
            needed |= symbols_needed(node) if sized else frozenset()
        else:
            graph._remove(node)


def _plain(handle: Any) -> Any:
    return handle.pairs if isinstance(handle, Complex) else handle


# -------------------------------------------------------------------------------- exported programs
def import_program(
    program: Any, names: Mapping[str, str] | None = None, model: Any = None, name: str = ""
) -> Captured:
    """The graph of an ExportedProgram; `names` calls its symbols ("s77") as the user did."""
    if _is_transformed(program.graph_module):
        # vmap and its like are still to be applied; PyTorch does that when it functionalises.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            program = program.run_decompositions({})
    assembler, results = load_program(program, Sources(model, called=calling_line()), name, names)
    captured = assembler.captured
    captured.in_spec, captured.out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    return assembler.finish(results, output_names(captured.out_spec, len(results)))


def _of_plain_tensors(program: Any) -> Any:
    """Weights that wrap several tensors, as torchao's do, as these, with what is done with them."""
    if not any(is_traceable_wrapper_subclass(x) for x in program.state_dict.values()):
        return program
    with warnings.catch_warnings():  # PyTorch's own deprecations are none of the user's business
        warnings.simplefilter("ignore", FutureWarning)
        return program.run_decompositions({})


def load_program(
    program: Any,
    sources: Sources,
    name: str = "",
    names: Mapping[str, str] | None = None,
    strip: str = "",
    variables: AbstractSet[str] = frozenset(),
    stops: bool = False,
) -> tuple[Assembler, list[Any]]:
    """A program's nodes in a graph that can be added to, and what it returns.

    `variables` are weights that will be written to. With `stops`, the importer says which nodes
    no gradient flows through. `strip` is the name of a module around the
    user's: weights are called as they are called inside of it.
    """
    program = _of_plain_tensors(program)
    symbols = Symbols(mended(program.range_constraints, program.graph))
    for torch_symbol, wanted in (names or {}).items():
        symbols.name(torch_symbol, wanted)
    assembler = Assembler(symbols, sources, name)
    assembler.importer.stops = stops
    signature = program.graph_signature
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    changing = written_storages(program.graph_module)
    around = strided_storages(program.graph_module)
    updated = set(signature.buffers_to_mutate.values())
    inputs: list[Any] = []
    number = 0
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            inputs.append(_user_input(assembler, node, spec.arg, number, around))
            number += 1
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            held = program.state_dict.get(spec.target)
            tensor = program.constants[spec.target] if held is None else held
            label = spec.target.removeprefix(f"{strip}.") if strip else spec.target
            changes = spec.target in updated or storage_of(node.meta.get("val")) in changing
            inputs.append(assembler.weight(tensor, label, changes or label in variables))
        else:
            inputs.append(None)  # tokens of effects, custom objects: nothing that is computed with
    results = assembler.importer.run(program.graph_module, inputs)
    return assembler, _results(program, results, dict(_by_name(signature, inputs)))


def _is_transformed(module: Any) -> bool:
    """Whether a program calls functions of functorch, in it or in a body."""
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    return any(
        str(getattr(n.target, "__module__", "")).startswith("torch._functorch")
        for g in graphs
        for n in g.nodes
        if n.op == "call_function"
    )


def _by_name(signature: Any, inputs: Sequence[Any]) -> Any:
    for spec, slot in zip(signature.input_specs, inputs, strict=True):
        yield (spec.target if spec.kind is InputKind.BUFFER else spec.arg.name), slot


def _user_input(
    assembler: Assembler, node: Any, arg: Any, number: int, around: AbstractSet[int | None]
) -> Any:
    val = node.meta.get("val")
    if isinstance(arg, ConstantArgument):
        return arg.value
    if isinstance(arg, SymIntArgument):
        size = assembler.symbols.dim(val) if isinstance(val, torch.SymInt) else val
        if isinstance(size, SymDim):
            assembler.size(size, number)
        return size
    if not isinstance(arg, TensorArgument) or not isinstance(val, torch.Tensor):
        raise CaptureError(f"the input {node.name} is neither a tensor nor a number")
    with assembler.builder.at(assembler.importer.sources.origin(node)):
        if storage_of(val) in around and not is_whole(val):
            return assembler.memory(val, node.name, number)
        return assembler.input(val, node.name, number)


def _results(program: Any, results: Sequence[Any], slots: dict[str, Any]) -> list[Any]:
    """What is returned; outputs that a functionalised program has for mutations become writes."""
    kept: list[Any] = []
    for spec, result in zip(program.graph_signature.output_specs, results, strict=True):
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION):
            slot = slots[spec.target]
            slot.read()
            slot.write(result.read())
        elif spec.kind is not OutputKind.TOKEN:
            kept.append(result)
    return kept


def output_names(spec: Any, count: int) -> list[str]:
    """The path of each result in what the model returns: `logits`, `past_key_values.0`."""
    if spec is None or spec.num_leaves != count:
        return [f"output_{i}" for i in range(count)]
    tree = pytree.tree_unflatten(list(range(count)), spec)
    names = [""] * count
    for path, number in pytree.tree_leaves_with_path(tree):
        names[number] = ".".join(_step(key) for key in path) or "output"
    return names


def _step(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key).strip(".[]'")


# ------------------------------------------------------------------------------------ what changes
_NORMS = {"aten::batch_norm", "aten::instance_norm"}


def strided_storages(module: Any) -> set[int | None]:
    """The memory that ops of a program read by strides, around what they are given."""
    calls = [n for n in module.graph.nodes if n.op == "call_function" and n.args]
    found = {
        storage_of(n.args[0].meta.get("val"))
        for n in calls
        if getattr(getattr(n.target, "_schema", None), "name", "").rstrip("_") in NAMES
    }
    found.discard(None)
    return found


def written_storages(module: Any) -> set[int | None]:
    """The memory that ops of a program (and of the bodies in it) write to."""
    found: set[int | None] = set()
    graphs = [m.graph for m in module.modules() if isinstance(m, torch.fx.GraphModule)]
    for node in (n for g in graphs for n in g.nodes if n.op == "call_function"):
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            continue
        for i, argument in enumerate(schema.arguments):
            given = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
            writes = argument.alias_info is not None and argument.alias_info.is_write
            if schema.name in _NORMS and argument.name in ("running_mean", "running_var"):
                writes = bool(node.args[5])
            each = given if isinstance(given, (list, tuple)) else [given]
            if writes:
                found |= {
                    storage_of(n.meta.get("val")) for n in each if isinstance(n, torch.fx.Node)
                }
    found.discard(None)
    return found


__all__ = ["Assembler", "Captured", "Fixed", "import_program", "written_storages"]
