"""How an op without a spelling runs: as one node, through ONNX's reference evaluator or NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from glasshouse.errors import CaptureError, ExecutionError
from glasshouse.frontend.onnx.bodies import free_names
from glasshouse.frontend.onnx.boxes import Meaning, meaning_of
from glasshouse.frontend.onnx.functions import type_proto
from glasshouse.frontend.onnx.item import Item
from glasshouse.frontend.onnx.package import onnx_package
from glasshouse.frontend.onnx.shapes import OnnxSymbols, declared_type
from glasshouse.ir.dim import Dim, SymDim
from glasshouse.ir.dtype import DType, finish
from glasshouse.ir.types import TensorType, tensor_type

if TYPE_CHECKING:
    from glasshouse.frontend.onnx.call import OnnxCall
    from glasshouse.frontend.onnx.importer import OnnxImporter

Array = np.ndarray[Any, Any]


def opaque_call(
    importer: OnnxImporter, call: OnnxCall, types: Sequence[TensorType] | None = None
) -> tuple[Any, ...]:
    """Handles of an opaque node that computes what the ONNX node does."""
    node = call.node
    names = [n for n in dict.fromkeys(node.input) if n]
    names += [n for n in free_names(node) if n in importer.env and n not in names]
    items = [importer.lookup(name) for name in names]
    for name, item in zip(names, items, strict=True):
        if not isinstance(item, Item):
            raise CaptureError(f"{node.op_type}: {name!r} is a sequence, not a tensor")
    kept = [i for i, name in enumerate(node.output) if name]
    proto = _one_node(importer, node, names, items, kept)
    if not importer.model.allows_unknown:
        _check_known(node, proto)
    went_in: dict[str, Dim] = {
        str(d): d for i in items for d in i.type.shape if isinstance(d, SymDim)
    }
    if types is None:
        types = [_type(importer, proto, place, i, went_in) for place, i in enumerate(kept)]
    by_evaluator = _runner(proto, names, [i.dtype for i in items], types)
    meaning = None if node.domain else meaning_of(node.op_type, call.attrs, call.opset)
    places = [names.index(n) if n else None for n in node.input]
    made = importer.builder.apply(
        "opaque", *[i.handle for i in items], target=f"onnx::{node.op_type}", types=types,
        arguments=_arguments(call),
        call=by_evaluator if meaning is None else _direct(meaning, places, types),
    )  # fmt: skip
    many = made if isinstance(made, tuple) else (made,)
    out: list[Any] = [None] * len(node.output)
    for place, handle in zip(kept, many, strict=True):
        out[place] = handle
    return tuple(out)


def _one_node(
    importer: OnnxImporter,
    node: Any,
    names: Sequence[str],
    items: Sequence[Item],
    kept: Sequence[int],
) -> Any:
    """A model that holds the node alone. Types of outputs come from ONNX's own inference."""
    onnx = onnx_package()
    helper = onnx.helper
    inputs = [helper.make_value_info(n, type_proto(i)) for n, i in zip(names, items, strict=True)]
    outputs = [onnx.ValueInfoProto(name=node.output[i]) for i in kept]
    graph = helper.make_graph([node], node.op_type, inputs, outputs)
    for item, name in zip(items, names, strict=True):
        # Small known operands decide shapes: the inference reads initializers.
        known = importer.value(item)
        if known is None or known.dtype == object or item.dtype.is_carried:
            continue
        if known.size <= 64:
            array = known.astype(item.dtype.storage)
            graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    opsets = [helper.make_opsetid(d, v) for d, v in importer.opsets.items()]
    if node.domain in ("", "ai.onnx") and "" not in importer.opsets:
        opsets.append(helper.make_opsetid("", importer.opset("")))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model.functions.extend(importer.model.functions.values())
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except Exception:  # an op that ONNX does not know: the file's own types must do
        inferred = model
    del inferred.graph.initializer[:]
    return inferred


def _check_known(node: Any, proto: Any) -> None:
    """Refuse what would fail only when it runs."""
    from onnx.reference import ReferenceEvaluator

    try:
        ReferenceEvaluator(proto)
    except NotImplementedError:
        domain = node.domain or "ai.onnx"
        raise CaptureError(
            f"there is no op {node.op_type!r} in domain {domain!r}, here or in ONNX",
            hint="give the model a function of that name, or trace it with allow_unknown=True to "
            "look at it",
        ) from None
    except Exception:
        return  # known; what else is wrong shows when it runs


def _type(
    importer: OnnxImporter, proto: Any, place: int, number: int, went_in: dict[str, Dim]
) -> TensorType:
    symbols = importer.model.symbols
    name = proto.graph.output[place].name
    said = importer.protos.get(name)
    info = proto.graph.output[place].type
    inferred = _with_sizes(info, symbols, went_in)
    declared = declared_type(said, symbols, fill=True)
    if inferred is None or declared is None or inferred.rank != declared.rank:
        found = inferred or declared
    else:
        # Of each size, whichever says more.
        shape = [
            i if isinstance(i, int) else d if isinstance(d, int) else i
            for i, d in zip(inferred.shape, declared.shape, strict=True)
        ]
        found = tensor_type(inferred.dtype, shape)
    if found is None:
        raise CaptureError(f"the type of its output {number} is not known")
    return found


def _with_sizes(info: Any, symbols: OnnxSymbols, went_in: dict[str, Dim]) -> TensorType | None:
    """An inferred type, its named sizes being the ones that went in (as text)."""
    extended = OnnxSymbols()
    extended.by_name = symbols.by_name | went_in
    extended._fresh = symbols._fresh
    found = declared_type(info, extended, fill=True)
    symbols._fresh = extended._fresh
    return found


def _arguments(call: OnnxCall) -> str:
    shown = {k: v for k, v in call.attrs.items() if isinstance(v, (int, float, str, list))}
    return ", ".join(f"{k}={v}" for k, v in shown.items())[:500]


def _runner(
    proto: Any, names: Sequence[str], dtypes: Sequence[DType], types: Sequence[TensorType]
) -> Callable[..., Any]:
    data = proto.SerializeToString()
    held: list[Any] = []

    def call(*arrays: Array) -> list[Array]:
        from onnx.reference import ReferenceEvaluator

        if not held:
            held.append(ReferenceEvaluator(onnx_package().load_model_from_string(data)))
        feeds = {n: _given(a, d) for n, a, d in zip(names, arrays, dtypes, strict=True)}
        try:
            results = held[0].run(None, feeds)
        except Exception as error:
            raise ExecutionError(f"ONNX's reference evaluator: {error}") from error
        return [_taken(r, t) for r, t in zip(results, types, strict=True)]

    return call


def _direct(
    meaning: Meaning, places: Sequence[int | None], types: Sequence[TensorType]
) -> Callable[..., Any]:
    def call(*arrays: Array) -> list[Array]:
        results = meaning([None if p is None else arrays[p] for p in places])
        return [_taken(r, t) for r, t in zip(results, types, strict=True)]

    return call


def _given(array: Array, dtype: DType) -> Array:
    if not dtype.is_carried:
        return array
    import ml_dtypes

    return array.astype(getattr(ml_dtypes, dtype.name))


def _taken(result: Any, type: TensorType) -> Array:
    dtype = type.dtype
    if isinstance(result, list):
        raise ExecutionError("ONNX's reference evaluator gave a sequence")
    array: Array = np.asarray(result)
    if array.ndim == type.rank + 1 and array.shape[-1] == 1:
        array = array[..., 0]  # the evaluator's Loop collects scalars as single elements
    return finish(array, dtype)
