"""Models served on a real Ray: batched, measured, and right while a replica is killed."""

import http.client
import json
import os
import re
import signal
import socket
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from distributed.patient_ray import patiently  # before Ray
from glasshouse import nn

ray = pytest.importorskip("ray")
pytest.importorskip("ray.serve")
from ray import serve  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]
REQUESTS, CLIENTS, WIDTH = int(os.environ.get("REQUESTS", "10000")), 8, 32


class Mlp(nn.Module):
    """The MLP of the benchmarks: two linear layers, a GELU between, a residual, a layer norm."""

    def __init__(self, hidden):
        super().__init__()
        self.dense1, self.dense2 = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x):
        return self.norm(self.dense2(nn.functional.gelu(self.dense1(x))) + x)


def saved(folder, hidden):
    gh.manual_seed(0)
    module = gh.compile(Mlp(hidden), gh.spec((gh.symbol("batch", 1, 256), hidden)))
    module.save(folder / f"mlp{hidden}")
    return module


@pytest.fixture(scope="module")
def services():
    patiently(lambda: ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    patiently(lambda: serve.start(http_options={"host": "127.0.0.1", "port": port}))
    yield port
    serve.shutdown()
    ray.shutdown()


class Client(threading.Thread):
    """Asks over HTTP, again where it is told of a failure, and compares every answer."""

    def __init__(self, port, inputs, wanted, numbers, name):
        super().__init__()
        self.port, self.inputs, self.wanted, self.numbers = port, inputs, wanted, numbers
        self.path = f"/v2/models/{name}/infer"
        self.right, self.wrong, self.told, self.lost = 0, 0, 0, 0

    def run(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        for number in self.numbers:
            for _ in range(50):
                try:
                    connection.request("POST", self.path, self.inputs[number])
                    answer = connection.getresponse()
                    status, body = answer.status, answer.read()
                except TimeoutError:
                    self.lost += 1
                    return
                except (OSError, http.client.HTTPException):
                    connection.close()
                    status, body = 0, b""
                if status == 200:
                    break
                self.told += 1
                time.sleep(0.05)
            else:
                self.lost += 1
                return
            (out,) = json.loads(body)["outputs"]
            if np.allclose(out["data"], self.wanted[number], atol=1e-5):
                self.right += 1
            else:
                self.wrong += 1


def replica_processes(name):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            said = path.read_bytes()
        except OSError:
            continue
        if b"ServeReplica" in said and name.encode() in said:
            found.append(int(path.parent.name))
    return found


def test_ten_thousand_requests_with_a_replica_killed(services, tmp_path):
    module = saved(tmp_path, WIDTH)
    name = f"mlp{WIDTH}"
    app = gh.serve.deployment(tmp_path / name, num_replicas=2, health_check_period_s=1)
    serve.run(app, name=name, route_prefix="/")
    x = np.random.default_rng(0).standard_normal((500, 1, WIDTH)).astype(np.float32)
    wanted = [module(row).ravel() for row in x]
    (called,) = module.input_names
    inputs = [
        json.dumps({"inputs": [{"name": called, "shape": [1, WIDTH], "datatype": "FP32",
                                "data": row.ravel().tolist()}]})
        for row in x
    ]  # fmt: skip
    share = [[n % len(x) for n in range(c, REQUESTS, CLIENTS)] for c in range(CLIENTS)]
    clients = [Client(services, inputs, wanted, numbers, name) for numbers in share]
    for client in clients:
        client.start()
    while sum(c.right for c in clients) < REQUESTS // 4 and any(c.is_alive() for c in clients):
        time.sleep(0.1)
    victims = replica_processes(name)
    assert len(victims) == 2
    os.kill(victims[0], signal.SIGKILL)
    for client in clients:
        client.join()
    counts = {k: sum(getattr(c, k) for c in clients) for k in ("right", "wrong", "told", "lost")}
    print(counts)
    assert (counts["wrong"], counts["lost"]) == (0, 0), counts
    assert counts["right"] == REQUESTS, counts
    check_metrics()
    check_refusals(services, name)
    serve.delete(name)


def check_metrics():
    """Each node has a port that Prometheus reads; numbers get there every few seconds."""
    (node,) = ray.nodes()
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    for _ in range(60):
        with urllib.request.urlopen(address, timeout=60) as page:
            text = page.read().decode()
        started = re.findall(r"glasshouse_start_seconds_sum\{.*\} (\S+)", text)
        if started and "glasshouse_requests_total" in text and "glasshouse_batch_rows" in text:
            print("from the folder to a first run, seconds:", started)
            return
        time.sleep(1)
    raise AssertionError(text)


def check_refusals(port, name):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def asked(method, path, body=None):
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    assert asked("GET", "/v2/health/ready")[0] == 200
    assert asked("GET", f"/v2/models/{name}")[1]["inputs"][0]["shape"] == [-1, WIDTH]
    assert asked("POST", f"/v2/models/{name}/infer", "{}")[0] == 400
    wrong = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    status, said = asked("POST", f"/v2/models/{name}/infer", json.dumps({"inputs": [wrong]}))
    assert status == 400
    assert f"must be float32[batch, {WIDTH}]" in said["error"]
    assert asked("GET", "/nothing")[0] == 404


def per_second(handle, x, count, at_once=128):
    """Requests per second with two batches under way: one runs, one gathers."""
    begin = time.perf_counter()
    under_way = [handle.run.remote(x) for _ in range(at_once)]
    for _ in range(count - at_once):
        under_way.pop(0).result(timeout_s=300)
        under_way.append(handle.run.remote(x))
    for response in under_way:
        response.result(timeout_s=300)
    return count / (time.perf_counter() - begin)


def test_batches_bring_three_times_the_throughput_of_single_calls(services, tmp_path):
    """Both services stand, and are asked in turns: the ratio is of one machine.

    The MLP is as wide as the layers of a language model of 7 billion weights. Its 134 million are
    read once for a call, of one row or of 64. Ray needs 1 to 1.5 ms of the replica's processor and
    as much of the client's for a request in a batch, and more for one alone. So calls that take
    less than that gain less: 1.7 to 1.9 times at a width of 1024, 3.9 to 4.2 at 2048.
    """
    saved(tmp_path, 4096)
    handles = {
        size: serve.run(
            gh.serve.deployment(
                tmp_path / "mlp4096", max_batch_size=size, max_ongoing_requests=256
            ),
            name=f"at-most-{size}", route_prefix=f"/{size}",
        )
        for size in (1, 64)
    }  # fmt: skip
    x = np.random.default_rng(0).standard_normal((1, 4096)).astype(np.float32)
    for handle in handles.values():
        per_second(handle, x, 128)
    ratios = []
    for _ in range(3):
        single, batched = (per_second(handles[size], x, 256) for size in (1, 64))
        ratios.append(batched / single)
        print(f"single {single:.0f}/s, batched {batched:.0f}/s")
    for size in handles:
        serve.delete(f"at-most-{size}")
    assert sorted(ratios)[1] >= 3, ratios


def test_a_dataset_gets_the_outputs_as_columns(services, tmp_path):
    module = saved(tmp_path, WIDTH)
    x = np.random.default_rng(0).standard_normal((100, WIDTH)).astype(np.float32)
    dataset = ray.data.from_numpy(x)
    rows = gh.serve.map_batches(dataset, tmp_path / f"mlp{WIDTH}", batch_size=30).take_all()
    np.testing.assert_allclose([r["output_0"] for r in rows], module(x), atol=1e-5)
    np.testing.assert_array_equal([r["data"] for r in rows], x)


def test_why_a_replica_does_not_start_is_in_the_status(services, tmp_path):
    """The folder was whole when it was deployed, and is not where the replica looks."""
    saved(tmp_path, WIDTH)
    folder = tmp_path / f"mlp{WIDTH}"
    app = gh.serve.deployment(folder)
    library = folder / "libmodel.so"
    os.truncate(library, library.stat().st_size - 100)
    with pytest.raises(RuntimeError, match="Deploying application damaged failed"):
        serve.run(app, name="damaged", route_prefix="/damaged")
    (found,) = serve.status().applications["damaged"].deployments.values()
    assert "not the weights that were saved: another size" in found.message
    serve.delete("damaged")
