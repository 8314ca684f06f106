"""ExecuTorch programs: instructions, constants, delegates and memory, from the flatbuffer."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatbuffer_writer import write
from format_files import DATA, group_paths, same_graphs
from glasshouse import formats
from glasshouse.errors import FormatError
from glasshouse.record.schema import NodeRow

PORTABLE, XNNPACK = (DATA / "executorch" / f"{n}.pte" for n in ("portable", "xnnpack"))


def nodes(data: Any) -> dict[str, NodeRow]:
    return {n.op: n for n in formats.read(data, "" if not isinstance(data, bytes) else "p.pte")
            .graphs[0].stage(0).nodes}  # fmt: skip


def test_a_real_program() -> None:
    recording = formats.read(PORTABLE)
    graph = recording.graphs[0]
    assert graph.name == "forward"
    ops = graph.stage(0).nodes.pylist("op")
    assert [o for o in ops if "." in o] == [
        "aten.permute_copy.out", "aten.addmm.out", "aten.native_layer_norm.out",
        "aten.split_with_sizes_copy.out", "aten.cat.out", "dim_order_ops._to_dim_order_copy.out",
        "aten.mul.out", "dim_order_ops._to_dim_order_copy.out", "aten.add.out", "aten.argmax.out",
    ]  # fmt: skip
    assert ops.count("Constant") == 6
    found = nodes(PORTABLE)
    split, norm = found["aten.split_with_sizes_copy.out"], found["aten.native_layer_norm.out"]
    assert norm.outputs == ["float32[3, 4]", "float32[3, 1]", "float32[3, 1]"]
    cat = found["aten.cat.out"]
    assert list(zip(cat.input_nodes, cat.input_ports, strict=True)) == [
        (split.id, 0), (split.id, 1), (norm.id, 0)]  # fmt: skip
    attrs = dict(zip(norm.attr_keys, norm.attr_values, strict=True))
    assert (attrs["argument 1"], attrs["argument 4"]) == ("[4]", "1e-05")
    assert attrs["output:0:memory"].startswith("arena 1, offset")
    assert [found["aten.add.out"].id, found["aten.argmax.out"].id] == (
        graph.info.stages[0].output_nodes
    )


def test_delegates_are_nodes_with_the_size_of_their_blob() -> None:
    graph = formats.read(XNNPACK).graphs[0]
    calls = [n for n in graph.stage(0).nodes if n.op == "executorch_call_delegate"]
    attrs = [dict(zip(n.attr_keys, n.attr_values, strict=True)) for n in calls]
    assert [(a["backend"], a["blob bytes"]) for a in attrs] == [
        ("XnnpackBackend", "720"), ("XnnpackBackend", "864")]  # fmt: skip
    paths = group_paths(graph)
    assert [paths[n.groups[0]] for n in calls] == [
        ("partition", "0 XnnpackBackend"), ("partition", "1 XnnpackBackend")]  # fmt: skip
    assert len(calls[1].input_nodes) == 5


def test_programs_go_to_model_explorer_and_back() -> None:
    recording = formats.read(XNNPACK)
    same_graphs(formats.read(formats.dump(recording, "model_explorer"), "p.json"), recording)


def program(instructions: list[Any], values: list[Any], **plan: Any) -> bytes:
    chain = {2: instructions, **plan.pop("chain", {})}
    slots = {"inputs": 3, "outputs": 4, "operators": 6, "delegates": 7}
    given = {slots[k]: v for k, v in plan.items()}
    return write({0: ("u32", 3), 1: [{0: "go", 2: values, 5: [chain], **given}]}, b"ET12")


def value(kind: int, **fields: Any) -> dict[int, Any]:
    return {0: ("u8", kind), 1: {int(k[1:]): v for k, v in fields.items()}}


TENSOR = value(5, _0=("i8", 6), _2=("i32", [2, 3]))
CONSTANT = value(5, _0=("i8", 6), _2=("i32", [3]), _5=("u32", 1), _9={1: "m.weight"})


def test_names_frames_moves_and_jumps() -> None:
    frame = {0: "model.py", 1: ("i32", 7), 2: "forward"}
    data = program(
        [
            {0: ("u8", 1), 1: {0: ("i32", 0), 1: ("i32", [0, 1, 2, 3, 3])}},
            {0: ("u8", 3), 1: {0: ("i32", 3), 1: ("i32", 4)}},
            {0: ("u8", 4), 1: {0: ("i32", 5), 1: ("i32", 0)}},
            {0: ("u8", 5), 1: {0: ("i32", 3)}},
        ],
        [
            TENSOR,
            CONSTANT,
            value(2, _0=("i64", 2**40)),
            TENSOR,
            TENSOR,
            value(3, _0=("bool", True)),
        ],
        inputs=("i32", [0]),
        outputs=("i32", [4]),
        operators=[{0: "aten::add", 1: "out"}],
        chain={3: [{0: [frame]}]},
    )
    found = nodes(data)
    assert list(found) == ["Input", "Constant", "aten.add.out", "move", "jump_if_false", "free"]
    add = found["aten.add.out"]
    assert (add.file, add.line, add.frames) == ("model.py", 7, ["model.py:7 forward"])
    assert add.attr_values == [str(2**40)]
    assert found["Constant"].name == "m.weight"
    assert found["move"].input_nodes == [add.id]
    assert found["free"].input_nodes == [add.id]


@pytest.mark.parametrize(
    "data, says",
    [
        (write({}, b"ET12"), "without a method"),
        (b"\0\0\0\0ET12", "without a method"),
        (b"\xff\xff\xff\x7fET12" + bytes(20), "outside the file"),
        (PORTABLE.read_bytes()[:40], "outside the file"),
    ],
)
def test_broken_programs_are_refused(data: bytes, says: str) -> None:
    with pytest.raises(FormatError) as caught:
        formats.read(data, "p.pte")
    assert "\n" not in str(caught.value)


def test_indices_that_lead_nowhere_are_survived() -> None:
    data = program(
        [
            {0: ("u8", 1), 1: {0: ("i32", 99), 1: ("i32", [0, -1, 77])}},
            {0: ("u8", 2), 1: {0: ("i32", 5), 1: ("i32", [])}},
            {0: ("u8", 9), 1: {}},
            {},
        ],
        [TENSOR, value(7, _0=("i64", [5])), {}],
        inputs=("i32", [44]),
    )
    assert list(nodes(data)) == ["operator 99", "executorch_call_delegate"]


def test_shared_tables_do_not_expand_without_end() -> None:
    # Five thousand chains that all are one chain of a thousand instructions.
    chain = {2: [{0: ("u8", 5), 1: {0: ("i32", 0)}}] * 1000}
    data = write({1: [{2: [TENSOR], 5: [chain] * 5000}]}, b"ET12")
    assert len(data) < 30_000
    with pytest.raises(FormatError, match="entries, counting those that it refers to again"):
        formats.read(data, "p.pte")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=6))
def test_damaged_programs_are_read_or_refused(changes: list[tuple[int, int]]) -> None:
    for path in (PORTABLE, XNNPACK):
        data = bytearray(path.read_bytes())
        for place, value in changes:
            data[place % len(data)] = value
        with contextlib.suppress(FormatError):
            formats.read(bytes(data), "p.pte").to_bytes()
