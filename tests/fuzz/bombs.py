"""Crafted files that ask for far more than they are: each is a function that gives name and bytes.

Built when asked for; none takes a second to build. The unit tests read each of them too.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

Bomb = Callable[[], tuple[str, bytes]]
BOMBS: dict[str, Bomb] = {}


def bomb(make: Bomb) -> Bomb:
    BOMBS[make.__name__] = make
    return make


def glass(
    tables: dict[str, bytes], graphs: list[Any] | None = None, strings: bytes | None = None
) -> bytes:
    """A recording whose tables are given as bytes."""
    header = {
        "format": "glasshouse", "version": [1, 0], "generator": "bomb", "title": "bomb",
        "graphs": [{"name": "g", "stages": [{"name": "s"}]}] if graphs is None else graphs,
    }  # fmt: skip
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glass.json", json.dumps(header, separators=(",", ":")))
        if strings is not None:
            archive.writestr("strings", strings)
        for name, data in tables.items():
            archive.writestr(name, data)
    return out.getvalue()


def table(rows: int, columns: list[dict[str, Any]], body: bytes = b"") -> bytes:
    text = json.dumps({"rows": rows, "columns": columns}).encode()
    start = len(text).to_bytes(4, "little") + text
    return start + bytes(-len(start) % 8) + body


def node_columns(rows: int) -> list[dict[str, Any]]:
    """All columns of the node table, on the same `rows` zero bytes."""
    plain = {"id": "int", "born": "int", "died": "int", "name": "str", "op": "str", "kind": "str"}
    ragged = dict.fromkeys(("input_nodes", "input_ports", "groups"), "list<int>")
    ragged |= dict.fromkeys(("outputs", "attr_keys", "attr_values"), "list<str>")
    out = [{"name": n, "type": t, "parts": [[0, rows, "i8"]]} for n, t in plain.items()]
    out += [{"name": n, "type": t, "parts": [[0, rows, "i8"], [0, 0, "i8"]]}
            for n, t in ragged.items()]  # fmt: skip
    return out


@bomb
def pickle_of_shared_lists() -> tuple[str, bytes]:
    """366 bytes: lists of ten references to the list before, where an id is expected."""
    value: Any = [0] * 10
    for _ in range(12):
        value = [value] * 10
    return "shared.pkl", pickle.dumps({"node_data": {0: {"id": 0, "inputs": value}}}, protocol=4)


@bomb
def pickle_key_of_shared_tuples() -> tuple[str, bytes]:
    value: Any = (0,) * 10
    for _ in range(12):
        value = (value,) * 10
    return "key.pkl", pickle.dumps({"node_data": {0: {"id": value}}}, protocol=4)


@bomb
def glass_of_rows_without_bytes() -> tuple[str, bytes]:
    """A table that claims 2^52 rows and has no column."""
    return "rows.glass", glass({"g0/nodes.0": table(2**52, [])})


@bomb
def glass_of_zeros() -> tuple[str, bytes]:
    """250 KB that inflate to a quarter of a gigabyte and decode to eight times that, per column."""
    rows = 240 << 20
    return "zeros.glass", glass({"g0/nodes.0": table(rows, node_columns(rows), bytes(rows))})


@bomb
def glass_of_many_members() -> tuple[str, bytes]:
    """Every table is half a gigabyte; none alone is past the limit."""
    rows = 16 << 20
    columns = [{"name": n, "type": "int", "parts": [[0, rows, "i8"]]} for n in ("stage", "node")]
    data = table(rows, columns, bytes(rows))
    return "many.glass", glass({f"g0/{t}": data for t in ("data", "times", "errors", "summaries")})


@bomb
def glass_of_empty_strings() -> tuple[str, bytes]:
    rows = 200 << 20
    texts = [{"name": "text", "type": "text", "parts": [[0, rows, "i8"], [0, 0, "u8"]]}]
    return "strings.glass", glass({}, strings=table(rows, texts, bytes(rows)))


@bomb
def glass_of_stages() -> tuple[str, bytes]:
    """A header of millions of stages."""
    return "stages.glass", glass({}, [{"name": "g", "stages": [{"name": ""}] * 3_000_000}])


@bomb
def glass_of_brackets() -> tuple[str, bytes]:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("glass.json", b'{"a":[' + b"{}," * 40_000_000 + b"{}]}")
    return "brackets.glass", out.getvalue()


@bomb
def glass_of_overlapping_members() -> tuple[str, bytes]:
    """Every stage's table is the same bytes of the file."""
    stages = 500
    rows = 4 << 20
    name, data = "g0/nodes.0", table(rows, node_columns(rows), bytes(rows))
    whole = bytearray(glass({name: data}, [{"name": "g", "stages": [{"name": ""}] * stages}]))
    where = whole.rindex(b"PK\x01\x02" + whole[whole.rindex(b"PK\x01\x02") + 4 :][:2])
    end = whole.rindex(b"PK\x05\x06")
    entry = bytes(whole[where:end])
    size = struct.unpack_from("<H", entry, 28)[0]
    copies = b""
    for i in range(1, stages):
        other = f"g0/nodes.{i}".encode()
        fixed = bytearray(entry[:46])
        struct.pack_into("<H", fixed, 28, len(other))
        copies += bytes(fixed) + other + entry[46 + size :]
    tail = bytearray(whole[end:])
    count = struct.unpack_from("<H", tail, 8)[0] + stages - 1
    struct.pack_into("<HH", tail, 8, count, count)
    struct.pack_into("<I", tail, 12, struct.unpack_from("<I", tail, 12)[0] + len(copies))
    return "overlap.glass", bytes(whole[:end]) + copies + bytes(tail)


