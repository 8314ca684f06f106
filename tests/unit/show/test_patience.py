"""A client that is slow, greedy or odd gets an answer, and holds nobody else up."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from glasshouse.record import Recording
from glasshouse.show import requests
from glasshouse.show.patience import Patience, TimedReader
from glasshouse.show.server import Server

MODEL = b'[{"id": "g", "nodes": [{"id": "a", "label": "add", "namespace": ""}]}]'


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> Iterator[Server]:
    with Server(max_upload=1 << 20, patience=Patience(connections=3), clock=clock) as running:
        yield running


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def request(server: Server, path: str, method: str = "GET", length: int | None = None) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{server.port}",
             f"X-Glasshouse-Token: {server.token}"]  # fmt: skip
    lines += [] if length is None else [f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


def answer(link: socket.socket) -> bytes:
    """All that comes until the server closes."""
    out = b""
    while part := link.recv(65536):
        out += part
    return out


def first_line(link: socket.socket) -> bytes:
    out = b""
    while b"\r\n" not in out:
        part = link.recv(4096)
        assert part, "closed without an answer"
        out += part
    return out.partition(b"\r\n")[0]


def test_a_connection_past_the_cap_is_told_so(server: Server) -> None:
    with ExitStack() as held:
        for _ in range(3):
            link = held.enter_context(connect(server))
            link.sendall(request(server, "/nothing"))
            assert first_line(link) == b"HTTP/1.1 404 Not Found"
        past = held.enter_context(connect(server))
        said = answer(past)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 5" in said
        assert b"as many connections as it takes" in said
        # The others are served as before.
        link.sendall(request(server, "/nothing"))
        assert b"404" in first_line(link)


def test_a_connection_that_ends_makes_room(server: Server) -> None:
    for _ in range(12):
        with connect(server) as link:
            link.sendall(
                request(server, "/nothing").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            )
            said = answer(link)
            # The thread of the connection before may still be ending.
            assert said.startswith((b"HTTP/1.1 404", b"HTTP/1.1 503"))
    with server._http._free:
        pass


def noted(monkeypatch: pytest.MonkeyPatch, name: str) -> threading.Event:
    """Set once a reader's method has run: from then on the clock counts."""
    done = threading.Event()
    original = getattr(TimedReader, name)

    def method(self: TimedReader, argument: Any) -> Any:
        result = original(self, argument)
        done.set()
        return result

    monkeypatch.setattr(TimedReader, name, method)
    return done


def drip(link: socket.socket, clock: Clock, data: bytes) -> bytes:
    """Send bytes, each long before a pause would be noticed, until there is an answer."""
    out = b""
    for i in range(len(data)):
        clock.now += 2
        with contextlib.suppress(OSError):
            link.sendall(data[i : i + 1])
    with contextlib.suppress(ConnectionResetError):  # bytes that the server no longer read
        while part := link.recv(65536):
            out += part
    return out


def test_headers_that_drip_in_have_one_deadline(
    server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = noted(monkeypatch, "readinto")
    with connect(server) as link:
        link.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        begun.wait()
        assert drip(link, clock, b"X-Header: drip, drip, drip").startswith(b"HTTP/1.1 408 ")


def test_a_body_that_drips_in_has_one_deadline(
    server: Server, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = noted(monkeypatch, "expect_body")
    with connect(server) as link:
        link.sendall(request(server, "/api/open?name=x.json", "POST", len(MODEL)))
        begun.wait()
        assert drip(link, clock, MODEL[:-1]).startswith(b"HTTP/1.1 408 ")
    assert server.all() == []


def test_a_large_body_has_more_time(server: Server) -> None:
    assert server.patience.for_bytes(1 << 30) > 1000
    with connect(server) as link:
        link.sendall(request(server, "/api/open?name=x.json", "POST", len(MODEL)) + MODEL)
        assert first_line(link) == b"HTTP/1.1 200 OK"


def test_a_connection_that_says_nothing_is_closed() -> None:
    with Server(patience=Patience(idle=0.05)) as server, connect(server) as link:
        assert answer(link) == b""


def test_a_request_that_stops_is_answered() -> None:
    with Server(patience=Patience(request=0.05)) as server, connect(server) as link:
        link.sendall(b"GET / HTT")
        assert answer(link).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_ends_early_is_no_file(server: Server) -> None:
    with connect(server) as link:
        link.sendall(request(server, "/api/open?name=x.json", "POST", 1000) + MODEL)
        link.shutdown(socket.SHUT_WR)
        assert answer(link).startswith(b"HTTP/1.1 400 ")
    assert server.all() == []


def test_uploads_at_once_are_limited(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = noted(monkeypatch, "expect_body")
    with ExitStack() as held:
        waiting = []
        for _ in range(2):
            link = held.enter_context(connect(server))
            link.sendall(request(server, "/api/open?name=x.json", "POST", len(MODEL)))
            waiting.append(link)
            begun.wait()
            begun.clear()
        third = held.enter_context(connect(server))
        third.sendall(request(server, "/api/open?name=x.json", "POST", len(MODEL)))
        assert answer(third).startswith(b"HTTP/1.1 503 ")
        for link in waiting:
            link.sendall(MODEL)
            assert first_line(link) == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("path", ["//[", "/?token=%ff&open=%00", "/api/recording/%ed%a0%80"])
def test_odd_addresses_are_answered(server: Server, path: str) -> None:
    with connect(server) as link:
        link.sendall(request(server, path))
        assert first_line(link)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 403", b"HTTP/1.1 404")


def test_a_fault_of_ours_is_answered(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(data: bytes, name: str) -> Recording:
        raise TypeError("inside")

    monkeypatch.setattr(requests, "_upload", fails)
    with connect(server) as link:
        link.sendall(request(server, "/api/open?name=x.json", "POST", len(MODEL)) + MODEL)
        said = answer(link)
    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"(TypeError)" in said
    assert b"inside" not in said


def test_lone_surrogates_of_a_file_reach_the_page(server: Server) -> None:
    text = json.dumps([{"id": "g\ud800", "nodes": [{"id": "\udfff", "label": "a\ud800"}]}])
    for name in ("x.json", "x.onnx"):
        with connect(server) as link:
            body = text.encode()
            link.sendall(request(server, f"/api/open?name={name}", "POST", len(body)) + body)
            assert first_line(link) == b"HTTP/1.1 200 OK"
    with connect(server) as link:
        link.sendall(request(server, f"/?token={server.token}"))
        assert first_line(link) == b"HTTP/1.1 200 OK"
