"""Requests gather while the model is busy; nobody is left waiting, and nobody waits for nothing."""

import asyncio

import pytest

from event_loops import in_a_loop
from glasshouse.errors import Unsupported
from glasshouse.serve.gather import RequestQueue


class Model:
    """Answers with the request itself, once it is let go; keeps the batches that it was given."""

    def __init__(self):
        self.batches, self.let_go = [], asyncio.Event()

    async def __call__(self, requests):
        self.batches.append(requests)
        await self.let_go.wait()
        if "fails" in requests:
            raise ValueError("that one")
        return requests


async def started(queue, requests):
    """Tasks that wait for their answers, once the event loop did all that it can."""
    tasks = [asyncio.ensure_future(queue.ask(r)) for r in requests]
    await settled()
    return tasks


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_comes_while_the_model_runs_is_the_next_batch():
    async def main():
        model = Model()
        queue = RequestQueue(model)
        queue.limit(4, 0.0)
        tasks = await started(queue, [1])
        for request in range(2, 8):  # one by one, however long apart
            tasks += await started(queue, [request])
        model.let_go.set()
        assert await asyncio.gather(*tasks) == [1, 2, 3, 4, 5, 6, 7]
        assert model.batches == [[1], [2, 3, 4, 5], [6, 7]]
        assert await queue.ask(8) == 8  # a queue that ran empty begins again

    in_a_loop(main())


def test_a_free_model_waits_for_a_full_batch_as_long_as_it_may():
    async def main():
        model = Model()
        model.let_go.set()
        queue = RequestQueue(model)
        queue.limit(3, 3600.0)
        tasks = await started(queue, [1, 2])
        assert model.batches == []
        tasks += await started(queue, [3])
        assert await asyncio.gather(*tasks) == [1, 2, 3]
        queue.limit(3, 0.001)
        assert await queue.ask(4) == 4
        assert model.batches == [[1, 2, 3], [4]]

    in_a_loop(main())


def test_who_went_away_is_not_run_and_a_batch_that_fails_tells_all_of_it():
    async def main():
        model = Model()
        queue = RequestQueue(model)
        queue.limit(8, 0.0)
        (first,) = await started(queue, [1])
        gone, *rest = await started(queue, [2, "fails", 3])
        gone.cancel()
        await settled()
        model.let_go.set()
        assert await first == 1
        for told in await asyncio.gather(*rest, return_exceptions=True):
            assert isinstance(told, ValueError)
        assert model.batches == [[1], ["fails", 3]]
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert await queue.ask(5) == 5

    in_a_loop(main())


def test_a_batch_of_those_who_all_went_away_is_none():
    async def main():
        model = Model()
        queue = RequestQueue(model)
        first, gone = await started(queue, [1, 2])
        gone.cancel()
        first.cancel()
        await settled()
        model.let_go.set()
        assert await queue.ask(3) == 3
        assert model.batches == [[1], [3]]

    in_a_loop(main())


@pytest.mark.parametrize(("most", "patience"), [(0, 0.0), (-1, 0.0), (8, -0.1), (8, float("nan"))])
def test_a_batch_of_nobody_is_refused(most, patience):
    with pytest.raises(Unsupported, match="max_batch_size is 1 or more"):
        RequestQueue(Model()).limit(most, patience)
