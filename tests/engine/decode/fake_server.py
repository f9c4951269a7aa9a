"""A small real HTTP server with the endpoints of vLLM that the backend speaks to; a test says what it answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Play = Callable[[dict[str, Any]], Sequence[int]]
"""The ids that answer a request."""


Chances = tuple[float, dict[int, float]]
"""The log-probability of a token, and of the likeliest ones."""


def logprobs_of(
    body: dict[str, Any], ids: Sequence[int], chances: Sequence[Chances]
) -> Callable[[int, int], dict[str, Any]]:
    """As vLLM tells them for a part of an answer: in its form of ids, or in that of completions."""

    def told(start: int, end: int) -> dict[str, Any]:
        part = list(zip(ids, chances, strict=True))[start:end]
        if "token_ids" in body:
            content = []
            for id_, (ln_p, top) in part:
                others = [{"token_id": other, "logprob": value, "rank": 1} for other, value in top.items()]
                rank = 1 + sum(value > ln_p for value in top.values())
                content.append({"token_id": id_, "logprob": ln_p, "rank": rank, "top_logprobs": others})
            return {"logprobs": {"content": content}}
        return {
            "logprobs": {
                "tokens": [f"token_id:{id_}" for id_, _ in part],
                "token_logprobs": [ln_p for _, (ln_p, _) in part],
                "top_logprobs": [{f"token_id:{other}": value for other, value in top.items()} for _, (_, top) in part],
            }
        }

    return told


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def do_GET(self) -> None:
        fake = self.server.fake
        documents: dict[str, Any] = {
            "/v1/models": {"data": [{"id": name, "max_model_len": fake.positions} for name in fake.models]},
            "/version": {"version": fake.version},
        }
        if self.path in documents:
            self.answer(documents[self.path])
        else:
            self.answer({"detail": "no"}, 405 if "generate" in self.path else 404)

    def do_POST(self) -> None:
        fake = self.server.fake
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            return self.answer({"tokens": fake.tokens}, 404 if fake.tokens is None else 200)
        if not body:  # asked whether the path is there, which vLLM has switched off or not
            return self.answer({"detail": "no"}, 400 if fake.takes_ids else 403)
        with fake.lock:
            fake.bodies.append((self.path, body, dict(self.headers)))
            fake.connections.add(self.client_address)
            number = len(fake.bodies)
            fake.at_once += 1
            fake.most_at_once = max(fake.most_at_once, fake.at_once)
        try:
            fake.act(self, body, number)
        except OSError:  # the client hung up
            fake.hung_up.set()
        finally:
            with fake.lock:
                fake.at_once -= 1

    def answer(self, document: Any, status: int = 200, **headers: str) -> None:
        data = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def written(
        self, body: dict[str, Any], ids: Sequence[int], finish: str = "stop", chances: Sequence[Chances] = ()
    ) -> None:
        """These ids, at once or as events, with what the server thought of each."""
        told = logprobs_of(body, ids, chances) if chances else (lambda start, end: {})
        prompt = {"prompt_token_ids": body.get("prompt") or body["token_ids"]}
        if not body["stream"]:
            choice = {"token_ids": list(ids), "finish_reason": finish, **prompt, **told(0, len(ids))}
            self.answer({"choices": [choice]})
            return
        self.begin_events()
        for at, id_ in enumerate(ids):
            self.event({"choices": [{"token_ids": [id_], "finish_reason": None, **prompt, **told(at, at + 1)}]})
        self.event({"choices": [{"token_ids": [], "finish_reason": finish}]})
        self.chunk(b"data: [DONE]\n\n")
        self.chunk(b"")

    def begin_events(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def event(self, document: Any) -> None:
        self.chunk(b"data: " + json.dumps(document).encode() + b"\n\n")

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def break_off(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


Act = Callable[[Handler, dict[str, Any], int], None]
"""Answers a request; its number counts from 1."""


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    fake: FakeServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is no error."""


@dataclass
class FakeServer:
    act: Act
    takes_ids: bool = False
    models: tuple[str, ...] = ("small",)
    positions: int = 4096
    version: str = "0.32.0"
    url: str = ""
    tokens: list[int] | None = None  # of any text
    bodies: list[tuple[str, dict[str, Any], dict[str, str]]] = field(default_factory=list)
    connections: set[tuple[str, int]] = field(default_factory=set)  # that asked for tokens
    lock: threading.Lock = field(default_factory=threading.Lock)
    at_once: int = 0
    most_at_once: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)


def playing(play: Play) -> Act:
    return lambda handler, body, number: handler.written(body, play(body))


@contextmanager
def serving(act: Act, **more: Any) -> Iterator[FakeServer]:
    fake = FakeServer(act, **more)
    listener = Listener(("127.0.0.1", 0), Handler)
    listener.fake = fake
    fake.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
