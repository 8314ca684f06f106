"""Runs a coroutine in an event loop of its own, whatever this thread's loop does."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_a_loop(main: Coroutine[object, object, T]) -> T:
    """Not `asyncio.run` here: Playwright's loop runs in the thread of browser tests to its end."""
    with ThreadPoolExecutor(1) as other:
        return other.submit(asyncio.run, main).result()
