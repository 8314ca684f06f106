"""How a PyTorch model is captured: `torch.export`, and what is tried where it refuses."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from glasshouse.collection import stage_over
from glasshouse.errors import CaptureError, DataDependent, GlasshouseError
from glasshouse.frontend.torch.dtypes import torch_dtype
from glasshouse.frontend.torch.sparse_parts import taken_apart
from glasshouse.frontend.torch.stacks import users_lines
from glasshouse.frontend.torch.tracing.containers import register_unknown
from glasshouse.frontend.torch.tracing.forgotten_proxies import forgotten_proxies
from glasshouse.frontend.torch.tracing.late_import import imported_late
from glasshouse.frontend.torch.tracing.lazy_modules import lazy_modules
from glasshouse.frontend.torch.tracing.misread import ReadRight
from glasshouse.frontend.torch.tracing.refusal import DATA, LEAVES, quiet, refusal
from glasshouse.frontend.torch.tracing.running_averages import counted_in_tensors
from glasshouse.frontend.torch.tracing.transforms import closed_transforms
from glasshouse.frontend.torch.tracing.validation import unchecked
from glasshouse.ir.dim import as_symbol
from glasshouse.ir.types import TensorType

if TYPE_CHECKING:
    from glasshouse.frontend.torch.program import Captured


def capture(
    model: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None, name: str = "", freeze: bool = True,
) -> Captured:  # fmt: skip
    """A model's graph for arguments like these, and how its calls go in and come out.

    Without `freeze`, a model that takes another way for other data is refused (`DataDependent`).
    """
    if isinstance(model, (str, os.PathLike)):
        model = _loaded(os.fspath(model))
    if isinstance(model, torch.export.ExportedProgram):
        return _imported(model, name=name)
    if not isinstance(model, torch.nn.Module):
        raise CaptureError(f"{type(model).__name__} is no torch.nn.Module or ExportedProgram")
    name = name or type(model).__name__
    if isinstance(model, torch.fx.GraphModule):
        from glasshouse.frontend.torch.graph_module import import_graph_module, is_aten

        if is_aten(model):
            return import_graph_module(model, list(args), name)
    examples, keywords, dims = as_examples(model, args, dict(kwargs or {}))
    examples, keywords, shared = kept_apart(model, examples, keywords)
    dynamic_shapes = dims if dynamic_shapes is None else dynamic_shapes
    try:
        program = export(model, tuple(examples), keywords, dynamic_shapes)
        stage_over()
        names = symbol_names(program, model, examples, keywords, dynamic_shapes)
        captured = _imported(program, names, model, name)
    except GlasshouseError:
        raise
    except Exception as error:  # PyTorch raises whatever the model's code raises
        return _otherwise(error, model, examples, keywords, dynamic_shapes, name, freeze)
    for number, _ in captured.written:
        if number in shared:
            raise CaptureError(
                f"{name} writes into its argument {number}, and that tensor was given twice",
                hint="give one of them as a copy (tensor.clone())",
            )
    return captured


def _imported(
    program: Any, names: Mapping[str, str] | None = None, model: Any = None, name: str = ""
) -> Captured:
    from glasshouse.frontend.torch.program import import_program

    return import_program(program, names, model, name)


def _loaded(path: str) -> Any:
    """The program in a .pt2 file."""
    try:
        with quiet():
            return torch.export.load(path)
    except FileNotFoundError:
        raise CaptureError(f"there is no file {path}") from None
    except Exception as error:  # whatever a broken archive makes PyTorch raise
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise CaptureError(
            f"{path} cannot be read: {reason[:200]}", hint="torch.export.save writes such files"
        ) from error


def _otherwise(
    error: Exception, model: Any, args: Sequence[Any], kwargs: dict[str, Any],
    dynamic_shapes: Any, name: str, freeze: bool = True,
) -> Captured:  # fmt: skip
    """What is tried when export refuses: export's strict way, then running the model once."""
    reason = refusal(error, model)
    # PyTorch's tracer calls scripted modules with one argument too many.
    scripted = any(isinstance(m, torch.jit.ScriptModule) for m in model.modules())
    if not scripted and ("itself fails" in reason.message or "arguments" in reason.message):
        raise reason from error
    try:
        program = export(model, tuple(args), kwargs, dynamic_shapes, strict=True)
        names = symbol_names(program, model, args, kwargs, dynamic_shapes)
        return _imported(program, names, model, name)
    except Exception:
        if not freeze and DATA in reason.message:
            raise DataDependent(reason.message, reason.where, reason.hint) from error
        if dynamic_shapes:
            raise reason from error
    from glasshouse.frontend.torch.tracing.loose import capture_loosely

    try:
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            captured = capture_loosely(model, args, kwargs, name)
    except Exception:
        if not freeze and LEAVES in reason.message:
            raise DataDependent(reason.message, reason.where, reason.hint) from error
        raise reason from error
    if captured.frozen and not freeze:
        raise DataDependent(reason.message, reason.where, reason.hint) from error
    warnings.warn(
        f"torch.export refused {type(model).__name__}, so it was captured by running it once: "
        f"what depends on data is fixed as it was for these inputs.\n{reason}",
        LooseCapture,
        stacklevel=2,
    )
    return captured


_OWN_ATTRIBUTES = (
    r"The tensor attributes? (?:[\w.]*\b_flat_weights\[\d+\](?:, | ))+(?:was|were) assigned during"
)
"""PyTorch's recurrent layers hold their weights in a list, too, which export takes for a model's
own doing. What a model itself sets on the way is told."""


class LooseCapture(UserWarning):
    """A graph that is right for inputs which take the same way through the model."""


