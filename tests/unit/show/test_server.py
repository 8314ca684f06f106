"""Each hole that servers of this kind have had: tried, and found closed."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from glasshouse.errors import GlasshouseError
from glasshouse.record import Recording
from glasshouse.show.server import Server

Make = Callable[..., Recording]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(max_upload=1 << 20) as running:
        yield running


class Answer:
    def __init__(self, raw: http.client.HTTPResponse) -> None:
        self.status = raw.status
        self.headers = raw.headers
        self.body = raw.read()


def ask(
    server: Server,
    path: str,
    method: str = "GET",
    body: bytes | None = None,
    **headers: str | None,
) -> Answer:
    """One request as our own page sends it, but for `headers`; None leaves one out."""
    sent: dict[str, str | None] = {
        "Host": f"127.0.0.1:{server.port}",
        "X-Glasshouse-Token": server.token,
        **{k.replace("_", "-"): v for k, v in headers.items()},
    }
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                link.putheader(name, value)
        if body is not None and "Content-Length" not in sent:
            link.putheader("Content-Length", str(len(body)))
        link.endheaders(body)
        return Answer(link.getresponse())
    finally:
        link.close()


# ------------------------------------------------------------------------------------------ use
def test_page_and_recording(server: Server, recording: Make) -> None:
    shown = server.add(recording(), options={"theme": "dark"})
    url = urlsplit(server.url(shown.id))
    assert url.hostname == "127.0.0.1"
    page = ask(server, f"{url.path}?{url.query}", X_Glasshouse_Token=None)
    assert page.status == 200
    assert b"tiny" in page.body
    assert b'"theme":"dark"' in page.body
    data = ask(server, f"/api/recording/{shown.id}")
    assert data.status == 200
    assert Recording.open(data.body).graphs[0].stage(0).nodes.rows == 2


def test_upload_is_converted(server: Server) -> None:
    text = json.dumps([{"id": "g", "nodes": [{"id": "a", "label": "add", "namespace": ""}]}])
    made = ask(server, "/api/open?name=model.json", "POST", text.encode())
    assert made.status == 200
    answer = json.loads(made.body)
    data = ask(server, f"/api/recording/{answer['id']}")
    assert Recording.open(data.body).graphs[0].stage(0).nodes.pylist("op") == ["add"]
    assert answer["name"] == "model.json"


def test_an_upload_that_is_no_model_says_why(server: Server) -> None:
    for body in (b"", b"\x00\x01\x02 nonsense", b'{"hello": "world"}'):
        refused = ask(server, "/api/open?name=x.bin", "POST", body)
        assert refused.status == 422
        assert b"x.bin" in refused.body
        assert b"Traceback" not in refused.body
    assert server.all() == []


def test_several_requests_at_once(server: Server, recording: Make) -> None:
    shown = server.add(recording())
    statuses: list[int] = []
    threads = [
        threading.Thread(
            target=lambda: statuses.append(ask(server, f"/api/recording/{shown.id}").status)
        )
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [200] * 8


# ---------------------------------------------------------------------------------------- holes
def test_listens_on_loopback_only(server: Server) -> None:
    assert server._http.socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("token", [None, "", "wrong", "é"])
def test_nothing_without_the_token(server: Server, recording: Make, token: str | None) -> None:
    shown = server.add(recording())
    for path in (f"/api/recording/{shown.id}", "/api/open?name=x.json"):
        method = "POST" if "open" in path else "GET"
        sent = None if token is None else token.encode().decode("latin-1")
        refused = ask(server, path, method, b"{}" if method == "POST" else None,
                      X_Glasshouse_Token=sent)  # fmt: skip
        assert refused.status == 403
        assert b"tiny" not in refused.body
    assert ask(server, "/").status == 403
    assert ask(server, "/?token=wrong").status == 403
    # The token of the link is not enough for data: a page of another site can make such links.
    assert ask(
        server, f"/api/recording/{shown.id}?token={server.token}", X_Glasshouse_Token=None
    ).status == 403  # fmt: skip


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example:{port}",
             "127.0.0.1:1", "169.254.1.1:{port}", "", "[::1", "localhost:{port}@evil.example"],
)  # fmt: skip
def test_foreign_host_names_are_refused(server: Server, recording: Make, host: str) -> None:
    """A name of another site that resolves to 127.0.0.1 must not reach what is here."""
    shown = server.add(recording())
    refused = ask(server, f"/api/recording/{shown.id}", Host=host.format(port=server.port))
    assert refused.status == 421


def test_own_names_are_admitted(server: Server, recording: Make) -> None:
    shown = server.add(recording())
    for host in ("127.0.0.1", "localhost", "[::1]"):
        got = ask(server, f"/api/recording/{shown.id}", Host=f"{host}:{server.port}")
        assert got.status == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "file://"]
)
def test_pages_of_other_origins_are_refused(server: Server, recording: Make, origin: str) -> None:
    shown = server.add(recording())
    assert ask(server, f"/api/recording/{shown.id}", Origin=origin).status == 403
    assert ask(server, "/api/open?name=x.json", "POST", b"[]", Origin=origin).status == 403


def test_requests_that_a_foreign_page_makes_are_refused(server: Server, recording: Make) -> None:
    shown = server.add(recording())
    path = f"/api/recording/{shown.id}"
    for site in ("cross-site", "same-site"):
        assert ask(server, path, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors").status == 403
    assert ask(server, path, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status == 200
    # A link followed from elsewhere works: whoever follows it has the token.
    page = urlsplit(server.url(shown.id))
    followed = ask(server, f"/?{page.query}", Sec_Fetch_Site="cross-site",
                   Sec_Fetch_Mode="navigate", X_Glasshouse_Token=None)  # fmt: skip
    assert followed.status == 200


def test_no_answer_allows_other_origins_to_read_it(server: Server, recording: Make) -> None:
    shown = server.add(recording())
    for path in (f"/api/recording/{shown.id}", f"/?token={server.token}", "/nothing"):
        names = {k.lower() for k in ask(server, path).headers}
        assert not {n for n in names if n.startswith("access-control-")}


@pytest.mark.parametrize(
    "path",
    ["/api/v1/read_text_file?path=/etc/passwd", "/etc/passwd", "/../../../../etc/passwd",
     "/%2e%2e/%2e%2e/etc/passwd", "/api/recording/../../etc/passwd", "/api/recording//etc/passwd",
     "/static/viewer.html", "/api/open?path=/etc/passwd", "/.git/config", "//etc/passwd",
     "/api/recording/%00"],
)  # fmt: skip
def test_no_request_reads_a_path(server: Server, recording: Make, path: str) -> None:
    server.add(recording())
    refused = ask(server, path)
    assert refused.status == 404
    assert b"root:" not in refused.body


def test_no_request_deletes_or_changes(server: Server, recording: Make, tmp_path: Path) -> None:
    shown = server.add(recording())
    kept = tmp_path / "kept"
    kept.mkdir()
    for method in ("DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT"):
        assert ask(server, f"/api/recording/{shown.id}", method).status == 501
    for path in (f"/api/delete?path={kept}", f"/api/v1/clean?dir={kept}"):
        assert ask(server, path).status == 404
        assert ask(server, path, "POST", b"").status == 404
    assert kept.is_dir()
    assert ask(server, f"/api/recording/{shown.id}").status == 200


def test_names_of_uploads_are_never_paths(server: Server) -> None:
    text = b'[{"id": "g", "nodes": [{"id": "a", "label": "add", "namespace": ""}]}]'
    for name in ("../../etc/passwd.json", "..%2F..%2Fx.json", "C:%5Cwindows%5Cx.json", "a%00.json"):
        made = ask(server, f"/api/open?name={name}", "POST", text)
        assert made.status == 200
        assert "/" not in json.loads(made.body)["name"]
        assert "\\" not in json.loads(made.body)["name"]


def test_uploads_are_limited_before_they_are_read(server: Server) -> None:
    too_large = ask(server, "/api/open?name=x", "POST", None, Content_Length=str(2 << 20))
    assert too_large.status == 413
    assert b"glasshouse view" in too_large.body
    for length in ("-1", "1e9", "0x10", "99999999999999999999", "١"):
        sent = length.encode().decode("latin-1")
        assert ask(server, "/api/open?name=x", "POST", None, Content_Length=sent).status in (
            411,
            413,
        )
    chunked = ask(server, "/api/open?name=x", "POST", None, Transfer_Encoding="chunked")
    assert chunked.status == 501


def test_pickles_are_not_run(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "ran"
    evil = b"\x80\x04cposix\nsystem\n(S'touch " + str(target).encode() + b"'\ntR."
    assert ask(server, "/api/open?name=x.pkl", "POST", evil).status == 422
    assert not target.exists()


def test_headers_of_pages_and_data(server: Server, recording: Make) -> None:
    shown = server.add(recording())
    page = ask(server, f"/?token={server.token}")
    data = ask(server, f"/api/recording/{shown.id}")
    missing = ask(server, "/nothing")
    for answer in (page, data, missing):
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "Python" not in (answer.headers["Server"] or "")
    assert "frame-ancestors 'self'" in page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in data.headers["Content-Security-Policy"]
    assert missing.headers["Content-Type"].startswith("text/plain")


def test_what_is_asked_for_is_not_echoed(server: Server) -> None:
    answer = ask(server, "/<script>alert(1)</script>")
    assert b"<script>" not in answer.body


def test_long_addresses_and_bad_requests(server: Server) -> None:
    assert ask(server, "/" + "a" * 5000).status == 414
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(b"NONSENSE\r\n\r\n")
        assert b"400" in raw.recv(200)
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as raw:
        raw.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nHost: evil\r\n\r\n".encode()
        )
        assert b"421" in raw.recv(200)


def test_tokens_differ_and_are_long(server: Server) -> None:
    with Server() as other:
        assert other.token != server.token
        assert len(other.token) >= 32
        token = parse_qs(urlsplit(other.url()).query)["token"][0]
        assert token == other.token


def test_a_port_in_use_is_told(server: Server) -> None:
    with pytest.raises(GlasshouseError, match=f"{server.port}"):
        Server(port=server.port)
