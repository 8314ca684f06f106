"""What `glasshouse.trace` takes: our functions and modules, or models of other systems."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import glasshouse.ops  # noqa: F401  # fills the registry that graphs are made with
from glasshouse.collection import no_full_collection, sparing_memory, stage_over
from glasshouse.errors import CaptureError, DataDependent, InParts, TypeMismatch, Unsupported
from glasshouse.ir.graph import Graph
from glasshouse.ir.sources import CONSTANT, VARIABLE
from glasshouse.options import check_keywords, options_of
from glasshouse.runtime.taken_model import ModelWeights, check_whole

if TYPE_CHECKING:
    from glasshouse.lower.target import Target
    from glasshouse.runtime.module import Module


_LOG = logging.getLogger("glasshouse.compile")


def trace(model: Any, *inputs: Any, **keywords: Any) -> Graph:
    """The graph of a model for inputs like these.

    A model is a function on tensors, a `glasshouse.nn.Module`, a `torch.nn.Module`, an
    `ExportedProgram`, an ONNX `ModelProto`, or the path of an .onnx or .pt2 file. Inputs are
    arrays, tensors, or `spec(shape, dtype)`, whose sizes may be names.
    """
    if isinstance(model, type):
        raise CaptureError(
            f"{model.__name__} is a class, not a model",
            hint=f"give an instance: {model.__name__}(...)",
        )
    if isinstance(model, (str, os.PathLike)) or _is_torch(model, inputs) or _is_onnx(model):
        check_keywords(model, keywords, options_of(compile))
        check_whole(model)
        with no_full_collection():
            graph: Graph = _frontend()(model, inputs, keywords)
        return graph
    if not callable(model):
        raise CaptureError(
            f"{type(model).__name__} cannot be traced",
            hint="a function, a module of glasshouse or PyTorch, or the path of a model file can",
        )
    from glasshouse.tensor.trace import trace as trace_function

    return trace_function(model, *inputs, **keywords)


def compile(
    model: Any,
    *inputs: Any,
    target: Target | str | None = None,
    progress: Callable[[int, int, str], None] | bool | None = None,
    num_runtimes: int = 1,
    tune: bool | None = None,
    tolerance: float | None = None,
    precision: object = None,
    follow_weights: bool = False,
    take_weights: bool = False,
    threads: int | None = None,
    arch: str | None = None,
    **keywords: Any,
) -> Module:
    """A model as native code: traced (unless it is a graph), optimised, built and loaded.

    Passes and instruments are those of the enclosing `with PassContext()`, and so are target
    ("cpu") and precision where none is given: "bfloat16" lets products compute in it, and "tf32"
    lets those of a GPU round float32 (as PyTorch's own setting does, if it was changed). Where a
    convolution has several variants, the large ones are measured once on a machine
    (`tune=None`), or all (`True`), or none and an estimate decides (`False`); only those whose
    error, relative to the largest result, is within `tolerance` (2e-5) are taken. `progress` is
    called with (files built, files in all, name); without one, a line on a terminal or in a
    notebook tells of it, and False is silent. As many calls as there are runtimes, each with
    memory of its own, go on at the same time. `threads` is how many threads the kernels of this
    module run on; without it, those of the process (`set_threads`, GLASSHOUSE_THREADS, or its share
    of the processors).

    The target is "cuda" where inputs are tensors of a GPU, or a graph was traced for such ones.
    `target="cuda"` compiles for the GPU of this machine, and with `arch="sm_90"` for one that need
    not be here.

    Weights of a PyTorch model are to stay as they are: some are read where PyTorch has them, others
    are copies of this moment. When they change, a call warns once (`StaleWeights`), and results are
    of neither; `module.update_weights(model)` takes all of them over, and with `follow_weights`
    every call looks and does so itself.

    `take_weights` is for models that fill the memory: weights that kernels read in a packed form
    alone leave the PyTorch model as they are packed, one by one, so that they are never held twice.
    The model then has tensors of the meta device in their place: calling it, its `state_dict()`
    and compiling it again raise `WeightsTaken`, until `module.give_weights_back(model)` copies them
    back. The module can do all that others can; saving unpacks them.

    A model of PyTorch that takes another way for other data is compiled in parts, with a warning
    (`InParts`): what comes back is called like a module, and Python runs between the parts.
    """
    with no_full_collection(), sparing_memory(take_weights):
        stage_over()
        if target is None and arch is None and isinstance(model, Graph):
            target = model.device or None
        target = _target_of(target, arch, inputs, keywords)
        _check_threads(threads)
        owner = ModelWeights(model) if take_weights else None
        if owner is None:
            _get_ready(target)
        if isinstance(model, Graph):
            graph = model
        else:
            once = {"freeze": False} if _is_torch(model, inputs) else {}
            try:
                graph = trace(model, *inputs, **once, **keywords)
            except DataDependent as error:
                parts: Module = _in_parts(model, error)  # called like one
                return parts
        if precision is None and (_is_torch(model, inputs) or graph.device):
            precision = _asked_precision(target)
        traced = _weight_names(graph)
        # With `take_weights` first loaded here: the code of 200 modules fills holes that the trace
        # has left among Python's objects, which would stay (3 MB).
        from glasshouse.runtime.compiler import compile_optimized
        from glasshouse.show.progress import Progress

        shown = Progress()
        told = progress if callable(progress) else None if progress is False else shown
        begin = time.perf_counter()
        try:
            module = compile_optimized(
                graph, target, told, num_runtimes,
                tune=tune, tolerance=tolerance, precision=precision, threads=threads,
                owner=owner,
            )  # fmt: skip
        finally:
            shown.end()
        _LOG.info(
            "%s: %d nodes became %d kernels in %.2f s",
            graph.name or "graph", len(graph), len(module.program.kernels),
            time.perf_counter() - begin,
        )  # fmt: skip
        module.came_from(model if _is_torch(model) else None, traced, follow_weights)
        stage_over()
        return module


def _get_ready(target: Target | str | None) -> None:
    """Begin what every program of a target needs, while the model is traced."""
    from glasshouse.runtime.compiler import get_ready

    get_ready(target)


def _asked_precision(target: Target | str | None) -> str | None:
    from glasshouse.frontend.torch.devices import asked_precision

    return asked_precision(getattr(target, "name", target))


def _target_of(
    target: Target | str | None, arch: str | None, inputs: Sequence[Any], named: Mapping[str, Any]
) -> Target | str | None:
    """What was asked for; where nothing was, the GPU if a tensor of the inputs lies there."""
    if target is None and "torch" in sys.modules:
        from torch.utils import _pytree as pytree

        from glasshouse.runtime.arrays import on_gpu

        if any(map(on_gpu, pytree.tree_leaves((inputs, dict(named))))):
            target = "cuda"
    if arch is None:
        return target
    if target not in ("cuda", None):
        raise TypeMismatch(
            f"arch={arch!r} is an architecture of GPUs, and the target is {target!r}",
            hint="target='cuda' goes with it",
        )
    return f"cuda:{arch}"


def set_threads(count: int) -> None:
    """How many threads kernels run on from now on, in all modules of this process that were not
    given a number of their own (`compile(..., threads=4)`)."""
    from glasshouse.backend.cpu.threads import set_threads as set_for_process

    _check_threads(count)
    set_for_process(count)


def _check_threads(count: object) -> None:
    if count is not None and (type(count) is not int or count < 1):
        raise TypeMismatch(f"threads is a number of threads, from 1 on, got {count!r}")


def _weight_names(graph: Graph) -> list[str]:
    kinds = (CONSTANT, VARIABLE)
    names = (n.attrs["name"] for n in graph.nodes if n.op in kinds)
    return [str(name) for name in names if name]


def _in_parts(model: Any, error: DataDependent) -> Any:
    from glasshouse.frontend.dynamo.parts import CompiledParts

    warnings.warn(
        f"compiled in parts, with Python between them, because the way depends on data: {error}",
        InParts,
        stacklevel=3,
    )
    return CompiledParts(model, error.message)


def load(
    folder: str | os.PathLike[str],
    num_runtimes: int = 1,
    verify: bool = True,
    threads: int | None = None,
) -> Module:
    """The module that `module.save(folder)` wrote; needs no compiler and not the model's code.

    It runs the native code of that folder, so load what you trust. `verify=False` leaves out the
    check that the weights are those that were saved, which reads all of them. `threads` is as in
    `compile`.
    """
    from glasshouse.runtime.load import load as load_folder

    _check_threads(threads)
    return load_folder(folder, num_runtimes, verify, threads)


def _is_torch(model: Any, inputs: Sequence[Any] = ()) -> bool:
    """Whether this is a model of PyTorch, or a function that is given its tensors and none of ours.

    If PyTorch was never imported, it is not.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    export = sys.modules.get("torch.export")
    programs = (export.ExportedProgram,) if export is not None else ()
    if isinstance(model, (torch.nn.Module, *programs)):
        return True
    kinds = [type(x) for x in inputs]
    if not (inspect.isroutine(model) or isinstance(model, functools.partial)):
        return False
    if not any(issubclass(kind, torch.Tensor) for kind in kinds):
        return False
    from glasshouse.tensor.tensor import Tensor

    return not any(issubclass(kind, Tensor) for kind in kinds)


def _is_onnx(model: Any) -> bool:
    return type(model).__module__.partition(".")[0] == "onnx"


def _frontend() -> Callable[..., Any]:
    if find_spec("glasshouse.frontend") is None:
        raise Unsupported("models of other systems cannot be traced yet; glasshouse.nn ones can")
    found: Callable[..., Any] = import_module("glasshouse.frontend").trace
    return found
