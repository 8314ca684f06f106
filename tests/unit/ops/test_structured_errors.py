"""Wrong operands of shapes, products, windows, indices and control flow: the error says which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import glasshouse.ops  # noqa: F401  # fills the registry
from glasshouse.errors import ExecutionError, GlasshouseError, ShapeError, TypeMismatch
from glasshouse.ir import Frame, GraphBuilder, Origin, Scope, Source, symbol
from glasshouse.numpy_ref import run

PLACE = Source((Scope("encoder"),), (Frame("model.py", 12, "forward"),))
_IMAGE, _KERNEL = "float32[2, 3, 8, 8]", "float32[4, 3, 3, 3]"
_QKV = ["float32[2, 4, 8]", "float32[2, 6, 8]", "float32[2, 6, 8]"]

# op, operands, attributes, what the message must say
WRONG: list[tuple[str, list[str], dict[str, Any], str]] = [
    ("reshape", ["float32[2, 6]"], {"shape": [5]}, "12 elements do not fit the shape [5] with 5"),
    ("reshape", ["float32[2, 6]"], {"shape": [-1]}, "size -1 in shape [-1] is negative"),
    ("permute", ["float32[2, 6]"], {"axes": [0, 0]}, "do not name each of 2 dimensions once"),
    ("rearrange", ["float32[2, 6]"], {"plan": [[0]]}, "do not name each of 2 dimensions once"),
    ("rearrange", ["float32[2, 6]"], {"plan": [0, 1]}, "must be a list of lists of axes"),
    ("expand", ["float32[2, 6]"], {"shape": [2, 7]}, "size 6 does not expand to 7"),
    ("expand", ["float32[2, 6]"], {"shape": [6]}, "fewer dimensions"),
    ("roll", ["float32[2]"], {"shifts": [1, 2], "axes": [0]}, "2 shifts for 1 axes"),
    ("flip", ["float32[2]"], {"axes": [3]}, "axis 3 is out of range"),
    ("concat", ["float32[2, 6]", "float32[3, 6]"], {"axis": 1}, "sizes differ at axis 0"),
    ("concat", ["float32[]", "float32[]"], {"axis": 0}, "stack them"),
    ("split", ["float32[6]"], {"axis": 0, "sizes": [2, 3]}, "parts [2, 3] make 5, axis 0 has 6"),
    ("slice", ["float32[6]"], {"starts": [2], "ends": [7]}, "[2:7] does not lie inside axis 0"),
    ("slice", ["float32[6]"], {"starts": [0], "ends": [6], "steps": [-1]}, "flip reverses"),
    ("pad", ["float32[2, 6]"], {"padding": [1, 1]}, "padding needs 4 entries"),
    ("pad", ["float32[3]"], {"padding": [3, 0], "mode": "reflect"}, "needs more than the 3"),
    ("pad", ["float32[3]"], {"padding": [3, 0], "mode": "wrap"}, "mode must be one of constant"),
    ("matmul", ["float32[2, 6]", "float32[5, 2]"], {}, "the inner sizes differ: 6 against 5"),
    ("matmul", ["float32[2, 6]", "float32[]"], {}, "y is a scalar"),
    ("matmul", ["bool[2, 6]", "bool[6, 2]"], {}, "cast them first"),
    ("matmul", ["float32[6]", "float32[6]"], {"transpose_x": True}, "cannot be transposed"),
    ("take", ["float32[4]", "float32[2]"], {}, "indices must be one of int64, int32"),
    ("take", ["float32[]", "int64[2]"], {}, "a scalar has no axis"),
    ("gather", ["float32[4, 2]", "int64[4]"], {"axis": 0}, "indices need the 2 dimensions"),
    ("gather", ["float32[4, 2]", "int64[9, 3]"], {"axis": 0}, "indices have 3 at axis 1"),
    ("scatter", ["float32[4]", "int64[2]", "float32[3]"], {"axis": 0}, "differ in shape"),
    ("scatter", ["float32[4]", "int64[2]", "int64[2]"], {"axis": 0}, "updates of int64 into"),
    ("gather_nd", ["float32[4]", "int64[5, 2]"], {}, "tuples of 2 indices into 1 dimensions"),
    ("scatter_nd", ["float32[4]", "int64[5, 1]", "float32[4]"], {}, "must have the shape [5]"),
    ("triangle", ["float32[4]"], {}, "a triangle needs two dimensions"),
    ("one_hot", ["int64[4]"], {"depth": 0}, "depth 0 is not positive"),
    ("full", [], {"shape": [-2], "value": 1.0}, "size -2 in shape [-2] is negative"),
    ("arange", [], {"stop": 3, "step": 0}, "step is 0"),
    ("conv", [_IMAGE, "float32[4, 2, 3, 3]"], {}, "differ from the input's: 3 against 2"),
    ("conv", [_IMAGE, _KERNEL], {"groups": 2}, "3 input channels do not divide into 2 groups"),
    ("conv", [_IMAGE, _KERNEL], {"stride": 0}, "stride [0, 0] must be positive"),
    ("conv", [_IMAGE, _KERNEL], {"padding": [1, 1, 1]}, "padding [1, 1, 1] for 2 spatial axes"),
    ("conv", [_IMAGE, "float32[4, 3, 9, 3]"], {}, "a window of 9 does not fit spatial axis 0"),
    ("conv", [_IMAGE, "float32[4, 3, 3]"], {}, "need the same 3 to 5 dimensions"),
    ("conv_transpose", [_IMAGE, "float32[4, 3, 3, 3]"], {}, "differ from the input's: 3 against 4"),
    ("max_pool", [_IMAGE], {"kernel": [2]}, "kernel [2] for 2 spatial axes"),
    ("max_pool", [_IMAGE], {"kernel": [2, 2], "padding": [2]}, "must be below the kernel's 2"),
    ("avg_pool", ["int32[1, 1, 4]"], {"kernel": [2]}, "cast it first"),
    ("adaptive_avg_pool", ["float32[1, 1, 0]"], {"size": [2]}, "0 elements cannot be pooled"),
    ("resize", [_IMAGE], {"size": [4]}, "size [4] for"),
    ("resize", [_IMAGE], {"size": [4, 4], "mode": "bilinear"}, "must be one of nearest, linear"),
    ("attention", [*_QKV[:2], "float32[2, 5, 8]"], {}, "k and v differ in length: 6 against 5"),
    ("attention", ["float32[3, 4, 8]", *_QKV[1:]], {}, "3 heads of q cannot share 2 heads"),
    ("attention", [*_QKV, "float32[3, 6]"], {}, "do not broadcast"),
    ("attention", [*_QKV, "int64[4, 6]"], {}, "a mask is bool or floating"),
    ("attention", [*_QKV, "float32[1, 2, 4, 6]"], {}, "the mask does not broadcast"),
]


def _inputs(builder: GraphBuilder, operands: list[str]) -> list[Any]:
    made = []
    for text in operands:
        dtype, _, rest = text.partition("[")
        made.append(builder.input(dtype, [int(d) for d in rest.rstrip("]").split(",") if d]))
    return made


@pytest.mark.parametrize(
    "op, operands, attrs, says", WRONG, ids=lambda v: v if isinstance(v, str) else ""
)
def test_wrong_operands(op: str, operands: list[str], attrs: dict[str, Any], says: str) -> None:
    builder = GraphBuilder(origin=Origin(PLACE))
    inputs = _inputs(builder, operands)
    with pytest.raises(GlasshouseError) as caught:
        builder.apply(op, *inputs, **attrs)
    assert isinstance(caught.value, (ShapeError, TypeMismatch))
    text = str(caught.value)
    assert text.startswith(op)
    assert says in text
    assert "model.py:12 in encoder" in text


@pytest.mark.parametrize(
    "op, attrs, says",
    [
        ("reshape", {"shape": [5, 5]}, "6*n elements"),
        ("slice", {"starts": [0, 0], "ends": [70, 6]}, "[0:70] does not lie inside axis 0"),
        ("split", {"axis": 0, "sizes": [40, 40]}, "axis 0 has n"),
        ("expand", {"shape": [65, 6]}, "n does not expand to 65"),
    ],
)
def test_a_range_decides_what_cannot_fit(op: str, attrs: dict[str, Any], says: str) -> None:
    builder = GraphBuilder()
    x = builder.input("float32", [symbol("n", 1, 64), 6])
    if op == "reshape":
        attrs = {"shape": [500]}
    with pytest.raises(ShapeError) as caught:
        x.apply(op, **attrs)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "op, index, attrs",
    [
        ("take", [0, 3], {}), ("take", [-4], {}), ("gather", [3, 0], {"axis": 0}),
        ("one_hot", [5], {"depth": 5}),
    ],
)  # fmt: skip
def test_an_index_out_of_range_is_an_error_when_it_runs(
    op: str, index: list[int], attrs: dict[str, Any]
) -> None:
    builder = GraphBuilder(origin=Origin(PLACE))
    i = builder.input("int64", [len(index)])
    x = builder.input("float32", [3])
    operands = [i] if op == "one_hot" else [x, i]
    graph = builder.finish(builder.apply(op, *operands, **attrs))
    arrays = [np.array(index), np.zeros(3, np.float32)]
    with pytest.raises(ExecutionError, match=rf"{op} failed.*index -?\d is out of range") as caught:
        run(graph, arrays)
    assert "model.py:12" in str(caught.value)


def test_sizes_taken_on_trust_are_checked_when_it_runs() -> None:
    builder = GraphBuilder(origin=Origin(PLACE))
    x = builder.input("float32", [symbol("n", 1, 64)])
    graph = builder.finish(x.apply("reshape", shape=[2, 3]))
    assert run(graph, [np.zeros(6, np.float32)])[0].shape == (2, 3)
    with pytest.raises(ExecutionError, match="reshape failed on operands of shape"):
        run(graph, [np.zeros(7, np.float32)])
