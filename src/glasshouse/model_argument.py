"""What stands for a model on the command line: a model file, or `path.py:function`.

The function returns a model and its inputs (a tuple, or a dict of keywords), and for a training
step of a PyTorch model also the loss and the optimiser, as `gh.trace_training` takes them; it is
run, so name files that you trust.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from glasshouse.errors import CaptureError, FormatError, Unsupported, nearest
from glasshouse.formats.python_file import python_file_error
from glasshouse.formats.source import refuse_link
from glasshouse.ir.graph import Graph
from glasshouse.record.open_file import open_regular

HELP = "a .onnx or .pt2 file, or path.py:function, which returns a model and its inputs"
_FILES = (".onnx", ".pt2")


@dataclass(frozen=True)
class Given:
    """A model, what it is called with, its graph, and what the graph is run on."""

    name: str
    model: Any
    inputs: tuple[Any, ...]  # of the graph
    graph: Graph
    args: tuple[Any, ...] = ()  # of the model
    keywords: dict[str, Any] = field(default_factory=dict)
    training: tuple[Any, Any] | None = None  # loss and optimiser of a training step


def read_model(text: str) -> Given:
    """The model that an argument names, traced."""
    from glasshouse import trace
    from glasshouse.numerics.inputs import random_inputs

    if is_function(text):
        path, _, function = text.rpartition(":")
        model, args, keywords, training = _call(Path(path), function)
        traced = partial(trace, model, *args, **keywords)
        if training is not None:
            from glasshouse import trace_training  # needs PyTorch

            traced = partial(trace_training, model, *training, *args, **keywords)
        graph = _called_from(Path(path), function, traced)
        return Given(function, model, _tensors([args, keywords]), graph, args, keywords, training)
    refuse_link(text)
    if Path(text).suffix == ".py":
        with open_regular(text) as file:
            raise python_file_error(text, file.read().decode(errors="replace"))
    if Path(text).suffix not in _FILES:
        raise FormatError(f"{text}: not a model", hint=f"give {HELP}")
    open_regular(text).close()  # a file that is not there, or a pipe, is reported as such
    graph = trace(text)
    inputs = tuple(random_inputs(graph))
    return Given(Path(text).stem, text, inputs, graph, inputs)


def is_function(text: str) -> bool:
    """Whether an argument is `path.py:function`."""
    return text.rpartition(":")[0].endswith(".py")


def shown(text: str) -> Any:
    """What an argument of a command that shows things stands for: the graph of a function's model,
    else the file itself."""
    if not is_function(text):
        return text
    graph = read_model(text).graph
    graph.name = graph.name or text.rpartition(":")[2]
    return graph


def _tensors(given: Any) -> tuple[Any, ...]:
    """The tensors among arguments, in order; numbers, None and switches are fixed in the graph."""
    if isinstance(given, Mapping):
        given = list(given.values())
    if isinstance(given, (list, tuple)):
        return tuple(t for g in given for t in _tensors(g))
    return (given,) if hasattr(given, "shape") else ()


def refuse_training(given: Given, what: str) -> None:
    """Says that something is for models alone where a training step was given."""
    if given.training is not None:
        raise Unsupported(
            f"{given.name}() gives a training step, and {what}",
            hint="return the model and its inputs alone: return model, (x,)",
        )


def _call(
    path: Path, name: str
) -> tuple[Any, tuple[Any, ...], dict[str, Any], tuple[Any, Any] | None]:
    module = _import(path)
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, f in vars(module).items() if inspect.isfunction(f)]
        raise CaptureError(f"{path} has no function {name!r}", hint=nearest(name, known, "it has"))
    try:
        inspect.signature(function).bind()
    except (TypeError, ValueError) as error:
        raise CaptureError(
            f"{name}() cannot be called without arguments: {error}",
            where=str(path),
            hint="the function takes none, and returns a model and its inputs: return model, (x,)",
        ) from error
    try:
        made = function()
    except (Exception, SystemExit) as error:
        raise _of_the_user(path, f"{name}() failed", error) from error
    if not isinstance(made, tuple) or len(made) not in (2, 4):
        count = f" of {len(made)}" if isinstance(made, tuple) else ""
        raise CaptureError(
            f"{name}() must return a model and its inputs, it returned {type(made).__name__}"
            f"{count}",
            where=str(path),
            hint="end it with: return model, (x,); of a training step: return model, (x, y), "
            "loss, optimizer",
        )
    model, inputs, *more = made
    training = (more[0], more[1]) if more else None
    if isinstance(inputs, Mapping):
        return model, (), dict(inputs), training
    if isinstance(inputs, (str, bytes)):
        raise CaptureError(
            f"{name}() must return a model and its inputs, its inputs are {inputs!r}",
            where=str(path),
            hint="inputs are tensors or arrays: return model, (x,)",
        )
    several = isinstance(inputs, Sequence) and not hasattr(inputs, "shape")
    return model, tuple(inputs) if several else (inputs,), {}, training


def _called_from(path: Path, name: str, traced: Callable[[], Graph]) -> Graph:
    """The graph, traced as if the user's function had asked for it: its first line is that of ops
    which come from no line of the user's, as in a container of layers."""
    function = getattr(sys.modules.get(path.stem), name, None)
    line = getattr(getattr(function, "__code__", None), "co_firstlineno", 1)
    code = compile("\n" * (line - 1) + "graph = traced()", str(path.resolve()), "exec")
    names: dict[str, Any] = {"traced": traced}
    exec(code.replace(co_name=name), names)
    graph: Graph = names["graph"]
    return graph


def _import(path: Path) -> Any:
    """The file as a module; what lies beside it can be imported by it."""
    with path.open("rb"):
        pass
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None, "the name ends in .py"
    assert spec.loader is not None, "the name ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _of_the_user(path, f"{path} cannot be imported", error) from error
    finally:
        sys.path.pop(0)
    return module


def _of_the_user(path: Path, what: str, error: BaseException) -> CaptureError:
    """An error in the user's file, with the line where it happened."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [
        f
        for f in frames
        if f.filename not in (__file__, "<string>") and "<frozen" not in f.filename
    ]
    where = f"{theirs[-1].filename}:{theirs[-1].lineno}" if theirs else str(path)
    if isinstance(error, SyntaxError):
        where = f"{error.filename}:{error.lineno}"
    hint = ""
    if isinstance(error, ModuleNotFoundError):
        # Not "pip install NAME": a name that a stranger may have taken on the package index.
        hint = f"it is neither beside {path} nor among the packages of {sys.executable}"
    return CaptureError(f"{what}: {type(error).__name__}: {error}", where=where, hint=hint)
