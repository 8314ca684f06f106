"""Small valid files of every format that is read, for campaigns to damage."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from typing import Any

from flatbuffer_writer import write
from format_files import DATA
from glasshouse import formats
from glasshouse.record import Recording, RecordingBuilder
from glasshouse.record.schema import (
    NEVER,
    CandidateRow,
    DataRow,
    ErrorRow,
    KernelRow,
    RejectRow,
    RewriteRow,
    SummaryRow,
    Text,
    TimeRow,
)


def recording() -> Recording:
    """A recording with a row in every table, two stages, groups and a nested body."""
    made = RecordingBuilder("seed")
    made.source("m.py", "x = 1\n")
    made.style("rule", json.dumps({"queries": [], "styles": {}}))
    made.facts |= {"machine": "x", "wall seconds": "0.5"}
    graph = made.graph("main", attrs={"range s0": "1..9"})
    graph.stage("traced")
    body = made.graph("body", parent=0)
    body.node("Input", name="b", kind="source", outputs=["float32[2]"])
    inner = graph.group_path("module", ["net", "layer"], ["Net", "Layer"])
    kernel = graph.group("kernel", "k0", attrs={"a": "b"})
    x = graph.node("Input", name="x", kind="source", outputs=["float32[s0, 2]"], groups=[inner])
    w = graph.node("Constant", kind="source", outputs=["float32[2]"], output_names=["net.w"])
    mm = graph.node(
        "Matmul", kind="matmul", inputs=[x, w], outputs=["float32[s0, 2]"], groups=[inner, kernel],
        attrs={"axis": "[1, 2]", "alpha": "0.5"}, file="m.py", line=3, input_names=["a", "b"],
        bodies=[1], frames=["m.py:3 f"],
    )  # fmt: skip
    relu = graph.node("Relu", inputs=[(mm, 0)], outputs=["float32[s0, 2]"], grad_of=mm)
    graph.set_io([x], [(relu, 0)])
    graph.stage("fused", pass_name="Fuse", inputs=[x], outputs=[(9, 0)])
    graph.end(mm)
    graph.end(relu)
    graph.node("Fused", id=9, inputs=[x, w], outputs=["float32[s0, 2]"], groups=[kernel],
               pass_name="Fuse", rule="r", replaces=[mm, relu])  # fmt: skip
    graph.add(RewriteRow(1, "Fuse", "r", "why", [mm, relu], [9]))
    graph.add(RejectRow(1, "Fuse", "r", "why", [x, w], '{"bytes": 3}'))
    graph.add(KernelRow(0, "k0", 9, [mm, relu], "cpu", "v", Text("int k;")))
    graph.add(CandidateRow(0, "v", 1e-6, True))
    graph.add(TimeRow("run", 9, 1e-6, 0))
    graph.add(ErrorRow(1, 9, 0, 1e-7, 1e-7, 1e-7, 0.0))
    graph.add(SummaryRow(9, 0, 0.0, 1.0, 0.5, 0.1, 0.0, 0.0, 0.0, Text("0, 1")))
    graph.add(DataRow("d", 9, 0.5, "", "red"))
    graph.add(DataRow("e", NEVER, 1.0, "label"))
    return made.finish()


def onnx_model() -> bytes:
    """Initializers, a function's scopes and an If with two bodies."""
    from onnx import TensorProto, helper

    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])

    def branch(op: str) -> Any:
        out = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["h"], ["o"])], op, [], [out])

    nodes = [
        helper.make_node("MatMul", ["x", "net.fc.weight"], ["h"], name="/net/fc/MatMul"),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg")),
    ]
    weights = [
        helper.make_tensor("net.fc.weight", TensorProto.FLOAT, [4, 4], [0.5] * 16),
        helper.make_tensor("c", TensorProto.BOOL, [], [True]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    old = [helper.make_opsetid("", 18)]  # that ONNX Runtime has, whatever onnx is installed
    data: bytes = helper.make_model(graph, opset_imports=old, ir_version=10).SerializeToString()
    return data


def tflite() -> bytes:
    tensors = [{0: ("i32", [1, 8]), 1: ("i8", 0), 2: ("u32", i), 3: name}
               for i, name in enumerate(("in", "net/w", "net/out"))]  # fmt: skip
    tensors[2][4] = {2: ("f32", [0.5]), 3: ("i64", [-3])}
    call = {0: ("u32", 0), 1: ("i32", [0, 1]), 2: ("i32", [2]), 3: ("u8", 1),
            4: {0: ("i8", 1), 1: ("i32", 2), 2: ("i32", 2)}}  # fmt: skip
    branch = {0: ("u32", 1), 1: ("i32", [0]), 2: ("i32", [2]), 3: ("u8", 92),
              4: {0: ("i32", 1), 1: ("i32", 1)}}  # fmt: skip
    main = {0: tensors, 1: ("i32", [0]), 2: ("i32", [2]), 3: [call, branch], 4: "main"}
    other = {0: tensors, 1: ("i32", [0]), 2: ("i32", [2]), 3: [call, branch]}
    codes = [{0: ("i8", 3), 3: ("i32", 3)}, {0: ("i8", 118), 3: ("i32", 118)}]
    return write({0: ("u32", 3), 1: codes, 2: [main, other], 3: "d", 4: [{}, {0: ("u8", [0] * 8)}]},
                 b"TFL3")  # fmt: skip


def safetensors() -> bytes:
    header = {"__metadata__": {"format": "pt"}}
    for i, name in enumerate(("net.0.weight", "net.0.bias", "head")):
        header[name] = {"dtype": "F32", "shape": [2, 2], "data_offsets": [16 * i, 16 * i + 16]}
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(48)


def gguf() -> bytes:
    """A GGUF file: a vocabulary, numbers, three tensors of which one is in blocks."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, 3, 4))

    def text(said: str) -> bytes:
        return struct.pack("<Q", len(said.encode())) + said.encode()

    out += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    out += text("llama.block_count") + struct.pack("<II", 4, 2)
    out += text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 10)
    out += b"".join(text(f"t{i}") for i in range(10))
    out += text("tokenizer.ggml.scores") + struct.pack("<IIQ10f", 9, 6, 10, *range(10))
    for name, dims, kind, offset in (
        ("blk.0.attn_q.weight", (32, 2), 8, 0),
        ("blk.0.attn_norm.weight", (4,), 0, 96),
        ("output.weight", (4, 2), 1, 128),
    ):
        out += text(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        out += struct.pack("<IQ", kind, offset)
    return bytes(out) + bytes(-len(out) % 32 + 144)


OPENVINO = """<?xml version="1.0"?>
<net name="tiny" version="11">
 <layers>
  <layer id="0" name="x" type="Parameter" version="opset1">
   <data shape="?,16" element_type="f32" />
   <output><port id="0" precision="FP32" names="x"><dim>-1</dim><dim>16</dim></port></output>
  </layer>
  <layer id="1" name="self.fc.weight" type="Const" version="opset1">
   <data element_type="f32" shape="16, 8" offset="0" size="512" />
   <output><port id="0" precision="FP32"><dim>16</dim><dim>8</dim></port></output>
  </layer>
  <layer id="2" name="__module.fc/aten::linear/MatMul" type="MatMul" version="opset1">
   <data transpose_a="false" transpose_b="false" />
   <rt_info><attribute name="fused_names_0" version="0" value="fc" /></rt_info>
   <input><port id="0" precision="FP32"><dim>-1</dim><dim>16</dim></port>
    <port id="1" precision="FP32"><dim>16</dim><dim>8</dim></port></input>
   <output><port id="2" precision="FP32"><dim>-1</dim><dim>8</dim></port></output>
  </layer>
  <layer id="3" name="If_3" type="If" version="opset8">
   <input><port id="0" precision="FP32"><dim>-1</dim><dim>8</dim></port></input>
   <output><port id="1" precision="FP32"><dim>-1</dim><dim>8</dim></port></output>
   <then_port_map><input external_port_id="0" internal_layer_id="0" /></then_port_map>
   <then_body>
    <layers>
     <layer id="0" name="p" type="Parameter" version="opset1">
      <output><port id="0" precision="FP32"><dim>-1</dim></port></output></layer>
     <layer id="1" name="e" type="Exp" version="opset1">
      <input><port id="0" /></input><output><port id="1" precision="FP32" /></output></layer>
    </layers>
    <edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0" /></edges>
   </then_body>
  </layer>
  <layer id="4" name="out" type="Result" version="opset1">
   <input><port id="0" precision="FP32"><dim>-1</dim><dim>8</dim></port></input>
  </layer>
 </layers>
 <edges>
  <edge from-layer="0" from-port="0" to-layer="2" to-port="0" />
  <edge from-layer="1" from-port="0" to-layer="2" to-port="1" />
  <edge from-layer="2" from-port="2" to-layer="3" to-port="0" />
  <edge from-layer="3" from-port="1" to-layer="4" to-port="0" />
 </edges>
 <rt_info><Runtime_version value="2026" /><framework value="pytorch" /></rt_info>
</net>
"""


def keras_config() -> dict[str, Any]:
    """A functional model of Keras 3: two inputs through one encoder, joined, two results."""

    def layer(cls: str, name: str, inbound: list[Any], **config: Any) -> dict[str, Any]:
        return {"module": "keras.layers", "class_name": cls, "name": name,
                "config": {"name": name, "dtype": "float32", **config},
                "inbound_nodes": inbound}  # fmt: skip

    def tensor(name: str, call: int, port: int, *shape: int | None) -> dict[str, Any]:
        config = {"shape": list(shape), "dtype": "float32", "keras_history": [name, call, port]}
        return {"class_name": "__keras_tensor__", "config": config}

    def call(*tensors: dict[str, Any], **keywords: Any) -> dict[str, Any]:
        return {"args": list(tensors), "kwargs": keywords}

    inputs = [layer("InputLayer", n, [], batch_shape=[None, 16]) for n in "ab"]
    dense = layer("Dense", "dense", [], units=8, activation="relu")
    encoder = layer("Sequential", "encoder", [call(tensor(n, 0, 0, None, 16)) for n in "ab"],
                    layers=[inputs[0], dense])  # fmt: skip
    both = [tensor("encoder", 0, 0, None, 8), tensor("encoder", 1, 0, None, 8)]
    join = layer("Concatenate", "join", [{"args": [both], "kwargs": {}}], axis=-1)
    gru = layer("GRU", "gru", [call(tensor("join", 0, 0, None, 1, 16), training=False)], units=5)
    return {
        "module": "keras", "class_name": "Functional",
        "config": {"name": "net", "layers": [join, *inputs, encoder, gru],
                   "input_layers": [["a", 0, 0], ["b", 0, 0]],
                   "output_layers": [["gru", 0, 0], ["gru", 0, 1]]},
        "compile_config": {"optimizer": {"class_name": "Adam", "config": {}}, "loss": "mse"},
    }  # fmt: skip


def keras() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
        archive.writestr("config.json", json.dumps(keras_config()))
        archive.writestr("model.weights.h5", bytes(100))
    return out.getvalue()


def keras_h5() -> bytes:
    """The beginning of an HDF5 file and a text as its heap keeps it, with the length before it."""
    text = json.dumps(keras_config()).encode()
    heap = bytes(500) + len(text).to_bytes(8, "little") + text + bytes(100)
    return b"\x89HDF\r\n\x1a\n" + heap


TORCHSCRIPT = {
    "__torch__.py": """class Net(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  seq : __torch__.torch.nn.modules.container.Sequential
  def forward(self: __torch__.Net,
    x: Tensor,
    n: int=2) -> Tuple[Tensor, Tensor]:
    seq = self.seq
    if bool(torch.gt(torch.sum(x), 0)):
      y = (seq).forward(x, )
    else:
      y = torch.neg(x)
    y0 = y
    for i in range(n):
      y0 = torch.add(y0, float(i), alpha=1)
    _0 = __torch__.torch.nn.functional.twice
    values, indices, = torch.topk(_0(y0, False, ), 2)
    return (torch.mul(values, CONSTANTS.c0), indices)
""",
    "__torch__/torch/nn/modules/container.py": """class Sequential(Module):
  __annotations__["0"] = __torch__.torch.nn.modules.linear.Linear
  def forward(self: __torch__.torch.nn.modules.container.Sequential,
    x: Tensor) -> Tensor:
    return (getattr(self, "0")).forward(x, )
""",
    "__torch__/torch/nn/modules/linear.py": """class Linear(Module):
  __parameters__ = ["weight", ]
  weight : Tensor
  features : Final[int] = 4
  def forward(self: __torch__.torch.nn.modules.linear.Linear,
    x: Tensor) -> Tensor:
    weight = self.weight
    return torch.linear(x, weight, annotate(Optional[Tensor], None))
""",
    "__torch__/torch/nn/functional.py": """def twice(x: Tensor,
    more: bool=True) -> Tensor:
  if more:
    _0 = torch.mul(x, 3)
  else:
    _0 = torch.mul(x, 2)
  return _0
""",
}


def pickled_text(said: str) -> bytes:
    return b"X" + struct.pack("<I", len(said)) + said.encode()


def pickled_tensor(key: str, *dims: int) -> bytes:
    """A tensor as `torch.save` pickles it."""
    storage = b"(" + pickled_text("storage") + b"ctorch\nFloatStorage\n" + pickled_text(key)
    storage += pickled_text("cpu") + b"K\x10tQ"
    sizes = b"(" + b"".join(b"M" + struct.pack("<H", d) for d in dims) + b"t"
    last = b"\x89ccollections\nOrderedDict\n)R"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + b"K\x00" + sizes * 2 + last + b"tR"


def pickled_object(name: str, **state: bytes) -> bytes:
    """An object of a class with attributes, whose values are pickled already."""
    module, _, cls = name.rpartition(".")
    parts = b"".join(pickled_text(k.lstrip("_")) + v for k, v in state.items())
    return f"c{module}\n{cls}\n".encode() + b")\x81}(" + parts + b"ub"


def torch_archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"net/{name}", data)
    return out.getvalue()


def torchscript() -> bytes:
    modules = "__torch__.torch.nn.modules."
    linear = pickled_object(f"{modules}linear.Linear", weight=pickled_tensor("0", 4, 4))
    root = pickled_object(
        "__torch__.Net",
        training=b"\x89",
        seq=pickled_object(f"{modules}container.Sequential", _0=linear),
    )
    code = {f"code/{name}": text.encode() for name, text in TORCHSCRIPT.items()}
    return torch_archive({
        "data.pkl": b"\x80\x02" + root + b".",
        **code,
        "constants.pkl": b"\x80\x02(" + pickled_tensor("0", 1) + b"t.",
        "data/0": bytes(64), "version": b"3",
    })  # fmt: skip


def torch_weights() -> bytes:
    state = pickled_text("net.fc.weight") + pickled_tensor("0", 2, 8)
    state += pickled_text("net.fc.bias") + pickled_tensor("1", 2)
    root = b"}(" + pickled_text("model") + b"ccollections\nOrderedDict\n)R(" + state + b"u"
    root += pickled_text("epoch") + b"K\x03u."
    return torch_archive({"data.pkl": b"\x80\x02" + root, "data/0": bytes(64)})


def message(*fields: tuple[int, Any]) -> bytes:
    """A protobuf message: numbers as varints, texts, bytes and messages behind their length."""

    def varint(value: int) -> bytes:
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes([*out, value])

    parts = []
    for number, value in fields:
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
            continue
        data = value.encode() if isinstance(value, str) else value
        parts.append(varint(number << 3 | 2) + varint(len(data)) + data)
    return b"".join(parts)


def coreml_tensor(dtype: int, *dims: int) -> bytes:
    """The type of a value in a program."""
    sizes = [(3, message((1, message((1, d))))) for d in dims]
    return message((1, message((1, dtype), (2, len(dims)), *sizes)))


def coreml_features() -> bytes:
    """The description of a model with the input x and the output y."""
    array = message((3, message((5, message((1, bytes([1, 16])), (2, 65568))))))
    one, two = (message((1, name)) + array for name in "xy")
    about = message((1, "a test"), (100, message((1, "tool"), (2, "none"))))
    return message((1, one), (10, two), (100, about))


def coreml_program() -> bytes:
    """A program: a weight in a file, a flag, a branch with two blocks."""

    def named(name: str, *dims: int) -> bytes:
        return message((1, name), (2, coreml_tensor(11, *dims)))

    def reads(key: str, name: str) -> tuple[int, bytes]:
        return 2, message((1, key), (2, message((1, message((1, name))))))

    blob = message((2, coreml_tensor(11, 8, 16)), (5, message((1, "w.bin"), (2, 64))))
    weight = message((1, "const"), (3, named("w", 8, 16)), (5, message((1, "val"), (2, blob))))
    flag = message((2, coreml_tensor(1)), (3, message((1, message((3, message((1, b"\1"))))))))
    turned = message((1, "const"), (3, named("t")), (5, message((1, "val"), (2, flag))))
    dot = message((1, "matmul"), reads("x", "x"), reads("y", "w"), reads("transpose_y", "t"),
                  (3, named("net/h", 1, 8)))  # fmt: skip
    blocks = [
        (4, message((2, out), (3, message((1, op), reads("x", "net/h"), (3, named(out, 1, 8))))))
        for op, out in (("relu", "r"), ("exp", "e"))
    ]
    branch = message((1, "cond"), reads("pred", "net/h"), *blocks, (3, named("y", 1, 8)))
    block = message((2, "y"), *((3, op) for op in (weight, turned, dot, branch)))
    function = message((1, named("x", 1, 16)), (2, "CoreML7"),
                       (3, message((1, "CoreML7"), (2, block))))  # fmt: skip
    program = message((1, 1), (2, message((1, "main"), (2, function))))
    return message((1, 8), (2, coreml_features()), (502, program))


def coreml_network() -> bytes:
    """A neural network: a convolution with weights, an activation, a branch that writes y."""
    conv = message((1, 4), (2, 3), (10, 1), (20, bytes([3, 3])), (90, message((1, bytes(64)))))
    inner = [message((1, message((1, f"{k}"), (2, "h"), (3, "y"), (k, b"")))) for k in (600, 790)]
    layers = [
        message((1, "conv"), (2, "x"), (3, "c"), (5, message((1, 2), (2, bytes([1, 8])))),
                (100, conv)),
        message((1, "act"), (2, "c"), (3, "h"), (130, message((10, b"")))),
        message((1, "if"), (2, "h"), (605, message((1, inner[0]), (2, inner[1])))),
    ]  # fmt: skip
    network = message(*((1, layer) for layer in layers))
    return message((1, 4), (2, coreml_features()), (500, network))


def coreml_pipeline() -> bytes:
    scaler = message((1, 1), (2, coreml_features()), (604, b""))
    pipeline = message((1, scaler), (1, coreml_network()), (2, "scale"), (2, "net"))
    return message((1, 4), (2, coreml_features()), (202, pipeline))


def exported() -> dict[str, Any]:
    """The JSON of a `.pt2` archive, with a body."""

    def tensor(name: str) -> dict[str, Any]:
        return {"as_tensor": {"name": name}}

    def graph(body: Any) -> dict[str, Any]:
        inputs = [{"name": "self", "arg": tensor("x"), "kind": 1}]
        inputs += [{"name": "f", "arg": body}] if body else []
        meta = {"stack_trace": 'File "/u/m.py", line 3, in f',
                "nn_module_stack": "k,,m.Net;k1,net.fc,m.Linear"}  # fmt: skip
        size = [{"as_int": 2}, {"as_expr": {"expr_str": "Mul(Integer(2), Symbol('s0'))"}}]
        return {
            "inputs": [tensor("x")], "outputs": [tensor("y")],
            "nodes": [{"target": "torch.ops.aten.relu.default", "inputs": inputs,
                       "outputs": [tensor("y")], "metadata": meta}],
            "tensor_values": {n: {"dtype": 7, "sizes": size} for n in ("x", "y")},
            "sym_int_values": {"s": {"as_int": 1}},
        }  # fmt: skip

    spec = {"parameter": {"arg": {"name": "x"}, "parameter_name": "net.fc.weight"}}
    return {
        "graph_module": {
            "graph": graph({"as_graph": {"name": "b", "graph": graph(None)}}),
            "signature": {"input_specs": [spec], "output_specs": [{"user_output": {}}]},
        },
        "schema_version": {"major": 8}, "range_constraints": {"s0": {"min_val": 1}},
    }  # fmt: skip


def pt2() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("m/models/model.json", json.dumps(exported()))
        archive.writestr("m/data/weights/w", bytes(100))
    return out.getvalue()


def seeds() -> dict[str, bytes]:
    """A file of each format, by file name."""
    one = recording()
    out = {f"seed{f.extensions[0]}": formats.dump(one, f.name)
           for f in formats.FORMATS if f.writer and f.reader}  # fmt: skip
    out |= {
        "model.onnx": onnx_model(),
        "model.tflite": tflite(),
        "portable.pte": (DATA / "executorch" / "portable.pte").read_bytes(),
        "weights.safetensors": safetensors(),
        "model.gguf": gguf(),
        "model.xml": OPENVINO.encode(),
        "model.keras": keras(),
        "program.mlmodel": coreml_program(),
        "network.mlmodel": coreml_network(),
        "pipeline.mlmodel": coreml_pipeline(),
        "script.pt": torchscript(),
        "weights.pt": torch_weights(),
        "model.h5": keras_h5(),
        "program.pt2": pt2(),
        "program.json": json.dumps(exported()).encode(),
        "pretty.mlir": (DATA / "mlir" / "pretty.mlir").read_bytes()[:20_000],
        "generic.mlir": (DATA / "mlir" / "generic.mlir").read_bytes()[:20_000],
    }
    return out
