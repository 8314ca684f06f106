"""What ran, in the form of Jittor's trace data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn, optim
from glasshouse.errors import TypeMismatch, Unsupported

ATTRS = {"is_var", "name", "shape", "ndim", "dtype", "dsize", "grad_op_id"}


@pytest.fixture(autouse=True)
def _clean():
    """Without compiling: which ops a kernel has is tested in `runtime/test_lazy.py`."""
    before = gh.set_executor("reference")
    gh.clear_trace_data()
    yield
    gh.clear_trace_data()
    gh.set_executor(before)


class Net(nn.Module):
    def __init__(self) -> None:
        self.fc = nn.Linear(3, 2)

    def forward(self, x: gh.Tensor) -> gh.Tensor:
        return self.fc(x).relu()


def check(data: dict) -> None:
    """The documented fields, and ids that lead somewhere."""
    assert set(data) == {"node_data", "execute_op_info"}
    nodes = data["node_data"]
    for id, node in nodes.items():
        assert set(node) == {"id", "inputs", "outputs", "stacks", "attrs"}
        assert node["id"] == id
        for other in node["inputs"]:
            assert id in nodes[other]["outputs"]
        for other in node["outputs"]:
            assert id in nodes[other]["inputs"]
        assert {"is_var", "name"} <= set(node["attrs"]) <= ATTRS
        assert all(isinstance(v, str) for v in node["attrs"].values())
        # Ops and variables alternate.
        sides = {nodes[i]["attrs"]["is_var"] for i in node["inputs"] + node["outputs"]}
        assert sides <= {"0" if node["attrs"]["is_var"] == "1" else "1"}
        if node["attrs"]["is_var"] == "1":
            assert {"shape", "ndim", "dtype"} <= set(node["attrs"])
            sizes = [s for s in node["attrs"]["shape"].strip("[]").split(",") if s]
            assert len(sizes) == int(node["attrs"]["ndim"])
        if "grad_op_id" in node["attrs"]:
            forward = nodes[int(node["attrs"]["grad_op_id"])]
            assert forward["attrs"]["is_var"] == "0"
            assert node["stacks"][0] == {
                "name": "grad",
                "type": "Grad",
                "file_path": "",
                "lineno": 0,
            }
        for step in node["stacks"]:
            assert set(step) == {"name", "type", "file_path", "lineno"}
    runs = data["execute_op_info"]
    assert list(runs) == sorted(runs)
    for info in runs.values():
        assert set(info) == {"fused_ops", "jit_key", "file_path", "attrs"}
        assert info["fused_ops"]
        assert all(nodes[i]["attrs"]["is_var"] == "0" for i in info["fused_ops"])


def stacks(data: dict, op: str) -> list[list[tuple[str, str]]]:
    return [
        [(s["name"], s["type"]) for s in n["stacks"]]
        for n in data["node_data"].values()
        if n["attrs"]["name"] == op and n["attrs"]["is_var"] == "0"
    ]


def test_inference() -> None:
    with gh.flag_scope(trace_py_var=2):
        net = Net()
        net(gh.ones(1, 3)).sync()
    data = gh.dump_trace_data()
    check(data)
    assert stacks(data, "relu") == [[("net", "Net")]]
    assert stacks(data, "matmul") == [[("net", "Net"), ("fc", "Linear")]]
    assert [("Net_init", "Net"), ("Linear_init", "Linear")] in stacks(data, "uniform")
    for node in data["node_data"].values():
        assert all(s["file_path"] == __file__ and s["lineno"] > 0 for s in node["stacks"])
    names = {n["attrs"]["name"] for n in data["node_data"].values() if n["attrs"]["is_var"] == "1"}
    assert names == {"", "fc.weight", "fc.bias"}
    shapes = {n["attrs"].get("shape") for n in data["node_data"].values()}
    assert "[1,3,]" in shapes
    assert pickle.loads(pickle.dumps(data)) == data


def test_training() -> None:
    with gh.flag_scope(trace_py_var=2):
        net = Net()
        opt = optim.SGD(net.parameters(), 0.1)
        for _ in range(2):
            opt.step(net(gh.ones(1, 3)))
    data = gh.dump_trace_data()
    check(data)
    nodes = data["node_data"]
    grads = [n for n in nodes.values() if "grad_op_id" in n["attrs"]]
    assert grads
    for node in grads:
        forward = nodes[int(node["attrs"]["grad_op_id"])]
        assert node["stacks"][1:] == forward["stacks"]
    updates = [n for n in nodes.values() if n["stacks"] and n["stacks"][0]["name"] == "opt"]
    assert {s["type"] for n in updates for s in n["stacks"]} == {"SGD"}
    # A parameter's name stands on its value before and after each of two updates, and the value
    # that the first update makes is the one that the second step reads.
    weights = [n for n in nodes.values() if n["attrs"]["name"] == "fc.weight"]
    assert len(weights) == 3
    assert sum(bool(n["outputs"]) for n in weights) == 2


def test_a_gradient_of_a_gradient() -> None:
    with gh.flag_scope(trace_py_var=2):
        x = gh.array([1.0, 2.0])
        value, first = gh.value_and_grad(lambda x: (x**3).sum())(x)
        second = gh.gradients(first.sum(), [x])[0]
        gh.sync_all()
    data = gh.dump_trace_data()
    check(data)
    assert second.tolist() == [6, 12]
    assert value.item() == 9
    nodes = data["node_data"]
    depths = set()
    for node in nodes.values():
        depth = 0
        while "grad_op_id" in node["attrs"]:
            node, depth = nodes[int(node["attrs"]["grad_op_id"])], depth + 1
        depths.add(depth)
    assert depths == {0, 1, 2}


@pytest.mark.parametrize("level", [0, 1])
def test_levels_without_nodes(level: int) -> None:
    with gh.flag_scope(trace_py_var=level):
        (gh.ones(2) + 1).sync()
    assert gh.dump_trace_data() == {"node_data": {}, "execute_op_info": {}}


def test_level_3_keeps_frames() -> None:
    with gh.flag_scope(trace_py_var=3):
        net = Net()
        net(gh.ones(1, 3)).sync()
    data = gh.dump_trace_data()
    check(data)
    (stack,) = stacks(data, "relu")
    assert [kind for _, kind in stack] == ["test_level_3_keeps_frames", "forward"]
    assert all(name.startswith(f"{__file__}:") for name, _ in stack)


def test_outside_of_modules_level_2_has_lines() -> None:
    with gh.flag_scope(trace_py_var=2):
        gh.array([1.0]).exp().sync()
    ((step,),) = stacks(gh.dump_trace_data(), "exp")
    assert step[0].startswith(f"{__file__}:")
    assert step[1] == ""


def test_data_stays_until_cleared_and_the_flag_ends_with_its_scope() -> None:
    x = gh.array([1.0])
    with gh.flag_scope(trace_py_var=2):
        y = (x + 1).sync()
    kept = gh.dump_trace_data()
    (x * 2).sync()
    assert gh.dump_trace_data() == kept
    gh.clear_trace_data()
    with gh.flag_scope(trace_py_var=2):
        (y * 3).sync()  # reads what ran before: an array now
    check(gh.dump_trace_data())


def test_a_compilers_kernels_are_kept() -> None:
    """An executor reports the groups that it ran, with key and source."""

    def fusing(graph, inputs, report=None):
        from glasshouse.tensor.execute import reference

        if report is not None:
            report([n.id for n in graph.nodes if n.inputs], "add«float32", "kernels/add.cpp")
        return reference(graph, inputs)

    before = gh.set_executor(fusing)
    try:
        with gh.flag_scope(trace_py_var=2):
            ((gh.array(np.ones(2, "f")) + 1) * 2).sync()
    finally:
        gh.set_executor(before)
    data = gh.dump_trace_data()
    check(data)
    (info,) = data["execute_op_info"].values()
    assert [data["node_data"][i]["attrs"]["name"] for i in info["fused_ops"]] == ["add", "multiply"]
    assert (info["jit_key"], info["file_path"]) == ("add«float32", "kernels/add.cpp")


def test_wrong_flags() -> None:
    with pytest.raises(Unsupported, match="there is trace_py_var"):
        gh.flag_scope(use_cuda=1).__enter__()
    with pytest.raises(TypeMismatch, match="0, 1, 2 or 3"):
        gh.flag_scope(trace_py_var=4).__enter__()