@bomb
def glass_of_deep_groups() -> tuple[str, bytes]:
    """A chain of groups, a node in each: a writer of whole paths makes the square of it."""
    from glasshouse.record import RecordingBuilder

    made = RecordingBuilder("deep")
    graph = made.graph("g")
    row = -1
    for _ in range(20_000):
        row = graph.group("module", "a", row)
        graph.node("op", groups=[row])
    return "deep.glass", made.finish().to_bytes()


LONG = "a." * 100_000 + "a"


@bomb
def safetensors_of_a_long_name() -> tuple[str, bytes]:
    entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    text = json.dumps({LONG: entry, LONG[:-2]: entry}).encode()
    return "long.safetensors", len(text).to_bytes(8, "little") + text + bytes(4)


@bomb
def json_of_a_long_namespace() -> tuple[str, bytes]:
    node = {"id": "a", "label": "a", "namespace": LONG.replace(".", "/")}
    return "long.json", json.dumps([{"id": "g", "nodes": [node]}]).encode()


@bomb
def onnx_of_a_long_name() -> tuple[str, bytes]:
    from onnx import TensorProto, helper

    node = helper.make_node("Relu", ["x"], ["y"], name=LONG.replace(".", "/"))
    weight = helper.make_tensor(LONG, TensorProto.FLOAT, [1], [0.0])
    graph = helper.make_graph([node], "g", [], [], [weight])
    return "long.onnx", helper.make_model(graph).SerializeToString()


@bomb
def onnx_of_nested_ifs() -> tuple[str, bytes]:
    """16 levels of If with two branches each: 131,070 bodies."""
    from onnx import GraphProto, ModelProto, helper

    body = GraphProto(name="b")
    for _ in range(16):
        outer = GraphProto(name="b")
        node = outer.node.add(op_type="If", input=["c"], output=["y"])
        for branch in ("then_branch", "else_branch"):
            attribute = node.attribute.add(name=branch, type=5)
            attribute.g.CopyFrom(body)
        body = outer
    model = ModelProto(ir_version=8)
    model.opset_import.append(helper.make_opsetid("", 17))
    model.graph.CopyFrom(body)
    return "ifs.onnx", model.SerializeToString()


@bomb
def pt2_of_spaces() -> tuple[str, bytes]:
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("m/models/model.json", "w") as member,
    ):
        for _ in range(600):
            member.write(b" " * (1 << 20))
    return "spaces.pt2", out.getvalue()


@bomb
def json_of_deep_lists() -> tuple[str, bytes]:
    return "deep.json", b'[{"id":"g","nodes":' + b"[" * 500_000 + b"]" * 500_000 + b"}]"


@bomb
def json_of_long_integers() -> tuple[str, bytes]:
    text = '[{"id":"g","nodes":[{"id":1,"label":%s}]}]' % ("9" * 10_000)
    return "digits.json", text.encode()


@bomb
def json_of_huge_exponents() -> tuple[str, bytes]:
    text = '{"g":{"results":{"a":{"value":1e999999999},"b":{"value":%s}}}}' % ("9" * 4000)
    return "exponent.json", text.encode()


@bomb
def json_in_utf16() -> tuple[str, bytes]:
    return "utf16.json", '[{"id":"g","nodes":[]}]'.encode("utf-16")


