"""What a PyTorch model computes by itself, in float64: after each module, and after each ATen op.

A traced graph is compared with it, so that a fault of the frontend shows where it is.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from glasshouse.frontend.torch.dtypes import WITHOUT_NUMPY, dtype_of
from glasshouse.frontend.torch.tracing.capture import as_examples, export, kept_apart
from glasshouse.frontend.torch.weights import array_of
from glasshouse.ir.dtype import DType
from glasshouse.runtime.seeds import undisturbed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class EagerValue:
    """The tensors that a module or an op gave, in the order of computing."""

    path: str  # of the module; "" for the model itself
    cls: str
    name: str  # of the op in the exported program; "" for a module
    arrays: tuple[Array, ...]


@dataclass(frozen=True)
class Eager:
    """One run; `wide` tells whether it was in float64 (a model may fix another type)."""

    values: tuple[EagerValue, ...]
    results: tuple[Array, ...]
    wide: bool


_NARROW = (torch.float32, torch.float16, *WITHOUT_NUMPY)


class _Wide(TorchDispatchMode):
    """Casts to narrow floats give float64, as in a graph that is widened.

    Norms of language models are often computed in float32 whatever the model's type is.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given, named = pytree.tree_map(
            lambda x: torch.float64 if isinstance(x, torch.dtype) and x in _NARROW else x,
            (args, dict(kwargs or {})),
        )
        return func(*given, **named)


def run_modules(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Eager:
    """Run the model, and keep what each of its modules gave; nothing of the model changes."""
    for wide in (True, False):
        try:
            return _run_modules(model, args, kwargs, wide)
        except RuntimeError:  # operands of two types: the model makes float32 tensors itself
            if not wide:
                raise
    raise AssertionError("one of both returned or raised")


def result_types(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[tuple[DType, tuple[int, ...]]]:
    """Element types and shapes of what the model returns in its own types; of a complex tensor
    those of the pairs that stand for it. Empty where it cannot be run, or has others."""
    own, given, named = prepared(model, args, kwargs, False)
    try:
        with undisturbed(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = own(*given, **named)
        found = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
        return [
            (dtype_of(t.dtype), tuple(t.shape) + ((2,) if t.is_complex() else ())) for t in found
        ]
    except Exception:  # whatever the model's own code raises; the comparison of values tells it
        return []


def _run_modules(model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], wide: bool) -> Eager:
    seen: list[EagerValue] = []
    own, given, named = prepared(model, args, kwargs, wide)
    hooks = []

    def hook(path: str) -> Any:
        def after(module: Any, inputs: Any, output: Any) -> None:
            arrays = _arrays(output)
            if arrays:
                seen.append(EagerValue(path, type(module).__name__, "", arrays))

        return after

    if isinstance(own, torch.nn.Module):
        hooks = [m.register_forward_hook(hook(p)) for p, m in own.named_modules() if p]
    try:
        with undisturbed(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with _Wide() if wide else nullcontext():
                out = own(*given, **named)
    finally:
        for handle in hooks:
            handle.remove()
    return Eager(tuple(seen), _arrays(out), wide)


class ExportedOps:
    """The exported program of a model, run op by op in float64; the names are those that graphs
    have."""

    def __init__(self, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        own, given, named = prepared(model, args, kwargs, True)
        if not isinstance(own, torch.nn.Module):
            from glasshouse.frontend.torch.tracing.function import as_module

            own = as_module(own)
        given, named, _ = as_examples(own, given, named)
        given, named, _ = kept_apart(own, given, named)
        self._program = export(own, tuple(given), named, None)
        self._given = pytree.tree_leaves((tuple(given), named))

    def run(
        self, instead: Mapping[str, Sequence[Array]] | None = None, seed: int | None = None
    ) -> list[EagerValue]:
        """What each op gives, in the order of computing.

        Where `instead` has an op's name, what follows reads the last array there of the size that
        the op gives, not what PyTorch drew, which it does from `seed`.
        """
        given_values = instead or {}
        seen: list[EagerValue] = []

        class Watching(torch.fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                out = super().run_node(n)
                if n.op == "call_function":
                    stack = list((n.meta.get("nn_module_stack") or {}).values())
                    path = stack[-1][0] if stack else ""
                    seen.append(EagerValue(path, str(n.target), n.name, _arrays(out)))
                    if n.name in given_values and isinstance(out, torch.Tensor):
                        return _replaced(out, given_values[n.name])
                return out

        program = self._program
        held = [_held(program, spec.target) for spec in program.graph_signature.input_specs
                if spec.kind.name in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR")]  # fmt: skip
        with undisturbed(), torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if seed is not None:
                torch.manual_seed(seed)
            with _Wide():
                Watching(program.graph_module).run(*held, *self._given)
        return seen


def _replaced(out: Any, arrays: Sequence[Array]) -> Any:
    alike = [a for a in arrays if a.size == out.numel()]
    if not alike:
        return out
    return torch.from_numpy(np.array(alike[-1])).reshape(out.shape).to(out.dtype)


def _held(program: Any, name: str) -> Any:
    found = program.state_dict.get(name)
    return (program.constants[name] if found is None else found).detach().clone()


def prepared(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any], wide: bool
) -> tuple[Any, list[Any], dict[str, Any]]:
    """A copy of the model and of its arguments, in float64 if `wide`."""
    own = model
    if isinstance(model, torch.nn.Module):
        with warnings.catch_warnings():  # PyTorch's own, for copies of what it exported
            warnings.simplefilter("ignore", FutureWarning)
            own = copy.deepcopy(model)
        own = own.double() if wide else own

    def one(leaf: Any) -> Any:
        if isinstance(leaf, np.ndarray):
            leaf = torch.from_numpy(np.array(leaf))
        if not isinstance(leaf, torch.Tensor):
            return leaf
        leaf = leaf.detach().clone()
        return leaf.double() if wide and leaf.is_floating_point() else leaf

    given = pytree.tree_map(one, list(args))
    named = pytree.tree_map(one, dict(kwargs))
    return own, given, named


def _arrays(out: Any) -> tuple[Array, ...]:
    found = [t for t in pytree.tree_leaves(out) if isinstance(t, torch.Tensor)]
    plain = [array_of(t.float() if t.dtype in WITHOUT_NUMPY else t) for t in found]
    return tuple(a for a in plain if a is not None)
