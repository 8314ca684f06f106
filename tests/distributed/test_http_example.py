"""examples/cpp/http.cpp serves a saved model: right answers, told mistakes, many clients."""

import http.client
import socket
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import glasshouse as gh
from glasshouse import nn

SOURCE = Path(__file__).parents[2] / "examples/cpp/http.cpp"
pytestmark = pytest.mark.slow  # g++


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """The module, and the port that the program listens on."""
    folder = tmp_path_factory.mktemp("http")
    gh.manual_seed(0)
    module = gh.compile(nn.Linear(4, 3), gh.spec((gh.symbol("batch", 1, 64), 4)))
    module.save(folder)
    program = folder / "http"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", f"-I{folder}",
         SOURCE, "-o", program, f"-L{folder}", "-lmodel", f"-Wl,-rpath,{folder}"],
        check=True,
    )  # fmt: skip
    running = subprocess.Popen([program, folder, "0", "1"], stdout=subprocess.PIPE, text=True)
    try:
        address = running.stdout.readline()
        yield module, int(address.rpartition(":")[2].partition("/")[0])
    finally:
        running.kill()
        running.wait()
        running.stdout.close()


def asked(connection, method, path, body=None):
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_eight_clients_get_their_own_answers(service):
    module, port = service
    wrong = []

    def client(seed):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        dice = np.random.default_rng(seed)
        for _ in range(100):
            x = dice.standard_normal((dice.integers(1, 9), 4)).astype(np.float32)
            status, body = asked(connection, "POST", "/run", x.tobytes())
            made = np.frombuffer(body, np.float32)
            if status != 200 or not np.allclose(made, module(x).ravel(), atol=1e-5):
                wrong.append((status, body))
        connection.close()

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    assert wrong == []


def test_health_metrics_and_what_is_refused(service):
    _, port = service
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    assert asked(connection, "GET", "/health") == (200, b"ok\n")
    assert asked(connection, "POST", "/run", b"x" * 17)[0] == 400
    assert asked(connection, "POST", "/run", b"")[0] == 400
    assert asked(connection, "POST", "/run", b"x" * 16 * 65)[0] == 400  # 64 rows at most
    assert asked(connection, "GET", "/nothing")[0] == 404
    status, text = asked(connection, "GET", "/metrics")
    assert status == 200
    assert b"glasshouse_refused_total 4" in text
    connection.close()


@pytest.mark.parametrize(
    "said",
    [b"POST /run HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
     b"POST /run HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
     b"POST /run HTTP/1.1\r\nContent-Length: 4x\r\n\r\nabcd",
     b"POST /run HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     b"A" * 20_000],
)  # fmt: skip
def test_what_is_no_request_ends_the_connection_with_a_reason(service, said):
    _, port = service
    with socket.create_connection(("127.0.0.1", port), timeout=120) as client:
        client.sendall(said)
        answer = b""
        while piece := client.recv(4096):
            answer += piece
    assert answer.split(b"\r\n")[0].split()[1] in (b"400", b"413")
