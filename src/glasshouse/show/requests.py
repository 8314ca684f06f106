"""How one request is answered: checked before anything is looked at, and always answered.

Every request must carry the token (in the link for pages, in a header for the rest), must name this
server in its Host header (a page of another site that points its own name at 127.0.0.1 does not),
and must not come from a page of another origin.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from glasshouse.errors import FormatError, GlasshouseError
from glasshouse.record.reader import Recording
from glasshouse.show.patience import TimedReader, TooSlow

if TYPE_CHECKING:
    from glasshouse.show.server import Server

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


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, message: str) -> None:
        self.status = status
        super().__init__(message)


class Handler(BaseHTTPRequestHandler):
    """One connection to a server."""

    server_version = "glasshouse"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def __init__(self, owner: Server, *connection: Any) -> None:
        self.owner = owner
        super().__init__(*connection)  # which answers

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.reader = TimedReader(self.connection, self.owner.patience, self.owner.clock)
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

    def _serve(self, work: Callable[[SplitResult], None]) -> None:
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
            raise _Refused(HTTPStatus.REQUEST_URI_TOO_LONG, "The address is too long or not one.")
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.owner.admits_host(hosts[0]):
            self.close_connection = True
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "This server has another name.")
        if not self.owner.admits_origin(self.headers.get("Origin", "")):
            self.close_connection = True
            raise _Refused(HTTPStatus.FORBIDDEN, "Pages of other origins may not ask.")
        site, mode = (self.headers.get(f"Sec-Fetch-{k}", "none") for k in ("Site", "Mode"))
        # A link in a chat may be followed; nothing else comes from another site.
        if site not in ("none", "same-origin") and mode != "navigate":
            self.close_connection = True
            raise _Refused(HTTPStatus.FORBIDDEN, "Pages of other sites may not ask.")

    def _check_token(self, token: str) -> None:
        if not self.owner.admits_token(token):
            self.close_connection = True
            raise _Refused(
                HTTPStatus.FORBIDDEN,
                "The link lacks its token. Use the whole link that the program printed.",
            )

    # ------------------------------------------------------------------------------- work
    def _get(self, url: SplitResult) -> None:
        if url.path == "/":
            asked = parse_qs(url.query)
            self._check_token(asked.get("token", [""])[0])
            page = self.owner.page(asked.get("open", [""])[0]).encode()
            # The page carries its own, stricter policy; both hold.
            csp = "frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
            self._send(HTTPStatus.OK, page, "text/html; charset=utf-8", csp)
            return
        self._check_token(self.headers.get("X-Glasshouse-Token", ""))
        prefix = "/api/recording/"
        shown = self.owner.find(url.path[len(prefix) :]) if url.path.startswith(prefix) else None
        if shown is None:
            raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing here.")
        self._send(HTTPStatus.OK, shown.data(), "application/octet-stream")

    def _post(self, url: SplitResult) -> None:
        self._check_token(self.headers.get("X-Glasshouse-Token", ""))
        if url.path != "/api/open":
            self.close_connection = True
            raise _Refused(HTTPStatus.NOT_FOUND, "There is nothing here.")
        if not self.owner.uploads.acquire(blocking=False):
            self.close_connection = True
            raise _Refused(
                HTTPStatus.SERVICE_UNAVAILABLE, "Other files are being read. Try again then."
            )
        try:
            self._open(url, self._body())
        finally:
            self.owner.uploads.release()

    def _open(self, url: SplitResult, data: bytes) -> None:
        # Only the last part of the name, and only to know the format by its extension.
        name = PurePath(parse_qs(url.query).get("name", ["file"])[0].replace("\\", "/")).name
        shown = self.owner.add(_upload(data, name), name, packed=True)
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
        if length > self.owner.max_upload:
            self.close_connection = True
            limit = f"{self.owner.max_upload / 1e6:.0f} MB"
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
        self.connection.settimeout(self.owner.patience.for_bytes(len(data)))
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


def _upload(data: bytes, name: str) -> Recording:
    from glasshouse import formats

    if not data:
        raise FormatError(f"{name}: the file is empty")
    return formats.read(data, name)
