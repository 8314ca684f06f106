"""MLIR text: the generic and the pretty form of one program say the same."""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from format_files import DATA, group_paths, same_graphs
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.formats.mlir.types import readable_type, result_types, signature
from glasshouse.formats.printed import split_top
from glasshouse.record import GraphView

PRETTY, GENERIC = DATA / "mlir" / "pretty.mlir", DATA / "mlir" / "generic.mlir"


def shape(graph: GraphView) -> list[tuple[str, list[int], list[str], int]]:
    return [
        (n.op.removeprefix("func."), n.input_nodes, n.outputs, n.line) for n in graph.stage(0).nodes
    ]


def test_both_forms_give_the_same_graphs() -> None:
    pretty, generic = formats.read(PRETTY), formats.read(GENERIC)
    assert shape(pretty.graphs[0]) == shape(generic.graphs[0])
    assert [s.output_nodes for s in pretty.graphs[0].info.stages] == [
        s.output_nodes for s in generic.graphs[0].info.stages
    ]
    assert group_paths(pretty.graphs[0]) == group_paths(generic.graphs[0])
    assert group_paths(pretty.graphs[0]) == [
        ("module", "jit(mlp)"), ("module", "jit(mlp)", "block0"), ("module", "jit(mlp)", "block1"),
    ]  # fmt: skip


@pytest.mark.parametrize("path", [PRETTY, GENERIC])
def test_operands_types_attributes_and_bodies(path: object) -> None:
    recording = formats.read(path)  # type: ignore[arg-type]  # parametrised paths
    graph = recording.graphs[0]
    assert (recording.header.title, graph.name) == ("jit_mlp", "main")
    nodes = {n.op: n for n in graph.stage(0).nodes}
    dot = nodes["stablehlo.dot_general"]
    assert (dot.input_nodes, dot.outputs, dot.kind) == ([2, 1], ["float32[3, 4]"], "matmul")
    assert (dot.file, dot.line) == ("model.py", 4)
    loop = nodes["stablehlo.while"]
    assert loop.outputs == ["int32[]", "int32[]", "float32[3, 4]"]
    condition, body = (recording.graphs[b] for b in loop.bodies)
    assert condition.stage(0).nodes.pylist("op")[-1] == "stablehlo.compare"
    assert condition.info.stages[0].output_nodes == [4]
    assert condition.stage(0).nodes.row(2).outputs == ["float32[3, 4]"]
    assert body.info.parent == 0
    branches = [recording.graphs[b] for b in nodes["stablehlo.case"].bodies]
    assert [b.stage(0).nodes.row(0).op for b in branches] == ["Captured"] * 2 or all(
        "Captured" in b.stage(0).nodes.pylist("op") for b in branches
    )
    called = next(n for n in graph.stage(0).nodes if n.op.removeprefix("func.") == "call")
    assert recording.graphs[called.bodies[0]].name == "argmax"
    reduce = nodes["stablehlo.reduce"]
    attrs = dict(zip(reduce.attr_keys, reduce.attr_values, strict=True))
    assert attrs["dimensions"] in ("[0, 1]", "array<i64: 0, 1>")


def test_programs_go_to_model_explorer_and_back() -> None:
    recording = formats.read(GENERIC)
    same_graphs(formats.read(formats.dump(recording, "model_explorer"), "m.json"), recording)


def test_types() -> None:
    assert readable_type("tensor<4x?x8xf32>") == "float32[4, ?, 8]"
    assert readable_type("tensor<i1>") == "bool[]"
    assert readable_type("tensor<3xui8>") == "uint8[3]"
    assert readable_type("tensor<2x!quant.uniform<i8:f32, 0.5>>").endswith("[2]")
    assert readable_type("!shape.shape") == "!shape.shape"
    assert split_top('a, (b, c), "d, e", f<g, h>') == ["a", "(b, c)", '"d, e"', "f<g, h>"]
    assert signature("(%0) {a = 1 : i32} : (i32) -> i64") == ("(%0) {a = 1 : i32}", "(i32) -> i64")
    assert result_types("(tensor<f32>) -> (tensor<f32>, tensor<i1>)", 2) == ["float32[]", "bool[]"]
    assert result_types("tensor<4xf32>", 1) == ["float32[4]"]


LOOSE = """
// a comment
%0 = "my.op"() {text = "a { b // c", n = 3 : i64} : () -> tensor<4xf32>
%1:2 = my.other %0, %0#0 {unit} : tensor<4xf32>, tensor<4xf32>
"my.use"(%1#1, %unknown) : (tensor<4xf32>, i1) -> ()
"""


def test_ops_outside_functions() -> None:
    nodes = list(formats.read(LOOSE.encode(), "x.mlir").graphs[0].stage(0).nodes)
    assert [n.op for n in nodes] == ["my.op", "my.other", "my.use"]
    assert dict(zip(nodes[0].attr_keys, nodes[0].attr_values, strict=True)) == {
        "text": '"a { b // c"',
        "n": "3 : i64",
    }
    assert list(zip(nodes[2].input_nodes, nodes[2].input_ports, strict=True)) == [(1, 1), (-1, 0)]
    assert nodes[1].outputs == ["float32[4]", "float32[4]"]


@pytest.mark.parametrize(
    "text, says",
    [
        ("module {\n", "ends inside the op of line 1"),
        ("}\n", "closes what was never opened"),
        ("module {\n}\n", "without a function"),
        ('%0 = "a"(\n%1', "ends inside the statement of line 1"),
        ("module {\n" * 5000, "nested too deeply"),
        ("//\n", "without a function"),
    ],
)
def test_broken_text_is_refused(text: str, says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        formats.read(text.encode(), "x.mlir")
    assert "\n" not in str(caught.value)


def test_bytecode_is_named() -> None:
    with pytest.raises(FormatError, match="MLIR bytecode; convert it to text"):
        formats.read(b"ML\xefR\x01" + bytes(20), "x.mlir")


@pytest.mark.parametrize(
    "line",
    ["%a" + " " * 200_000, "a" * 200_000, "%a," * 60_000, "(" * 100_000, '"' + "\\" * 99_999],
)
def test_long_lines_take_no_longer_than_their_length(line: str) -> None:
    with contextlib.suppress(FormatError):
        formats.read(f"module {{\n{line}\n}}".encode(), "x.mlir")


def test_damaged_text_is_read_or_refused() -> None:
    chance = random.Random(3)
    for path in (PRETTY, GENERIC):
        text = path.read_text()
        for _ in range(25):
            start = chance.randrange(len(text))
            piece = chance.choice(
                ["", "{\n", "}\n", "(", '"', "%", " = ", "^bb0(%x: i32):\n", "->"]
            )
            broken = text[:start] + piece + text[start + chance.randrange(4) :]
            with contextlib.suppress(FormatError):
                formats.read(broken.encode(), "x.mlir")


@settings(max_examples=200, deadline=None)
@given(st.text('%"(){}<>:=,.->^#@ \n01abx', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(FormatError):
        formats.read(("module {\n" + text).encode(), "x.mlir")
