"""A key for what Dynamo hands over: equal for graphs from which the same graph of ours is captured.

Everything that capturing looks at goes into it: ops with their arguments, types, strides and shared
memory of all tensors, lines and module paths, names of weights, PyTorch's modes, what is known of
symbolic sizes, the versions of PyTorch and of the code that captures. What the key has no word for
gives no key, and is captured anew.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from glasshouse.frontend.dynamo.names import is_weight, source_name
from glasshouse.frontend.torch.memory import storage_of
from glasshouse.frontend.torch.stacks import calling_line
from glasshouse.frontend.torch.weights import identity

_PLAIN = (
    bool, int, float, str, type(None), type(Ellipsis), complex, bytes,
    torch.dtype, torch.device, torch.layout, torch.memory_format,
)  # fmt: skip
_KNOWN = ("torch", "_operator", "operator", "builtins", "math", "einops")
_SMALL = 1 << 20  # bytes of a tensor in the graph itself, which are hashed


class _NoWord(Exception):
    """Something that the key cannot tell from others of its kind."""


def graph_key(module: fx.GraphModule, fakes: Sequence[Any], examples: Sequence[Any]) -> str | None:
    """The key; None where there is none."""
    try:
        rows = [_modes(), _sources(), known_sizes(fakes), str(calling_line())]
        rows += _arguments(fakes, examples)
        given = [n for n in module.graph.nodes if n.op == "placeholder"]
        rows += [source_name(n) for n in given]
        called: dict[str, int] = {}
        rows += [_node(module, node, called) for node in module.graph.nodes]
    except _NoWord:
        return None
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:32]


def known_sizes(fakes: Sequence[Any]) -> str:
    """What Dynamo knows of symbolic sizes: values, ranges, equalities, guards.

    Tracing may add to it; a graph that was traced so cannot be taken from elsewhere, because the
    guards would be missing.
    """
    env = next((e for e in map(_environment, fakes) if e is not None), None)
    if env is None:
        return ""
    tables = (env.var_to_range, env.replacements, env.deferred_runtime_asserts)
    values = getattr(env, "backed_var_to_val", None) or getattr(env, "var_to_val", {})
    told = [sorted(f"{k}: {v}" for k, v in table.items()) for table in (*tables, values)]
    return repr((told, [str(guard.expr) for guard in env.guards]))


def _environment(fake: Any) -> Any:
    figures = (*fake.shape, *fake.stride()) if isinstance(fake, torch.Tensor) else (fake,)
    found = (f.node.shape_env for f in figures if isinstance(f, torch.SymInt))
    return next(found, None)


def _modes() -> str:
    """What changes the meaning of ops around a graph."""
    return repr((
        torch.__version__, torch.get_default_dtype(), torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"),
        torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision(),
    ))  # fmt: skip


@functools.cache
def _sources() -> str:
    """The state of our own code: which files, how large, written when."""
    root = Path(__file__).resolve().parents[2]
    told = ((p, p.stat()) for p in sorted(root.rglob("*.py")))
    return repr([(str(p), s.st_size, s.st_mtime_ns) for p, s in told])


def _arguments(fakes: Sequence[Any], examples: Sequence[Any]) -> list[str]:
    """Types and layouts, and which arguments share memory, as fakes and as they really are."""
    numbers: dict[Any, int] = {}

    def nth(thing: Any) -> int:
        return numbers.setdefault(thing, len(numbers))

    rows = []
    for fake, example in zip(fakes, examples, strict=True):
        weight = is_weight(example)
        real = nth(identity(example)) if weight else -1
        kind = type(example).__qualname__ if weight else ""
        rows.append(f"{_meta(fake)} {nth(storage_of(fake))} {real} {kind}")
    return rows


def _node(module: fx.GraphModule, node: fx.Node, called: dict[str, int]) -> str:
    """One node; `called` numbers the modules that Dynamo tells apart by their addresses."""
    parts = [node.name, node.op, _target(node)]
    if node.op == "get_attr":
        parts.append(_attribute(functools.reduce(getattr, str(node.target).split("."), module)))
    parts += [_word(node.args), _word(node.kwargs), _meta(node.meta.get("example_value"))]
    stack = node.meta.get("nn_module_stack") or {}
    modules = [
        (called.setdefault(str(k), len(called)), str(path), str(kind))
        for k, (path, kind) in stack.items()
    ]
    return "\x1f".join([*parts, repr(modules), str(node.meta.get("stack_trace"))])


def _target(node: fx.Node) -> str:
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    return _function(target)


def _function(target: Callable[..., Any]) -> str:
    home = getattr(target, "__module__", None) or getattr(
        getattr(target, "__objclass__", None), "__module__", ""
    )
    name = getattr(target, "__qualname__", "")
    known = str(home).partition(".")[0] in _KNOWN
    if not known or not name or "<" in name or isinstance(target, torch._ops.HigherOrderOperator):
        raise _NoWord
    return f"{home}.{name}"


def _attribute(held: Any) -> str:
    if not isinstance(held, torch.Tensor) or held.is_meta or held.layout is not torch.strided:
        raise _NoWord
    plain = held.detach().cpu().contiguous()
    if plain.nbytes > _SMALL or type(plain) not in (torch.Tensor, torch.nn.Parameter):
        raise _NoWord
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    return _meta(held) + hashlib.sha256(data).hexdigest()


def _meta(val: Any) -> str:
    """The type of a tensor, and how it lies."""
    if isinstance(val, torch.Tensor):
        if val.layout is not torch.strided:
            raise _NoWord
        layout = _word((tuple(val.shape), tuple(val.stride()), val.storage_offset()))
        flags = (val.dtype, val.device, val.requires_grad, val.is_conj(), val.is_neg())
        return f"{layout} {flags}"
    return _word(val)


def _word(given: Any) -> str:
    if isinstance(given, fx.Node):
        return f"%{given.name}"
    if type(given) in _PLAIN:
        return f"{type(given).__name__} {given!r}"
    if isinstance(given, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return f"symbolic {given.node.expr}"
    if isinstance(given, slice):
        return f"slice {_word((given.start, given.stop, given.step))}"
    if isinstance(given, torch.Tensor):
        return _meta(given)
    if isinstance(given, (list, tuple)):
        return f"{type(given).__name__}[{','.join(map(_word, given))}]"
    if isinstance(given, dict):
        return "{" + ",".join(f"{_word(k)}:{_word(v)}" for k, v in given.items()) + "}"
    raise _NoWord