def export(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any,
    strict: bool = False,
) -> Any:  # fmt: skip
    """`torch.export.export`, with results of any class."""
    register_unknown((args, kwargs))
    with imported_late("networkx"):
        import_module("torch.export._trace")  # what the first export loads, and where it is from
    watched = results_registered(model, not strict)
    with (
        watched, quiet(), users_lines(), warnings.catch_warnings(), unchecked(),
        counted_in_tensors(), ReadRight(), closed_transforms(), lazy_modules(),
        forgotten_proxies(),
    ):  # fmt: skip
        # PyTorch's own deprecations are none of the user's business.
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", _OWN_ATTRIBUTES, UserWarning)
        return torch.export.export(
            model, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict
        )


@contextmanager
def results_registered(model: Any, watch: bool = True) -> Iterator[None]:
    """While it is captured, a model's results are looked at for classes that are not known."""
    if not watch:
        yield
        return
    forward = model.forward

    @functools.wraps(forward)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        out = forward(*args, **kwargs)
        register_unknown(out)
        return out

    before = vars(model).get("forward")
    object.__setattr__(model, "forward", wrapped)
    try:
        yield
    finally:
        if before is None:
            del model.__dict__["forward"]
        else:
            object.__setattr__(model, "forward", before)


# -------------------------------------------------------------------------------------- arguments
def as_examples(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any], Any]:
    """Tensors for arrays and specs, and the dynamic shapes that symbols in specs stand for."""
    sizes: dict[str, tuple[int, Any]] = {}
    shapes: list[dict[int, Any]] = []

    def one(given: Any) -> Any:
        kind = getattr(given, "type", None)
        dynamic: dict[int, Any] = {}
        if isinstance(kind, TensorType) and not hasattr(given, "builder"):
            given = _example(kind, sizes, dynamic)
        elif isinstance(given, np.ndarray):
            given = torch.from_numpy(np.array(given) if not given.flags.writeable else given)
        shapes.append(dynamic)
        return given

    leaves, spec = pytree.tree_flatten(taken_apart((list(args), kwargs)))
    made = [one(leaf) for leaf in leaves]
    examples, keywords = pytree.tree_unflatten(made, spec)
    dims = None
    if any(shapes):
        trees = pytree.tree_unflatten([s or None for s in shapes], spec)
        # By the names of parameters, as PyTorch wants them: *args is one of them.
        bound = inspect.signature(model.forward).bind(*trees[0], **trees[1])
        dims = dict(bound.arguments)
    return examples, keywords, dims


def kept_apart(
    model: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any], set[int]]:
    """The same arguments, each a tensor of its own, and the numbers of those that were not.

    PyTorch knows tensors by identity: what is one tensor among the examples, or a parameter of the
    model, would be one in every call.
    """
    known = {id(t) for t in (*model.parameters(), *model.buffers())}
    leaves, spec = pytree.tree_flatten((list(args), kwargs))
    first: dict[int, int] = {}
    shared: set[int] = set()
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            continue
        if id(leaf) in known or id(leaf) in first:
            shared |= {number, first.get(id(leaf), number)}
            leaves[number] = leaf.detach().requires_grad_(leaf.requires_grad)
        first.setdefault(id(leaf), number)
    apart, keywords = pytree.tree_unflatten(leaves, spec)
    return apart, keywords, shared


def _example(kind: TensorType, sizes: dict[str, tuple[int, Any]], dynamic: dict[int, Any]) -> Any:
    shape: list[int] = []
    for axis, dim in enumerate(kind.shape):
        if isinstance(dim, int):
            shape.append(dim)
            continue
        found = as_symbol(dim)
        if found is None:
            raise CaptureError(f"the size {dim} of an input is not a single symbol")
        if found.name not in sizes:
            # Different numbers, so that sizes which are equal by chance are not taken for equal.
            size = max(found.low, 3 + 2 * len(sizes))
            size = size if found.high is None else min(size, found.high)
            made = torch.export.Dim(found.name, min=max(found.low, 1), max=found.high)
            sizes[found.name] = (size, made)
        shape.append(sizes[found.name][0])
        dynamic[axis] = sizes[found.name][1]
    dtype = torch_dtype(kind.dtype)
    return (
        torch.randn(shape, dtype=dtype)
        if dtype.is_floating_point
        else torch.zeros(shape, dtype=dtype)
    )


# ------------------------------------------------------------------------------- names of symbols
def symbol_names(
    program: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> dict[str, str]:
    """PyTorch's symbols ("s77") by the names of the `Dim`s that the user gave for them."""
    if not dynamic_shapes:
        return {}
    signature = inspect.signature(model.forward)
    bound = signature.bind(*args, **kwargs).arguments
    asked = dynamic_shapes
    if not isinstance(asked, dict):
        asked = dict(zip(bound, asked, strict=False))
    wanted = {str(n): v for n, v in bound.items()}
    user_inputs = [
        n for n in program.graph.nodes
        if n.op == "placeholder" and n.name in program.graph_signature.user_inputs
    ]  # fmt: skip
    leaves = pytree.tree_leaves_with_path(wanted)
    if len(leaves) != len(user_inputs):
        return {}
    names: dict[str, str] = {}
    for node, (path, _) in zip(user_inputs, leaves, strict=True):
        held = asked
        for key in path:
            held = _entry(held, getattr(key, "key", getattr(key, "idx", None)))
        val = node.meta.get("val")
        for axis, size in enumerate(getattr(val, "shape", ())):
            dim = _entry(held, axis)
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and dim is not None:
                name = getattr(dim, "__name__", None)
                names.setdefault(str(size.node.expr), name or f"{node.name}_{axis}")
    return names


def _entry(held: Any, key: Any) -> Any:
    if isinstance(held, dict):
        return held.get(key)
    if isinstance(held, (list, tuple)) and isinstance(key, int) and key < len(held):
        return held[key]
    return None
