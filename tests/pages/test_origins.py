"""Framing and origins: only the app's own pages talk to its server, and no other site's page frames it."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from pages._app.origins import may_ask
from tests.pages.browser import ROOT, Server, serve_quietly

HOST = "localhost:8501"
FOREIGN = [
    "http://localhost:8502", "http://localhost", "http://127.0.0.1:8501", "https://evil.example", "null", "", "http://",
    "http://localhost:8501.evil.example", "http://evil.example/localhost:8501", "http://x@localhost:8501", "file://",
    "ftp://localhost:8501", "localhost:8501", "http://[::1", "http://localhost:8501@evil.example", "*",
]  # fmt: skip


@pytest.mark.parametrize("origin", FOREIGN)
def test_another_origin_is_refused(origin: str) -> None:
    assert not may_ask(origin, HOST, is_socket=True)
    assert not may_ask(origin, HOST, is_socket=False)


def test_the_own_and_a_named_origin_are_let_in() -> None:
    for is_socket in (True, False):
        assert may_ask("http://localhost:8501", HOST, is_socket=is_socket)
        assert may_ask("https://LOCALHOST:8501", HOST, is_socket=is_socket), "behind a proxy with TLS"
        assert may_ask("https://team.example", HOST, ["https://team.example"], is_socket=is_socket)
        assert not may_ask("http://localhost:8501", None, is_socket=is_socket)
    assert may_ask(None, HOST, is_socket=False), "a visit"
    assert not may_ask(None, HOST, is_socket=True), "no browser"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve_quietly(ROOT / "app.py") as started:
        yield started


def answer(server: Server, path: str, **headers: str) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    reply = response.status, {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    return reply


SOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "a" * 22 + "==",
}


def test_the_server_says_so_of_every_answer(server: Server) -> None:
    for path in ("/", "/compare", "/_stcore/health", "/static/none.js", "/app/static/none.js", "/_stcore/host-config"):
        _, headers = answer(server, path)
        assert "frame-ancestors 'self'" in headers["content-security-policy"], path
        assert headers["x-frame-options"] == "SAMEORIGIN"
    assert answer(server, "/_stcore/health", Origin="http://localhost:1")[0] == 403
    assert answer(server, "/_stcore/health", Origin=server.url)[0] == 200
    for path in ("/", "/app/static/3Dmol-min.js"):
        assert answer(server, path, Host="evil.example")[0] == 403


def test_a_session_is_opened_by_the_apps_own_pages_alone(server: Server) -> None:
    assert answer(server, "/_stcore/stream", **SOCKET, Origin=server.url)[0] == 101
    for origin in ({}, {"Origin": "http://localhost:8502"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert answer(server, "/_stcore/stream", **SOCKET, **origin)[0] == 403
    rebound = {"Host": "evil.example:80", "Origin": "http://evil.example:80"}
    assert answer(server, "/_stcore/stream", **SOCKET, **rebound)[0] == 403


def test_a_text_closes_the_websocket_and_leaves_no_traceback(server: Server) -> None:
    address = urlsplit(server.url)
    lines = {"Host": address.netloc, "Origin": server.url, **SOCKET}
    headers = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    text = b"\x81\x82" + bytes(4) + b"hi"  # a whole text of two bytes, masked with zeros
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        connection.sendall(f"GET /_stcore/stream HTTP/1.1\r\n{headers}\r\n".encode())
        assert b" 101 " in connection.recv(4096)
        connection.sendall(text)
        received = b""
        while part := connection.recv(1 << 16):
            received += part
            if received.endswith(b"\x88\x02\x03\xeb"):  # close, 1003
                break
        assert received.endswith(b"\x88\x02\x03\xeb")
    assert answer(server, "/_stcore/health")[0] == 200
    assert "Traceback" not in server.log()
