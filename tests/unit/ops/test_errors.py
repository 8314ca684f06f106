"""A wrong operand or attribute: the error names the op, the operands and the user's line."""

from __future__ import annotations

from typing import Any

import pytest

import glasshouse.ops  # fills the registry
from glasshouse.errors import GlasshouseError, ShapeError, TypeMismatch
from glasshouse.ir import Frame, GraphBuilder, Origin, Scope, Source, symbol

PLACE = Source((Scope("encoder"), Scope("layer")), (Frame("model.py", 12, "forward"),))

# op, operand types, attributes, class of the error, what it must say beside the op's name
SHAPES: list[tuple[str, list[str], dict[str, Any], str]] = [
    ("add", ["float32[3, 4]", "float32[5]"], {}, "do not broadcast: 4 against 5"),
    ("where", ["bool[2]", "float32[3]", "float32[3]"], {}, "do not broadcast"),
    ("atan2", ["float32[2]", "float32[3]"], {}, "do not broadcast"),
    ("sum", ["float32[3, 4]"], {"axes": [2]}, "axis 2 is out of range for 2 dimensions"),
    ("sum", ["float32[3, 4]"], {"axes": [0, -2]}, "an axis repeats"),
    ("max", ["float32[3, 0]"], {"axes": [1]}, "axis 1 is empty"),
    ("argmax", ["float32[0]"], {"axis": 0}, "axis 0 is empty"),
    ("cumsum", ["float32[3]"], {"axis": 1}, "axis 1 is out of range"),
    ("softmax", ["float32[3]"], {"axis": -2}, "axis -2 is out of range"),
    ("sort", ["float32[3]"], {"axis": 3}, "axis 3 is out of range"),
    ("topk", ["float32[2, 3]"], {"k": 4}, "k is 4, axis 1 has 3 elements"),
    ("layer_norm", ["float32[2, 8]", "float32[7]"], {}, "weight must have shape [8], not [7]"),
    ("layer_norm", ["float32[]"], {}, "a scalar has no axes"),
    ("rms_norm", ["float32[2, 8]", "float32[2, 8]"], {}, "weight must have shape [8]"),
    ("group_norm", ["float32[2, 6, 4]"], {"groups": 4}, "6 channels do not divide into 4 groups"),
    ("group_norm", ["float32[6]"], {"groups": 2}, "a batch and a channel axis"),
    ("batch_norm_training", ["float32[2, 3, 4]", "float32[3]", "float32[4]"], {}, "bias must have"),
    ("quantize", ["float32[2, 3]", "float32[3]", "int32[]"], {"dtype": "int8"}, "must be a scalar"),
    (
        "quantize",
        ["float32[2, 3]", "float32[2]", "int32[2]"],
        {"dtype": "int8", "axis": 1},
        "scale does not fit axis 1",
    ),
    ("uniform", ["int64[]"], {"shape": [2, -1]}, "size -1 in shape [2, -1] is negative"),
]
TYPES: list[tuple[str, list[str], dict[str, Any], str]] = [
    ("subtract", ["bool[2]", "bool[2]"], {}, "not defined for bool"),
    ("negative", ["bool[2]"], {}, "not defined for bool"),
    ("relu", ["bool[2]"], {}, "not defined for bool"),
    ("bitwise_and", ["float32[2]", "float32[2]"], {}, "integers or bool, not float32"),
    ("left_shift", ["bool[2]", "bool[2]"], {}, "integers, not bool"),
    ("where", ["float32[2]", "float32[2]", "float32[2]"], {}, "must be bool, not float32"),
    ("clip", ["int32[2]"], {"low": 0.5}, "the bound 0.5 is no int32"),
    ("clip", ["float32[2]"], {"low": "a"}, "attribute low must be a number, got 'a'"),
    ("cast", ["float32[2]"], {}, "needs the attribute dtype"),
    ("cast", ["float32[2]"], {"dtype": "complex64"}, "there is no element type 'complex64'"),
    ("exp", ["float32[2]"], {"base": 2}, "has no attribute 'base'; it has: none"),
    ("gelu", ["float32[2]"], {"approximate": "sigmoid"}, '"none" or "tanh", not \'sigmoid\''),
    ("sum", ["float32[2]"], {"keepdims": 1}, "keepdims must be True or False, got 1"),
    ("argmax", ["float32[2]"], {"axis": 0.5}, "axis must be an integer, got 0.5"),
    ("add", ["float32[2]"], {}, "takes the operands (x, y), got 1"),
    ("layer_norm", ["float32[2]"] * 4, {}, "takes the operands (x, weight?, bias?), got 4"),
    ("quantize", ["int32[2]", "float32[]", "int32[]"], {"dtype": "int8"}, "x must be floating"),
    ("quantize", ["float32[2]", "float32[]", "float32[]"], {"dtype": "int8"}, "an integer, not"),
    ("quantize", ["float32[2]", "float32[]", "int32[]"], {"dtype": "int64"}, "must be one of int8"),
    (
        "quantize",
        ["float32[2]", "float32[]", "int32[]"],
        {"dtype": "int8", "high": 200},
        "do not lie within -128..127",
    ),
    ("dequantize", ["float32[2]", "float32[]", "int32[]"], {}, "x must be one of int8"),
    ("normal", ["float32[]"], {"shape": [2]}, "the seed must be one integer, not float32[]"),
    ("uniform", ["int64[]"], {"shape": [2], "dtype": "int8"}, "must be floating, not int8"),
    ("dropout", ["float32[2]", "int64[]"], {"p": 1.5}, "p is a probability, not 1.5"),
]


