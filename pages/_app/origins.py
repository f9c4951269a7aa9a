"""Who may talk to the app's server: its own pages. What another site's page or frame asks for is refused.

Streamlit lets a page of any port of this machine open a session, and has no setting for framing. So this is before
its server (``app.py``), for every request. ``server.corsAllowedOrigins`` in ``.streamlit/config.toml`` names other
origins that may connect to the app and frame it.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed  # Streamlit asks it of WebSockets alone

UNSUPPORTED_DATA, POLICY_VIOLATION = 1003, 1008


class SeldomRefused(logging.Filter):
    """For asyncio's log: that a connection was refused since no more files can be opened is said once a minute. Each
    look at the network would say it 2,000 times, and fill the disk."""

    said_s = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("socket.accept() out of system resource"):
            return True
        is_due = time.monotonic() >= self.said_s + 60.0
        if is_due:
            self.said_s = time.monotonic()
        return is_due


class OwnOrigin:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        _answer_at_once(receive)
        others = [origin.strip() for origin in st.get_option("server.corsAllowedOrigins")]

        async def send_unframed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.append("Content-Security-Policy", " ".join(["frame-ancestors 'self'", *others]))
                if not others:  # it has no list
                    headers["X-Frame-Options"] = "SAMEORIGIN"
            await send(message)

        headers = Headers(scope=scope)
        is_socket = scope["type"] == "websocket"
        if not is_host_allowed(headers.get("host")):
            why = "This name of the server is not in server.allowedHosts."
        elif not may_ask(headers.get("origin"), headers.get("host"), others, is_socket=is_socket):
            why = "Another site's page asked for this."
        else:
            await self.app(scope, _only_bytes(receive, send) if is_socket else receive, send_unframed)
            return
        if is_socket:
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        else:
            await PlainTextResponse(f"{why}\n", 403)(scope, receive, send_unframed)


def _answer_at_once(receive: Receive) -> None:
    """Streamlit opens its socket with Nagle's algorithm on: a body would wait 40 ms for the receipt of its head."""
    transport = getattr(getattr(receive, "__self__", None), "transport", None)  # uvicorn's
    if connection := transport and transport.get_extra_info("socket"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _only_bytes(receive: Receive, send: Send) -> Receive:
    """Streamlit's browser side sends bytes alone, and its server fails on a text: that closes the WebSocket here."""

    async def receive_bytes() -> Message:
        message = await receive()
        if message["type"] == "websocket.receive" and message.get("bytes") is None:
            await send({"type": "websocket.close", "code": UNSUPPORTED_DATA})
            return {"type": "websocket.disconnect", "code": UNSUPPORTED_DATA}
        return message

    return receive_bytes


def may_ask(origin: str | None, host: str | None, others: Sequence[str] = (), *, is_socket: bool) -> bool:
    """Whether this is our own page, an origin that is named, or no page at all: a browser names the origin of every
    WebSocket, so one without is no browser's; a plain request without one is a visit."""
    if origin is None:
        return not is_socket
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    is_own = parts.scheme in ("http", "https") and bool(host) and parts.netloc.lower() == str(host).lower()
    return is_own or origin in others
