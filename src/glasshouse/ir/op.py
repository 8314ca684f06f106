"""What an op is: everything about its meaning, in one object, independent of any target.

`glasshouse.ops` declares the ops; nothing else does. Calling an op computes with handles (lazy
tensors, or expressions in a graph under construction): operands are brought to values, element
types promote in sight (through `cast` nodes), attributes are checked, types inferred, and the
handle's builder emits the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.errors import GlasshouseError, TypeMismatch
from glasshouse.ir.attrs import Attr, AttrValue, check_attrs
from glasshouse.ir.dtype import Category, DType, as_dtype, bool_, float32, int64, promote
from glasshouse.ir.known import find, keep, key_of
from glasshouse.ir.types import TensorType

if TYPE_CHECKING:
    from glasshouse.ir.builder import Builder
    from glasshouse.ir.graph import Value

Types = tuple[TensorType, ...]
Infer = Callable[..., TensorType | Types]


class Kind(Enum):
    """How an op can take part in a fused kernel."""

    SOURCE = "source"  # input, constant, variable: computes nothing
    ELEMENTWISE = "elementwise"  # output[i] from input[i], with broadcasting
    INJECTIVE = "injective"  # each output element copies one input element: reshape, slice, gather
    REDUCTION = "reduction"  # output elements fold many input elements along axes
    CONTRACTION = "contraction"  # matmul, convolution, attention: an anchor with its own template
    OPAQUE = "opaque"  # nothing may be fused into it


class Operands(Enum):
    """What a call does to the element types of the operands before inference."""

    AS_GIVEN = "as given"
    COMMON = "common"  # all to one type, as arithmetic wants
    FLOAT = "float"  # all to one floating type, as exp and mean want
    BRANCHES = "branches"  # all but the first to one type, as where wants


@dataclass(frozen=True)
class NoGradient:
    """Declared in place of a gradient, with the reason why there is none."""

    why: str


@dataclass(frozen=True)
class Traits:
    """What else passes, lowering and exporters must know of an op; `ops.declare.op` takes them."""

    cost: float | None = None
    """Operations for an element, of the output where the op goes element by element, else of its
    first operand; as a vectorised polynomial takes them. None: 1, or 0 for what only moves."""
    view: str = ""
    """How an op that copies nothing can be read through an index: "whole", each element once in
    another order; "part"; "repeat", elements more than once."""
    narrows: bool = False  # computes in a narrower float type, when its operand comes in one
    never_negative: bool = False  # its result, for floats
    image: bool = False  # its first output is an image, which targets may want channels last
    folds: bool = True  # may be computed while compiling, when its operands are known
    merges: bool = True  # two with equal operands and attributes are one
    onnx: str = ""  # the ONNX op that is just the same, for all element types
    updates: bool = False  # its result is its first operand, with some elements written


@dataclass(frozen=True, eq=False)
class Op:
    """`infer(*types, **attrs)` gives the output types, `ref(*arrays, **attrs)` the NumPy meaning,
    `vjp(g, *inputs, *outputs, **attrs)` one gradient (or None) for each input; for several outputs,
    `g` is a tuple with None where no gradient arrives."""

    name: str
    kind: Kind
    family: str
    infer: Infer
    ref: Callable[..., Any]
    vjp: Callable[..., Sequence[Any]] | NoGradient
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    inputs: tuple[str, ...] = ("x",)  # names of operands; "*xs" takes any number, "m?" is optional
    operands: Operands = Operands.AS_GIVEN
    doc: str = ""
    label: str = ""  # as printed: "LeakyRelu"
    traits: Traits = Traits()
    min_inputs: int = 0
    max_inputs: int | None = 0

    def __post_init__(self) -> None:
        label = self.label or "".join(w.capitalize() for w in self.name.split("_"))
        object.__setattr__(self, "label", label)
        fixed = [n for n in self.inputs if not n.startswith("*")]
        least = len([n for n in fixed if not n.endswith("?")])
        object.__setattr__(self, "min_inputs", least)
        object.__setattr__(self, "max_inputs", len(fixed) if fixed == list(self.inputs) else None)

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def types(self, operand_types: Sequence[TensorType], attrs: Mapping[str, AttrValue]) -> Types:
        """The output types; an error names this op and the operands."""
        count = len(operand_types)
        if count < self.min_inputs or (self.max_inputs is not None and count > self.max_inputs):
            wanted = ", ".join(self.inputs) or "none"
            raise TypeMismatch(f"{self.name} takes the operands ({wanted}), got {count}")
        try:
            out: Any = self.infer(*operand_types, **attrs)  # of an author: may be anything
        except GlasshouseError as error:
            if error.message.startswith(f"{self.name}("):
                raise
            shown = ", ".join(map(str, operand_types))
            raise type(error)(
                f"{self.name}({shown}): {error.message}", error.where, error.hint
            ) from None
        if isinstance(out, TensorType):
            return (out,)
        if not isinstance(out, (tuple, list)) or not all(isinstance(t, TensorType) for t in out):
            raise TypeMismatch(
                f"{self.name}: its rule for types gives {out!r}, not types",
                hint="infer gives a type or a tuple of them: `tensor_type(x.dtype, x.shape)`",
            )
        return tuple(out)

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """Compute with handles. Numbers and arrays among the operands become constants."""
        listed = (
            len(args) == 1 and self.inputs[:1] == ("*xs",) and isinstance(args[0], (list, tuple))
        )
        given = args[0] if listed else args
        for handle in given:
            builder: Builder | None = getattr(handle, "builder", None)
            if builder is not None:
                break
        else:
            raise TypeMismatch(f"{self.name} needs at least one tensor among its operands")
        node = self.emit(builder, [a for a in given if a is not None], attrs)
        outputs = node.outputs
        if len(outputs) == 1:
            return builder.wrap(outputs[0])
        return tuple([builder.wrap(v) for v in outputs])

    def emit(self, builder: Builder, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """The node that applies this op; operands may be handles, values, numbers or arrays."""
        as_given = self._as_given(args)
        key = None if as_given is None else key_of(self, as_given, attrs)
        if key is not None and as_given is not None:
            known = find(key)
            if known is not None:
                return builder.emit(self, tuple(as_given), known.attrs, known.types)
        try:
            checked = check_attrs(self.name, self.attrs, attrs)
            values = self._promoted(builder, args)
            types = self.types([v.type for v in values], checked)
        except GlasshouseError as error:
            named = error.message.startswith(self.name)
            message = error.message if named else f"{self.name}: {error.message}"
            raise type(error)(message, error.where or builder.where(), error.hint) from None
        if key is not None:
            keep(key, checked, types, [v.type for v in values])
        return builder.emit(self, tuple(values), checked, types)

    def _as_given(self, args: Sequence[Any]) -> list[Value] | None:
        """The operands, if all are values that need no promotion."""
        values: list[Value] = []
        for arg in args:
            value: Any = getattr(arg, "value", None)  # a handle's
            if getattr(value, "type", None) is None:
                return None
            values.append(value)
        if self.operands is Operands.AS_GIVEN:
            return values
        promoted = values[1:] if self.operands is Operands.BRANCHES else values
        if not promoted:
            return None
        dtype = promoted[0].type.dtype
        if self.operands is Operands.FLOAT and not dtype.is_float:
            return None
        return values if all(v.type.dtype is dtype for v in promoted) else None

    def _promoted(self, builder: Builder, args: Sequence[Any]) -> list[Value]:
        if self.operands is Operands.AS_GIVEN:
            return [builder.value_of(a, None) for a in args]
        free = 1 if self.operands is Operands.BRANCHES else 0
        head = [builder.value_of(a, None) for a in args[:free]]
        target = common_dtype(args[free:], self.operands is Operands.FLOAT)
        return head + [builder.cast(builder.value_of(a, target), target) for a in args[free:]]


def common_dtype(args: Sequence[Any], to_float: bool) -> DType:
    """The type that operands promote to. Plain numbers are weak: they only raise the category."""
    strong: DType | None = None
    weak = Category.BOOL
    for arg in args:
        dtype = _dtype_of(arg)
        if dtype is not None:
            strong = dtype if strong is None else promote(strong, dtype)
        elif isinstance(arg, float):
            weak = Category.FLOAT
        elif isinstance(arg, int) and not isinstance(arg, bool):
            weak = max(weak, Category.INT, key=lambda c: c.value)
    default = {Category.BOOL: bool_, Category.INT: int64, Category.FLOAT: float32}
    if strong is None or weak.value > strong.category.value:
        strong = default[weak]
    return float32 if to_float and not strong.is_float else strong


def _dtype_of(arg: Any) -> DType | None:
    if isinstance(arg, (bool, int, float)):
        return None
    if isinstance(arg, (np.ndarray, np.generic)):
        return as_dtype(arg.dtype)
    if isinstance(arg, (list, tuple)):
        return as_dtype(np.asarray(arg).dtype)
    held = arg if hasattr(arg, "type") else getattr(arg, "value", None)
    if held is None:
        raise TypeMismatch(f"{arg!r} of type {type(arg).__name__} is not a tensor, array or number")
    dtype: DType = held.type.dtype
    return dtype


# ------------------------------------------------------------------------------------- registry
_DECLARATIONS = "glasshouse.ops"
REGISTRY: dict[str, Op] = {}
_BY_LABEL: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Make an op known by its name and by its printed form."""
    if op.name in REGISTRY or op.label in _BY_LABEL:
        raise TypeMismatch(f"there is an op {op.name} ({op.label}) already")
    REGISTRY[op.name] = op
    _BY_LABEL[op.label] = op
    return op


def op_named(name: str) -> Op:
    """The op with this name ("leaky_relu") or printed form ("LeakyRelu")."""
    found = REGISTRY.get(name) or _BY_LABEL.get(name)
    if found is None:
        import_module(_DECLARATIONS)  # nothing may have needed one so far: a graph that is parsed
        found = REGISTRY.get(name) or _BY_LABEL.get(name)
    if found is None:
        close = get_close_matches(name, [*REGISTRY, *_BY_LABEL], 1)
        hint = f"did you mean {close[0]!r}?" if close else "docs/reference/ops.md lists them"
        raise TypeMismatch(f"there is no op {name!r}", hint=hint)
    return found