@bomb
def json_of_duplicate_keys() -> tuple[str, bytes]:
    return "twice.json", b'{"id":"g","id":7,"nodes":[{"id":"a"}],"nodes":[{"id":"a"}],"nodes":3}'


@bomb
def safetensors_of_nan_sizes() -> tuple[str, bytes]:
    text = b'{"a":{"dtype":"F32","shape":[NaN,1e400,-0],"data_offsets":[0,-1]}}'
    return "nan.safetensors", len(text).to_bytes(8, "little") + text


@bomb
def safetensors_of_huge_shapes() -> tuple[str, bytes]:
    entry = {"dtype": "F32", "shape": [2**62] * 3000, "data_offsets": [0, 0]}
    text = json.dumps({str(i): entry for i in range(20)}).encode()
    return "shapes.safetensors", len(text).to_bytes(8, "little") + text


@bomb
def text_of_operands() -> tuple[str, bytes]:
    """One statement with a hundred thousand operands."""
    operands = ", ".join(f"x{i}" for i in range(100_000))
    return "wide.txt", f"Graph(x: float32[2]){{\n  y: float32[2] = Op({operands})\n}}".encode()


@bomb
def mlir_of_brackets() -> tuple[str, bytes]:
    return "open.mlir", b"module {\n" + b"  %0 = " + b"(" * 200_000 + b"\n}\n"


@bomb
def onnx_of_a_wide_node() -> tuple[str, bytes]:
    from onnx import helper

    names = [f"v{i}" for i in range(100_000)]
    nodes = [helper.make_node("Split", ["x"], names), helper.make_node("Concat", names, ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [], []))
    return "wide.onnx", model.SerializeToString()


@bomb
def json_of_a_wide_node() -> tuple[str, bytes]:
    """An op with 50,000 named outputs, all of them read."""
    outputs = [{"id": f"o{i}", "attrs": []} for i in range(50_000)]
    edges = [{"sourceNodeId": "a", "sourceNodeOutputId": f"o{i}", "targetNodeInputId": str(i)}
             for i in range(50_000)]  # fmt: skip
    nodes = [{"id": "a", "label": "a", "outputsMetadata": outputs},
             {"id": "b", "label": "b", "incomingEdges": edges}]  # fmt: skip
    return "wide.json", json.dumps([{"id": "g", "nodes": nodes}]).encode()


@bomb
def pickle_of_a_wide_op() -> tuple[str, bytes]:
    """An op with 10,000 variables."""
    ids = list(range(1, 10_001))
    nodes: dict[int, Any] = {0: {"id": 0, "inputs": [], "outputs": ids, "attrs": {"name": "op"}}}
    for i in ids:
        nodes[i] = {"id": i, "inputs": [0], "outputs": [], "attrs": {"is_var": "1"}}
    return "wide.pkl", pickle.dumps({"node_data": nodes, "execute_op_info": {}}, protocol=4)


@bomb
def pte_of_a_wide_call() -> tuple[str, bytes]:
    """A delegate that writes 10,000 tensors."""
    from flatbuffer_writer import write

    tensor = {0: ("u8", 5), 1: {0: ("i8", 6), 2: ("i32", [1])}}
    call = {0: ("u8", 2), 1: {0: ("i32", 0), 1: ("i32", list(range(10_000)))}}
    plan = {0: "f", 2: [tensor] * 10_000, 5: [{2: [call]}]}
    return "wide.pte", write({1: [plan]}, b"ET12")


@bomb
def hidet_of_equal_branches() -> tuple[str, bytes]:
    """20,000 equal ops on one input."""

    def parameter(name: str) -> dict[str, Any]:
        return {"name": "0", "arguments": [{"name": name, "type": "t"}]}

    nodes = [{"name": str(i), "type": {"name": "Relu"}, "inputs": [parameter("x")],
              "outputs": [parameter(f"y{i}")]} for i in range(20_000)]  # fmt: skip
    graph = {"name": "g", "inputs": [parameter("x")], "outputs": [], "nodes": nodes}
    return "equal.hidet.json", json.dumps({"graphs": [graph], "format": "netron"}).encode()


@bomb
def strings_that_break_lines() -> tuple[str, bytes]:
    """Names with NUL, lone surrogates, direction marks and terminal escapes."""
    names = ["\0", "\ud800", "\u202etxt.exe", "\x1b[2J\x1b[H", "a\nb", "\r", "\ufeff", "", "/", "."]
    nodes = [{"id": n, "label": n, "namespace": n} for n in names]
    return "odd.json", json.dumps([{"id": "\ud800", "nodes": nodes}]).encode()
