"""A replica without its cluster: HTTP says what is wrong, and health is a run of the model."""

import asyncio
import json

import numpy as np
import pytest

import glasshouse as gh
from event_loops import in_a_loop
from glasshouse import nn

pytest.importorskip("ray.serve")
pytestmark = [
    pytest.mark.slow,  # importing Ray Serve
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    gh.manual_seed(0)
    made = gh.compile(nn.Linear(4, 3), gh.spec((gh.symbol("batch", 1, 8), 4)))
    made.folder = tmp_path_factory.mktemp("saved")
    made.save(made.folder)
    return made


@pytest.fixture
def replica(module):
    from glasshouse.serve.replica import Replica

    made = Replica(str(module.folder), "linear", 1)
    made.reconfigure({"max_batch_size": 8, "batch_wait_timeout_s": 0.05})
    return made


def asked(replica, method, path, body=b""):
    """Status and JSON of an answer over HTTP, behind a prefix as Ray gives one."""
    from starlette.requests import Request

    async def receive():
        return {"type": "http.request", "body": body}

    scope = {
        "type": "http", "method": method, "path": f"/here{path}", "root_path": "/here",
        "headers": [], "query_string": b"", "server": ("127.0.0.1", 80), "scheme": "http",
    }  # fmt: skip
    answer = in_a_loop(replica(Request(scope, receive)))
    return answer.status_code, json.loads(answer.body)


def test_http(replica, module):
    assert asked(replica, "GET", "/v2/health/ready")[0] == 200
    status, about = asked(replica, "GET", "/v2/models/linear")
    assert (status, about["inputs"][0]["shape"]) == (200, [-1, 4])
    tensor = {"name": module.input_names[0], "shape": [1, 4], "datatype": "FP32", "data": [1] * 4}
    body = json.dumps({"id": "a", "inputs": [tensor]}).encode()
    status, answer = asked(replica, "POST", "/v2/models/linear/infer", body)
    assert (status, answer["id"]) == (200, "a")
    wanted = module(np.ones((1, 4), np.float32)).ravel()
    np.testing.assert_allclose(answer["outputs"][0]["data"], wanted, rtol=1e-6)
    for wrong in (b"", b"{}", body.replace(b"4]", b"5]"), body.replace(b'"x"', b'"y"')):
        status, said = asked(replica, "POST", "/v2/models/linear/infer", wrong)
        assert status == 400
        assert said["error"]
    assert asked(replica, "GET", "/v2/models/other")[0] == 404


def test_one_wrong_request_among_good_ones_is_told_alone(replica, module):
    """All are asked at once: good ones are one batch, and get what they would get alone."""
    good = [np.full((1, 4), i, np.float32) for i in range(5)]
    good[2][0, 1] = np.nan
    wrong = [
        np.ones((1, 5), np.float32), np.ones((9, 4), np.float32), np.ones((0, 4), np.float32),
        np.ones((1, 4), np.complex64), np.ones(4, np.float32), "text", None,
    ]  # fmt: skip
    batches = []
    answers = replica.model.answers

    def counted(requests):
        batches.append(len(requests))
        return answers(requests)

    replica.model.answers = counted

    async def ask_all():
        asked = [replica.run(x) for pair in zip(good, wrong, strict=False) for x in pair]
        asked += [replica.run(x) for x in wrong[len(good) :]] + [replica.run(), replica.run(y=1)]
        return await asyncio.gather(*asked, return_exceptions=True)

    found = in_a_loop(ask_all())
    assert batches == [len(good)]
    for x, answer in zip(good, found[: 2 * len(good) : 2], strict=True):
        np.testing.assert_allclose(answer, module(x), rtol=1e-5)
    told = [*found[1 : 2 * len(good) : 2], *found[2 * len(good) :]]
    assert len(told) == len(wrong) + 2
    assert all(isinstance(t, gh.errors.GlasshouseError) for t in told), told


def test_health_is_a_run_of_the_model(replica):
    in_a_loop(replica.check_health())

    def broken(requests):
        return [gh.errors.ExecutionError("no memory")] * len(requests)

    replica.model.answers = broken
    with pytest.raises(gh.errors.ExecutionError, match="no memory"):
        in_a_loop(replica.check_health())
