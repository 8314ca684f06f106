"""A replica of a served model: loads the saved folder, batches what is asked, tells how it is.

Requests are checked as they come, wait for the model together, and are run in a thread, so that the
next batch gathers while the model runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ray.serve import metrics
from starlette.requests import Request
from starlette.responses import Response

from glasshouse.errors import GlasshouseError
from glasshouse.runtime.arrays import Array
from glasshouse.runtime.load import load
from glasshouse.serve.batching import Answer, BatchedModel, raise_error
from glasshouse.serve.gather import RequestQueue
from glasshouse.serve.wire import answer_json, error_json, model_json, request_arrays

_HEALTH = ("/v2/health/live", "/v2/health/ready")


class Replica:
    """What Ray Serve makes one of in each process."""

    def __init__(self, folder: str, name: str, threads: int) -> None:
        begin = time.perf_counter()
        self.name = name
        self.model = BatchedModel(load(folder, threads=threads))
        self._thread = ThreadPoolExecutor(1, "glasshouse-model")
        self._queue = RequestQueue(self._batch)
        raise_error(*self.model.answers([self.model.smallest()]))
        self._measures = Measures()
        self._measures.start.observe(time.perf_counter() - begin)

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Ray Serve's `user_config`: requests of a batch, and how long its first one waits."""
        if self.model.batch is not None:
            self._queue.limit(config["max_batch_size"], config["batch_wait_timeout_s"])

    async def run(self, *inputs: Any, **named: Any) -> Any:
        """The model's output for one request, from a handle: an array, or a tuple of them."""
        outputs = await self._outputs(inputs, named)
        return outputs[0] if len(outputs) == 1 else outputs

    async def __call__(self, request: Request) -> Response:
        """A request over HTTP: health, the model's inputs and outputs, inference."""
        path = request.url.path.removeprefix(request.scope.get("root_path", "")).rstrip("/")
        here = f"/v2/models/{self.name}"
        if request.method == "POST" and path == f"{here}/infer":
            return await self._infer(await request.body())
        if request.method == "GET" and path in (*_HEALTH, f"{here}/ready"):
            return _json(b"{}")
        if request.method == "GET" and path in ("", "/v2", here):
            return _json(model_json(self.model, self.name))
        known = f"there are GET /v2/health/ready, GET {here}, POST {here}/infer"
        return _json(error_json(f"no {request.method} {path}; {known}"), 404)

    async def check_health(self) -> None:
        """Ray Serve's question: a call of the smallest sizes runs, behind the one under way."""
        raise_error(*await self._in_thread([self.model.smallest()]))

    async def _infer(self, body: bytes) -> Response:
        try:
            id, given = request_arrays(body)
            outputs = await self._outputs((), given)
        except GlasshouseError as error:
            return _json(error_json(str(error)), 400)
        return _json(answer_json(self.model, self.name, id, outputs))

    async def _outputs(self, given: Sequence[Any], named: dict[str, Any]) -> tuple[Array, ...]:
        try:
            return raise_error(await self._queue.ask(self.model.checked(given, named)))
        except GlasshouseError:
            self._measures.refused.inc()
            raise

    async def _batch(self, requests: list[list[Array]]) -> list[Answer]:
        begin = time.perf_counter()
        answers = await self._in_thread(requests)
        self._measures.requests.inc(len(requests))
        self._measures.rows.observe(sum(map(self.model.rows, requests)))
        self._measures.seconds.observe(time.perf_counter() - begin)
        return answers

    async def _in_thread(self, requests: list[list[Array]]) -> list[Answer]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.model.answers, requests)


class Measures:
    """What Prometheus is told on the metrics port of a node; Ray adds application and replica."""

    def __init__(self) -> None:
        self.requests = metrics.Counter(
            "glasshouse_requests_total", description="Requests that were run."
        )
        self.refused = metrics.Counter(
            "glasshouse_refused_total", description="Requests that the model cannot be run on."
        )
        self.rows = metrics.Histogram(
            "glasshouse_batch_rows", description="Rows of a batch.",
            boundaries=[2**i for i in range(12)],
        )  # fmt: skip
        self.seconds = metrics.Histogram(
            "glasshouse_batch_seconds", description="Seconds that a batch took to run.",
            boundaries=[base * 10**i for i in range(-4, 2) for base in (1, 3)],
        )  # fmt: skip
        # No gauge, though it is one number: Ray forgets a gauge that is not set again and again.
        self.start = metrics.Histogram(
            "glasshouse_start_seconds", description="Seconds from the saved folder to a first run.",
            boundaries=[0.1, 0.3, 1, 3, 10, 30],
        )  # fmt: skip


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, media_type="application/json")
