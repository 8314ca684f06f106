"""Serve a saved model on Ray: two replicas, requests in batches, over HTTP and from Python.

    pip install 'glasshouse[serve]'
    python examples/serve_model.py

Without Ray, examples/cpp/http.cpp serves the same folder.
"""

import json
import tempfile
import urllib.request
from importlib.util import find_spec

import numpy as np

import glasshouse as gh
from glasshouse import nn


def save(folder: str) -> str:
    gh.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    # Of a symbolic batch: requests are answered together.
    gh.compile(model, gh.spec((gh.symbol("batch", 1, 256), 64))).save(f"{folder}/mlp")
    return f"{folder}/mlp"


def main(folder: str) -> None:
    import ray
    from ray import serve

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    serve.start(http_options={"host": "127.0.0.1", "port": 8000})
    handle = serve.run(gh.serve.deployment(save(folder), num_replicas=2))

    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    answers = [handle.run.remote(x * i) for i in range(32)]
    print("32 answers of", answers[0].result().shape, answers[31].result().shape)

    tensor = {"name": "x", "shape": [1, 64], "datatype": "FP32", "data": x.ravel().tolist()}
    request = urllib.request.Request(
        "http://127.0.0.1:8000/v2/models/mlp/infer", json.dumps({"inputs": [tensor]}).encode()
    )
    with urllib.request.urlopen(request) as answer:
        print("over HTTP:", json.load(answer)["outputs"][0]["data"][:3])
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    if find_spec("ray") is None:
        print("this needs Ray: pip install 'glasshouse[serve]'")
    else:
        with tempfile.TemporaryDirectory() as made:
            main(made)
