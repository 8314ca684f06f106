"""Requests that wait for a model: when it is free, it takes all that are there, up to a batch.

Ray Serve's own `serve.batch` closes a batch a fixed time after its first request, whether the model
is free or not: requests that come 3 ms apart while a call runs line up behind it as batches of one.
Here they are one batch, so that batches grow by themselves as load does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from glasshouse.errors import Unsupported

Request = TypeVar("Request")
Answer = TypeVar("Answer")


def check_limits(most: int, patience: float) -> None:
    if most < 1 or not 0 <= patience < inf:
        raise Unsupported(
            f"batches of {most} requests that wait {patience} s for each other are none",
            hint="max_batch_size is 1 or more, batch_wait_timeout_s 0 or more seconds",
        )


@dataclass
class Waiting(Generic[Request, Answer]):
    """A request, who waits for its answer, and when it came (seconds of the event loop)."""

    request: Request
    answer: asyncio.Future[Answer]
    came: float


class RequestQueue(Generic[Request, Answer]):
    """What waits for one model; all of it belongs to one event loop."""

    def __init__(self, run: Callable[[list[Request]], Awaitable[Sequence[Answer]]]) -> None:
        """`run` gives the answers of a batch, in order; the next one gathers meanwhile."""
        self.limit(1, 0.0)
        self._run = run
        self._waiting: deque[Waiting[Request, Answer]] = deque()
        self._full: asyncio.Future[None] | None = None  # there while a free model waits for more
        self._worker: asyncio.Task[None] | None = None  # there while anything waits or runs

    def limit(self, most: int, patience: float) -> None:
        """Requests of a batch; seconds for which a free model waits for more than a first one."""
        check_limits(most, patience)
        self.most, self.patience = most, patience

    async def ask(self, request: Request) -> Answer:
        """The answer to one request, which may be run with others."""
        loop = asyncio.get_running_loop()
        waiting: Waiting[Request, Answer] = Waiting(request, loop.create_future(), loop.time())
        self._waiting.append(waiting)
        if self._full is not None and len(self._waiting) >= self.most and not self._full.done():
            self._full.set_result(None)
        if self._worker is None:
            # It works for all: what is known of this request (ids in logs) must not stick to it.
            self._worker = Context().run(loop.create_task, self._work())
        return await waiting.answer

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._gathered()
                await self._answer_next()
        finally:
            self._worker = None

    async def _gathered(self) -> None:
        """A batch is full, or its first request waited long enough."""
        loop = asyncio.get_running_loop()
        left = self._waiting[0].came + self.patience - loop.time()
        if left > 0 and len(self._waiting) < self.most:
            self._full = loop.create_future()
            await asyncio.wait([self._full], timeout=left)
            self._full = None

    async def _answer_next(self) -> None:
        taken = [self._waiting.popleft() for _ in range(min(self.most, len(self._waiting)))]
        batch = [w for w in taken if not w.answer.cancelled()]  # clients that went away
        if not batch:
            return
        try:
            answers = await self._run([w.request for w in batch])
            for waiting, answer in zip(batch, answers, strict=True):
                if not waiting.answer.done():
                    waiting.answer.set_result(answer)
        except Exception as error:  # nobody may be left waiting
            for waiting in batch:
                if not waiting.answer.done():
                    waiting.answer.set_exception(error)
