"""Requests and answers as JSON of the Open Inference Protocol (KServe's v2, which Triton speaks).

POST /v2/models/NAME/infer
{"inputs": [{"name": "x", "shape": [1, 64], "datatype": "FP32", "data": [0.5, ...]}]}
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glasshouse.errors import FormatError
from glasshouse.ir.dtype import BY_NAME, DType
from glasshouse.ir.graph import Value
from glasshouse.runtime.arrays import Array
from glasshouse.serve.batching import BatchedModel

_CALLED = {
    "float64": "FP64", "float32": "FP32", "float16": "FP16", "bfloat16": "BF16", "int64": "INT64",
    "int32": "INT32", "int16": "INT16", "int8": "INT8", "uint8": "UINT8",
    "uint32": "UINT32", "uint64": "UINT64", "bool": "BOOL",
}  # fmt: skip
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_TYPES = {called: BY_NAME[name] for name, called in _CALLED.items()}


def request_arrays(body: bytes) -> tuple[str | None, dict[str, Array]]:
    """The id that a request has, if any, and its inputs by name."""
    try:
        request = json.loads(body)
        inputs = request["inputs"]
        id = request.get("id")
        found = {str(given["name"]): _array(given) for given in inputs}
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the request cannot be read: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"the request is not one of the Open Inference Protocol: {error}",
            hint='{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}',
        ) from None
    if len(found) != len(inputs):
        raise FormatError("an input is given twice")
    return (None if id is None else str(id)), found


def answer_json(model: BatchedModel, name: str, id: str | None, outputs: Sequence[Array]) -> bytes:
    values = zip(model.output_names, model.module.graph.outputs, outputs, strict=True)
    made = [
        {"name": called, "shape": list(array.shape), "datatype": _CALLED[value.type.dtype.name],
         "data": _numbers(array)}
        for called, value, array in values
    ]  # fmt: skip
    answer = {"model_name": name, **({"id": id} if id else {}), "outputs": made}
    return json.dumps(answer, allow_nan=False).encode()


def _numbers(array: Array) -> list[Any]:
    """Elements in order. JSON has no NaN and no infinity: they are strings, as in the JSON of
    protocol buffers, and requests may hold such strings too."""
    found: list[Any] = np.ravel(array).tolist()
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return found
    return [x if math.isfinite(x) else _NOT_FINITE[str(x)] for x in found]


def model_json(model: BatchedModel, name: str) -> bytes:
    """What the model takes and gives; -1 is a size that may vary."""
    graph = model.module.graph
    sides = {
        "inputs": (model.module.input_names, graph.inputs),
        "outputs": (model.output_names, graph.outputs),
    }
    about = {
        key: [_tensor(n, v) for n, v in zip(*side, strict=True)] for key, side in sides.items()
    }
    return json.dumps({"name": name, "platform": "glasshouse", **about}).encode()


def error_json(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


def _tensor(name: str, value: Value) -> dict[str, Any]:
    shape = [d if isinstance(d, int) else -1 for d in value.type.shape]
    return {"name": name, "datatype": _CALLED[value.type.dtype.name], "shape": shape}


def _array(given: dict[str, Any]) -> Array:
    """Data may be flat, or nested as the shape is."""
    name, called = given["name"], given["datatype"]
    if called not in _TYPES:
        known = ", ".join(_TYPES)
        raise FormatError(f"{name}: there is no datatype {called!r}", hint=f"there are {known}")
    dtype: DType = _TYPES[called]
    shape = tuple(int(d) for d in given["shape"])
    try:
        data = np.asarray(given["data"], dtype.carrier)
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{name}: data is not {called}: {error}") from None
    if min(shape, default=0) < 0 or data.size != np.prod(shape, dtype=object):
        raise FormatError(f"{name}: {data.size} numbers are no {list(shape)}")
    return data.reshape(shape)
