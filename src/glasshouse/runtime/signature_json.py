"""Signatures in saved modules: arguments and results by name, without the classes of the model.

A class is never looked up by a name that a file holds: a loaded module returns `Results` with the
fields of the class, and takes any object that has them.
"""

from __future__ import annotations

import inspect
from typing import Any

from glasshouse.errors import FormatError
from glasshouse.ir.signature import KINDS, Container, Fixed, Leaf, Signature, Structure

Json = Any
_SCALARS = (bool, int, float, str, type(None))
_DEEPEST = 64
"""Levels of nesting that are read: far more than arguments have, far less than Python's stack."""


def signature_to_json(signature: Signature) -> Json:
    parameters = None
    if signature.parameters is not None:
        parameters = [
            [p.name, p.kind.name, p.default is not p.empty, _scalar(p.default)]
            for p in signature.parameters.parameters.values()
        ]
    return {
        "parameters": parameters,
        "arguments": [[n, _structure_to_json(s)] for n, s in signature.arguments.items()],
        "results": _structure_to_json(signature.results),
        "written": [list(pair) for pair in signature.written],
    }


def signature_from_json(given: Json, inputs: int, outputs: int) -> Signature:
    """The signature of a graph with so many inputs and outputs; slots must be among them."""
    parameters = None
    if given["parameters"] is not None:
        parameters = inspect.Signature(
            [
                inspect.Parameter(
                    str(name),
                    inspect._ParameterKind[kind],
                    default=default if optional else inspect.Parameter.empty,
                )
                for name, kind, optional, default in given["parameters"]
            ]
        )
    arguments = {str(n): _structure_from_json(s, inputs) for n, s in given["arguments"]}
    written = tuple((_within(i, inputs), _within(o, outputs)) for i, o in given["written"])
    return Signature(
        arguments, _structure_from_json(given["results"], outputs), parameters, written
    )


def _scalar(value: Any) -> Json:
    return value if isinstance(value, _SCALARS) else None


def _structure_to_json(structure: Structure) -> Json:
    if isinstance(structure, Leaf):
        return {"slot": structure.number, "kind": structure.kind}
    if isinstance(structure, Fixed):
        return {"fixed": _scalar(structure.value)}
    parts = [_structure_to_json(p) for p in structure.parts]
    return {"group": structure.kind, "names": [_scalar(n) for n in structure.names], "parts": parts}


def _structure_from_json(given: Json, count: int, depth: int = 0) -> Structure:
    if depth > _DEEPEST:
        raise FormatError(f"module.json: a signature nested more than {_DEEPEST} levels deep")
    if "slot" in given:
        if given["kind"] not in KINDS:
            raise FormatError(f"module.json: a signature with a result of kind {given['kind']!r}")
        return Leaf(_within(given["slot"], count), given["kind"])
    if "fixed" in given:
        return Fixed(_scalar(given["fixed"]))
    parts = tuple(_structure_from_json(p, count, depth + 1) for p in given["parts"])
    names = tuple(_scalar(n) for n in given["names"])
    if len(names) != len(parts):
        raise FormatError("module.json: a signature with other names than parts")
    return Container(str(given["group"]), names, parts)


def _within(number: Any, count: int) -> int:
    if not isinstance(number, int) or not 0 <= number < count:
        raise FormatError(f"module.json: a signature with slot {number!r} of {count}")
    return number
