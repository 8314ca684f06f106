"""What ran, node by node: four traces of a small model and of ResNet-18, as Jittor writes them.

    python examples/trace_training.py OUT_FOLDER [IMAGE_SIZE]

Only the import lines differ from a script for Jittor. Needs NumPy alone.
"""

import pickle
import sys
from pathlib import Path

import numpy as np

import glasshouse.compat.jittor as jt
from glasshouse.compat.jittor import Module
from glasshouse.compat.jittor.models import resnet

rng = np.random.default_rng(0)


def matmul(a, b):
    """A product as a sum over a broadcast axis."""
    (rows, inner), columns = a.shape, b.shape[-1]
    a = a.broadcast([rows, inner, columns], dims=[2])
    b = b.broadcast([rows, inner, columns], dims=[0])
    return (a * b).sum(dim=1)


class Dense(Module):
    def __init__(self, inside, outside):
        self.weight = (jt.random((inside, outside)) - 0.5) / inside**0.5
        self.bias = jt.random((outside,)) - 0.5

    def execute(self, x):
        return matmul(x, self.weight) + self.bias


def relu(x):
    return jt.maximum(x, 0.0)


Relu = jt.make_module(relu)


class TwoLayers(Module):
    def __init__(self, inside):
        self.first = Dense(inside, 10)
        self.relu = Relu()
        self.second = Dense(10, 1)

    def execute(self, x):
        return self.second(self.relu(self.first(x)))


def save(path):
    data = jt.dump_trace_data()
    jt.clear_trace_data()
    with open(path, "wb") as file:
        pickle.dump(data, file)
    nodes, runs = data["node_data"], data["execute_op_info"]
    print(f"{path.name}: {len(nodes)} nodes, {len(runs)} executed groups")


def small_inference(path):
    with jt.flag_scope(trace_py_var=2):
        model = TwoLayers(1)
        x = jt.float32(rng.random((10, 1)))
        y = model(x)
        y.sync()
    save(path)


def small_training(path):
    with jt.flag_scope(trace_py_var=2):
        model = TwoLayers(1)
        opt = jt.optim.SGD(model.parameters(), 0.1)
        x = jt.float32(rng.random((10, 1)))
        y = model(x)
        opt.step(y**2)  # ten losses: the gradient is that of their sum
        jt.sync_all()
    save(path)


def resnet_inference(path, size):
    with jt.flag_scope(trace_py_var=2):
        resnet18 = resnet.Resnet18()
        resnet18.eval()
        x = jt.float32(rng.random((2, 3, size, size)))
        y = resnet18(x)
        y.sync()
    save(path)


def resnet_training(path, size):
    with jt.flag_scope(trace_py_var=2):
        resnet18 = resnet.Resnet18()
        opt = jt.optim.SGD(resnet18.parameters(), 0.1)
        x = jt.float32(rng.random((2, 3, size, size)))
        y = resnet18(x)
        opt.step(y**2)
        jt.sync_all()
    save(path)


def main(folder="traces", size=32):
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    small_inference(out / "simple_model.pkl")
    small_training(out / "simple_model_train.pkl")
    resnet_inference(out / "resnet.pkl", int(size))
    resnet_training(out / "resnet_train.pkl", int(size))


if __name__ == "__main__":
    main(*sys.argv[1:])