def _fails(op: str, operands: list[str], attrs: dict[str, Any]) -> GlasshouseError:
    builder = GraphBuilder(origin=Origin(PLACE))
    inputs = []
    for text in operands:
        dtype, _, rest = text.partition("[")
        inputs.append(builder.input(dtype, [int(d) for d in rest.rstrip("]").split(",") if d]))
    with pytest.raises(GlasshouseError) as caught:
        builder.apply(op, *inputs, **attrs)
    return caught.value


@pytest.mark.parametrize(
    "op, operands, attrs, says", SHAPES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_wrong_shape(op: str, operands: list[str], attrs: dict[str, Any], says: str) -> None:
    error = _fails(op, operands, attrs)
    assert isinstance(error, ShapeError)
    assert isinstance(error, ValueError)
    text = str(error)
    assert text.startswith(f"{op}({', '.join(operands)}): ")
    assert says in text
    assert "model.py:12 in encoder.layer" in text


@pytest.mark.parametrize(
    "op, operands, attrs, says", TYPES, ids=lambda v: v if isinstance(v, str) else ""
)
def test_wrong_type_or_attribute(
    op: str, operands: list[str], attrs: dict[str, Any], says: str
) -> None:
    error = _fails(op, operands, attrs)
    assert isinstance(error, TypeMismatch)
    assert isinstance(error, TypeError)
    text = str(error)
    assert op in text
    assert says in text
    assert "model.py:12 in encoder.layer" in text


def test_a_fixed_size_outside_a_symbols_range_does_not_broadcast() -> None:
    builder = GraphBuilder(origin=Origin(PLACE))
    x = builder.input("float32", [symbol("n", 8, 16)])
    y = builder.input("float32", [4])
    with pytest.raises(ShapeError, match=r"add\(float32\[n\], float32\[4\]\).*4"):
        x + y


def test_operands_that_are_no_tensors() -> None:
    builder = GraphBuilder(origin=Origin(PLACE))
    x = builder.input("float32", [2])
    with pytest.raises(TypeMismatch, match="'text' of type str is not a tensor"):
        x.apply("add", "text")
    with pytest.raises(TypeMismatch, match="at least one tensor"):
        glasshouse.ops.elementwise.add(1, 2)
