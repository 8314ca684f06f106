"""How long the server waits and for how many at once: a slow or greedy client cannot hold it.

A request has one deadline from its first byte to its last, however the bytes drip in; a body adds
the time that it takes at the slowest rate allowed. So does an answer. Connections past the cap are
answered at once, with 503.
"""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from socketserver import BaseRequestHandler
from typing import Any, NoReturn


@dataclass(frozen=True)
class Patience:
    """The server's limits."""

    connections: int = 64
    """At once. A browser keeps six to a server; each costs a thread."""

    uploads: int = 2
    """At once: each may hold `max_upload` bytes and what a reader makes of them."""

    idle: float = 15.0
    """Seconds in which a connection that was opened, or answered, may say nothing."""

    request: float = 30.0
    """Seconds from the first byte of a request to the end of its headers."""

    rate: float = 1e6
    """Bytes a second at least, of a body and of an answer: a gigabyte may take 17 minutes."""

    def for_bytes(self, count: int) -> float:
        """Seconds that so many bytes may take."""
        return self.request + count / self.rate


class TooSlow(Exception):
    """A request that did not arrive whole before its deadline."""


class TimedReader(io.RawIOBase):
    """The bytes that a client sends, each waited for no longer than the request's deadline."""

    def __init__(
        self, connection: socket.socket, patience: Patience, clock: Callable[[], float]
    ) -> None:
        self.connection = connection
        self.patience = patience
        self.clock = clock
        self.expect_request()

    def expect_request(self) -> None:
        """The next byte, if one comes, is the first of a request."""
        self.has_begun = False
        self.ends = self.clock() + self.patience.idle

    def expect_body(self, size: int) -> None:
        """So many bytes follow the headers."""
        self.ends = self.clock() + self.patience.for_bytes(size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left = self.ends - self.clock()
        if left <= 0:
            self._late()
        self.connection.settimeout(left)
        try:
            count = self.connection.recv_into(buffer)
        except TimeoutError:
            self._late()
        if not self.has_begun:
            self.has_begun = True
            self.ends = self.clock() + self.patience.request
        return count

    def _late(self) -> NoReturn:
        # A connection that never said anything is closed without a word.
        raise TooSlow if self.has_begun else TimeoutError


class CappedServer(ThreadingHTTPServer):
    """A server with a thread for each connection, and no more of them than the cap."""

    daemon_threads = True
    request_queue_size = 32

    def __init__(
        self,
        address: tuple[str, int],
        handler: Callable[..., BaseRequestHandler],
        family: socket.AddressFamily,
        patience: Patience,
        busy: bytes,
    ) -> None:
        self.address_family = family
        self._free = threading.BoundedSemaphore(patience.connections)
        self._busy = busy  # what a connection past the cap is told
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._refuse(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread to be had
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def _refuse(self, request: Any) -> None:
        """Say that there is no room; never wait for this client, all others would wait too."""
        try:
            request.setblocking(False)
            request.send(self._busy)
        except OSError:
            pass
        self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no news."""
