"""How pages are served here: on loopback, with a secret in the link, no file by path.

Every request must carry the token (in the link for pages, in a header for the rest), must name this
server in its Host header (a page of another site that points its own name at 127.0.0.1 does not),
and must not come from a page of another origin. Files are those that somebody handed over: objects
from Python, paths from the command line, bytes that were uploaded. No request names a path.
"""

from __future__ import annotations

import hmac
import io
import ipaddress
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import PurePath
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from glasshouse.errors import FormatError, GlasshouseError
from glasshouse.record.boundary import boundary
from glasshouse.record.reader import Recording
from glasshouse.record.strings import whole
from glasshouse.show.page import with_options
from glasshouse.show.patience import CappedServer, Patience, TimedReader, TooSlow
from glasshouse.show.subject import recording_of

MAX_UPLOAD = 1 << 30
"""Bytes of an uploaded file; a gigabyte holds every model graph without its weights."""

MAX_TARGET = 2048

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
# Of what is no page: it may do nothing at all.
CSP_DATA = "default-src 'none'; frame-ancestors 'none'"


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
            self._http = CappedServer((host, port), _handler_of(self), family, self.patience, _BUSY)
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


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


_BUSY_TEXT = "This server has as many connections as it takes. Try again in a moment."
_BUSY = (
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    "Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n"
    f"Content-Length: {len(_BUSY_TEXT) + 1}\r\n\r\n{_BUSY_TEXT}\n"
).encode()


def _handler_of(owner: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        server_version = "glasshouse"
        sys_version = ""
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.rfile.close()
            self.reader = TimedReader(self.connection, owner.patience, owner.clock)
            self.rfile = io.BufferedReader(self.reader)

        def handle_one_request(self) -> None:
            self.reader.expect_request()
            self.command, self.request_version, self.requestline = "", "HTTP/1.1", ""
            try:
                super().handle_one_request()
            except TooSlow:
                self.close_connection = True
                self._refuse(HTTPStatus.REQUEST_TIMEOUT, "The request took too long to arrive.")

        def log_message(self, format: str, *args: Any) -> None:
            """Silent: a link with its token has no place in a log."""

        # ------------------------------------------------------------------------------- verbs
        def do_GET(self) -> None:
            self._serve(self._get)

        def do_HEAD(self) -> None:
            self._serve(self._get)

        def do_POST(self) -> None:
            self._serve(self._post)

        def _serve(self, work: Any) -> None:
            """Do the work of a request; whatever happens in it, there is an answer."""
            try:
                self._check()
                try:
                    url = urlsplit(self.path)
                except ValueError:
                    raise _Refused(HTTPStatus.BAD_REQUEST, "The address is not one.") from None
                work(url)
            except _Refused as refused:
                self._refuse(refused.status, str(refused))
            except (ConnectionError, TimeoutError):
                self.close_connection = True
            except TooSlow:
                raise
            except GlasshouseError as error:
                said = " ".join(filter(None, (error.message, error.hint)))
                self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, said)
            except Exception as error:
                self.close_connection = True
                said = f"This could not be answered ({type(error).__name__})."
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, said)

        def _refuse(self, status: HTTPStatus, text: str) -> None:
            try:
                data = f"{text}\n".encode("utf-8", "replace")
                self._send(status, data, "text/plain; charset=utf-8")
            except OSError:
                self.close_connection = True

        def _check(self) -> None:
            """What every request must satisfy before anything is looked at."""
            if len(self.path) > MAX_TARGET or not self.path.startswith("/"):
                raise _Refused(
                    HTTPStatus.REQUEST_URI_TOO_LONG, "The address is too long or not one."
                )
            hosts = self.headers.get_all("Host") or []
            if len(hosts) != 1 or not owner.admits_host(hosts[0]):
                self.close_connection = True
                raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "This server has another name.")
            if not owner.admits_origin(self.headers.get("Origin", "")):
                self.close_connection = True
                raise _Refused(HTTPStatus.FORBIDDEN, "Pages of other origins may not ask.")
            site, mode = (self.headers.get(f"Sec-Fetch-{k}", "none") for k in ("Site", "Mode"))
            # A link in a chat may be followed; nothing else comes from another site.
            if site not in ("none", "same-origin") and mode != "navigate":
                self.close_connection = True
                raise _Refused(HTTPStatus.FORBIDDEN, "Pages of other sites may not ask.")

        def _check_token(self, token: str) -> None:
            if not owner.admits_token(token):
                self.close_connection = True
                raise _Refused(
                    HTTPStatus.FORBIDDEN,
                    "The link lacks its token. Use the whole link that the program printed.",
                )

        # ------------------------------------------------------------------------------- work
        def _get(self, url: Any) -> None:
            if url.path == "/":
                asked = parse_qs(url.query)
                self._check_token(asked.get("token", [""])[0])
                page = owner.page(asked.get("open", [""])[0]).encode()
                # The page carries its own, stricter policy; both hold.
                csp = "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
                self._send(HTTPStatus.OK, page, "text/html; charset=utf-8", csp)
                return
            self._check_token(self.headers.get("X-Glasshouse-Token", ""))
            prefix = "/api/recording/"
            shown = owner.find(url.path[len(prefix) :]) if url.path.startswith(prefix) else None
            if shown is None:
                raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing here.")
            self._send(HTTPStatus.OK, shown.data(), "application/octet-stream")

        def _post(self, url: Any) -> None:
            self._check_token(self.headers.get("X-Glasshouse-Token", ""))
            if url.path != "/api/open":
                self.close_connection = True
                raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing here.")
            if not owner.uploads.acquire(blocking=False):
                self.close_connection = True
                raise _Refused(
                    HTTPStatus.SERVICE_UNAVAILABLE, "Other files are being read. Try again then."
                )
            try:
                self._open(url, self._body())
            finally:
                owner.uploads.release()

        def _open(self, url: Any, data: bytes) -> None:
            # Only the last part of the name, and only to know the format by its extension.
            name = PurePath(parse_qs(url.query).get("name", ["file"])[0].replace("\\", "/")).name
            shown = owner.add(_upload(data, name), name, packed=True)
            answer = json.dumps({"id": shown.id, "name": shown.name}).encode()
            self._send(HTTPStatus.OK, answer, "application/json")

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding"):
                self.close_connection = True
                raise _Refused(HTTPStatus.NOT_IMPLEMENTED, "Send the file with its length.")
            text = self.headers.get("Content-Length", "")
            length = int(text) if text.isascii() and text.isdigit() and len(text) < 16 else -1
            if length < 0:
                self.close_connection = True
                raise _Refused(HTTPStatus.LENGTH_REQUIRED, "Send the file with its length.")
            if length > owner.max_upload:
                self.close_connection = True
                limit = f"{owner.max_upload / 1e6:.0f} MB"
                raise _Refused(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"The file is larger than {limit}; open it with: glasshouse view FILE",
                )
            self.reader.expect_body(length)
            data = self.rfile.read(length)
            if len(data) != length:
                self.close_connection = True
                raise _Refused(HTTPStatus.BAD_REQUEST, "The file was cut off on its way.")
            return data

        def _send(self, status: HTTPStatus, data: bytes, kind: str, csp: str = CSP_DATA) -> None:
            self.connection.settimeout(owner.patience.for_bytes(len(data)))
            self.send_response(status)
            for name, value in HEADERS.items():
                self.send_header(name, value)
            self.send_header("Content-Security-Policy", csp)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    return Handler


def _upload(data: bytes, name: str) -> Recording:
    from glasshouse import formats

    if not data:
        raise FormatError(f"{name}: the file is empty")
    return formats.read(data, name)
