"""The server on this machine: what it shows, where it listens, and whom it lets in.

It listens on loopback, with a secret in the link. Files are those that somebody handed over:
objects from Python, paths from the command line, bytes that were uploaded. No request names a path.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

from glasshouse.errors import GlasshouseError
from glasshouse.record.boundary import boundary
from glasshouse.record.reader import Recording
from glasshouse.record.strings import whole
from glasshouse.show.page import with_options
from glasshouse.show.patience import CappedServer, Patience
from glasshouse.show.requests import Handler
from glasshouse.show.subject import recording_of

MAX_UPLOAD = 1 << 30
"""Bytes of an uploaded file; a gigabyte holds every model graph without its weights."""


@dataclass
class Shown:
    """One file or object that the server has been given."""

    id: str
    name: str
    recording: Recording
    options: dict[str, Any] = field(default_factory=dict)
    _bytes: bytes | None = None

    def data(self) -> bytes:
        """The recording as bytes, packed once."""
        if self._bytes is None:
            with boundary(self.recording.where):
                self._bytes = self.recording.to_bytes(3)
        return self._bytes


class Server:
    """A running server; `add` gives it things to show, `close` ends it."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        max_upload: int = MAX_UPLOAD,
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.token = secrets.token_urlsafe(24)
        self.max_upload = max_upload
        self.patience = patience or Patience()
        self.clock = clock
        self.uploads = threading.BoundedSemaphore(self.patience.uploads)
        self._shown: dict[str, Shown] = {}
        self._lock = threading.Lock()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._http = CappedServer(
                (host, port), partial(Handler, self), family, self.patience, _BUSY
            )
        except (OSError, OverflowError) as error:  # OverflowError: a port past 65535
            reason = getattr(error, "strerror", None) or "a port is a number from 0 to 65535"
            raise GlasshouseError(
                f"cannot listen on {host}:{port} ({reason})", hint="try another --port, or 0"
            ) from None
        self.host = host
        self.port = int(self._http.server_address[1])
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.05,), name="glasshouse-server", daemon=True
        )
        self._thread.start()

    # ------------------------------------------------------------------------------------ contents
    def add(
        self,
        x: Any,
        name: str = "",
        options: Mapping[str, Any] | None = None,
        packed: bool = False,
    ) -> Shown:
        """Take something to show; the link to it is `url(shown.id)`.

        A recording is opened lazily; `packed` reads all of it, so that whoever hands it over is
        told what is wrong with it.
        """
        recording = recording_of(x)
        title = whole(name or recording.header.title or "model")
        shown = Shown(secrets.token_urlsafe(9), title, recording, dict(options or {}))
        if packed:
            shown.data()
        with self._lock:
            self._shown[shown.id] = shown
        return shown

    def find(self, id: str) -> Shown | None:
        with self._lock:
            return self._shown.get(id)

    def all(self) -> list[Shown]:
        with self._lock:
            return list(self._shown.values())

    def url(self, id: str = "") -> str:
        """The link that opens a page; whoever has it can see what this server was given."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if _is_any(self.host):
            host = "127.0.0.1"
        asked = f"&open={quote(id)}" if id else ""
        return f"http://{host}:{self.port}/?token={self.token}{asked}"

    # ---------------------------------------------------------------------------------------- life
    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def wait(self) -> None:
        """Until the server is closed."""
        while self._thread.is_alive():
            self._thread.join(0.5)

    def close(self) -> None:
        """End it; doing so twice does no harm."""
        if not self._thread.is_alive():
            return
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -------------------------------------------------------------------------------------- checks
    def admits_host(self, host: str) -> bool:
        """Whether a Host header names this server, so that no foreign name can stand for it."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname or "", parts.port
        except ValueError:
            return False
        if parts.username is not None or parts.path or parts.query or parts.fragment:
            return False
        if port not in (self.port, None) or (port is None and self.port != 80):
            return False
        if name == "localhost" or name == self.host:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        # Listening beyond loopback was asked for: then any address, but still no foreign name.
        return address.is_loopback or _is_any(self.host)

    def admits_origin(self, origin: str) -> bool:
        """Whether a page of this origin may ask: our own pages, and requests without an origin."""
        if not origin:
            return True
        scheme, _, host = origin.partition("://")
        return scheme == "http" and self.admits_host(host)

    def admits_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    # --------------------------------------------------------------------------------------- pages
    def page(self, id: str) -> str:
        """The viewer, told what there is to see."""
        shown = self.find(id)
        options: dict[str, Any] = dict(shown.options) if shown else {}
        options["server"] = {
            "files": [{"id": s.id, "name": s.name} for s in self.all()],
            "open": id if shown else "",
            "limit": self.max_upload,
        }
        return with_options(options, shown.name if shown else "")


def _is_any(host: str) -> bool:
    return host in ("0.0.0.0", "::", "")


_BUSY_TEXT = "This server has as many connections as it takes. Try again in a moment."
_BUSY = (
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
    f"Content-Length: {len(_BUSY_TEXT) + 1}\r\n\r\n{_BUSY_TEXT}\n"
).encode()
