"""A server that writes: its address, what it says of its models, and requests to it over HTTP.

The address comes from the command line or from ``DRIFTSCOPE_SERVER``, a key from ``DRIFTSCOPE_SERVER_KEY`` alone. The
key is in no error, no log and no run, and goes to no address that a server redirects to: redirects are errors. What a
server answers is untrusted: bounded in size, and shown in one escaped line. Whether the model behind a name is the one
that is registered here, nobody can know; the server's own name for it is noted.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from engine.errors import ServerError, shown
from engine.user_files import parsed_json

ADDRESS, KEY = "DRIFTSCOPE_SERVER", "DRIFTSCOPE_SERVER_KEY"
CONNECT_S, READ_S = 10.0, 30.0
"""Longest wait for a connection, and for the next bytes of a small document. What a model writes may take any time, as
a busy server lets requests queue: whoever waits for it may close the connection."""
KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 30, "TCP_KEEPCNT": 4}
"""Tells of a machine that is gone, after three minutes. Where a system has these options; its own are hours."""
TRIES, FIRST_TRIES, FIRST_WAIT_S, MOST_WAIT_S = 8, 3, 0.5, 30.0
"""Tries of a request that meets no server or a busy one (429, 503), with waits that double: a minute in all. Fewer of
the first request, which may go to a wrong address."""
BUSY = (429, 503)
MOST_BYTES, MOST_SAID, MOST_NAME = 2**20, 300, 60
"""Of an answer that holds no tokens; and characters of a server's own words in an error, and of a name there."""
TOKENS_PATH, COMPLETIONS_PATH = "/inference/v1/generate", "/v1/completions"
PROBE = "CC(=O)N 0.1234,-1.5,120.25>=[N+]<"
"""A text that tokenizers cut each in its own way. Without tags, whose names a registry may change."""
_FIX_ADDRESS = f"Give --url http://HOST:PORT, or set {ADDRESS}"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """``key`` is sent to this address alone."""

    host: str
    port: int
    path: str = ""  # before each endpoint's own
    is_secure: bool = False
    key: str = field(default="", repr=False)

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.is_secure else ''}://{host}:{self.port}{self.path}"

    def said(self, what: object, most: int = MOST_SAID) -> str:
        """A server's own words in one escaped line of no more than ``most`` characters, without the key that they may
        repeat."""
        text = str(what)
        if self.key:
            text = text.replace(self.key, "(key)")
        return shown(" ".join(text.split()), most)


def is_server_set() -> bool:
    """Whether the environment names a server, so that a page may offer it."""
    return bool(os.environ.get(ADDRESS))


def server_address(url: str | None = None) -> ServerAddress:
    """Of a URL, or of the one that the environment names. No error says what was in a URL that is refused: it may
    hold a password."""
    given = url or os.environ.get(ADDRESS, "")
    if not given:
        raise ServerError("the backend server has no address", _FIX_ADDRESS)
    try:
        parts = urlsplit(given.strip())
        port = parts.port
    except ValueError as error:
        raise ServerError("the server's address is no URL", _FIX_ADDRESS) from error
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        problem = "the server's address holds a user, a password, a query or a fragment"
        raise ServerError(problem, f"Leave them out; a key belongs into {KEY}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerError("the server's address is none of http or https", _FIX_ADDRESS)
    is_secure = parts.scheme == "https"
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ServerError(f"{KEY} holds characters that no key has", "Set it again")
    path = parts.path.rstrip("/").removesuffix("/v1")
    return ServerAddress(parts.hostname, port or (443 if is_secure else 80), path, is_secure, key)


class BusyError(Exception):
    """The request may be sent again, at the earliest after ``wait_s``."""

    def __init__(self, what: str, wait_s: float = 0.0) -> None:
        super().__init__(what)
        self.wait_s = wait_s


class RefusedError(ServerError):
    """A request that the server does not take as it is (400, 422); it may take others."""


class Connection:
    """To one server, kept open from one whole answer to the next request. One thread asks; any other may close it,
    which ends what is being read, and the server then gives the request up."""

    def __init__(self, address: ServerAddress, read_s: float | None = None) -> None:
        """``read_s``: longest wait for the next bytes; None: any."""
        self.address, self._read_s = address, read_s
        self.is_closed = threading.Event()
        self._http: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None  # also of an answer behind which the server closes

    def close(self) -> None:
        self.is_closed.set()
        if self._socket is not None:
            with suppress(OSError):  # it may be closed meanwhile
                self._socket.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """In the thread that asks; the next request connects again."""
        if self._http is not None:
            self._http.close()
        self._http = None

    def documents(self, path: str, body: bytes | None, most_bytes: int) -> Iterator[dict[str, Any]]:
        """The JSON of an answer, or of each event of a stream. ``BusyError`` where asking again may help, also in the
        middle of an answer; ``ServerError`` where it does not."""
        try:
            response = self._response(path, body)
            if response.getheader("Content-Type", "").startswith("text/event-stream"):
                yield from self._events(response, most_bytes)
            else:
                yield self._document(response, most_bytes)
        except (OSError, http.client.HTTPException) as error:
            is_silent = isinstance(error, TimeoutError) and error.errno is None and self._http is not None
            self.hang_up()
            if is_silent:  # it may be at work on the answer, which asking again would begin anew
                raise ServerError(f"the server at {self.address.url} said nothing for {self._read_s:g} s") from error
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise BusyError(f"the connection to {self.address.url} failed ({self.address.said(reason)})") from error
        except (BusyError, ServerError, GeneratorExit):
            self.hang_up()  # what is left of the answer would be taken for the next one's
            raise

    def status(self, path: str, body: bytes) -> int:
        """What the server says to a request, whatever its answer holds."""
        try:
            self._send("POST", path, body)
            assert self._http is not None
            return self._http.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            self.hang_up()

    def _response(self, path: str, body: bytes | None) -> http.client.HTTPResponse:
        is_old = self._http is not None and self._http.sock is not None
        try:
            self._send("GET" if body is None else "POST", path, body)
            assert self._http is not None
            response = self._http.getresponse()
        except (ConnectionError, http.client.RemoteDisconnected):
            if not is_old or self.is_closed.is_set():
                raise
            self.hang_up()  # a server closes a connection that was idle
            return self._response(path, body)
        if response.status != 200:
            raise self._refusal(response)
        return response

    def _send(self, method: str, path: str, body: bytes | None) -> None:
        if self._http is None or self._http.sock is None:  # the server closed it behind its last answer
            self._http = self._connected()
            self._socket = self._http.sock
        if self.is_closed.is_set():  # meanwhile: whoever closed saw no connection
            raise ConnectionAbortedError("closed")
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self.address.key:
            headers["Authorization"] = f"Bearer {self.address.key}"
        self._http.request(method, self.address.path + path, body, headers)

    def _connected(self) -> http.client.HTTPConnection:
        address = self.address
        connection: http.client.HTTPConnection
        if address.is_secure:
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(address.host, address.port, timeout=CONNECT_S, context=context)
        else:
            connection = http.client.HTTPConnection(address.host, address.port, timeout=CONNECT_S)
        connection.connect()
        connection.sock.settimeout(self._read_s)
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in KEEP_ALIVE.items():
            if hasattr(socket, name):
                connection.sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return connection

    def _refusal(self, response: http.client.HTTPResponse) -> Exception:
        status, where = response.status, self.address.url
        said = self._words(response.read(MOST_BYTES))
        if status in BUSY:
            wait = response.getheader("Retry-After", "")
            wait_s = min(float(wait), MOST_WAIT_S) if wait.isdecimal() else 0.0
            return BusyError(f"the server at {where} is busy ({status}: {said})", wait_s)
        if 300 <= status < 400:
            return ServerError(f"the server at {where} redirects to another address", "Give that one, if you trust it")
        if status in (401, 403):
            return ServerError(f"the server at {where} refuses the key ({status}: {said})", f"Set {KEY}")
        kind = RefusedError if status in (400, 422) else ServerError
        return kind(f"the server at {where} refuses a request ({status}: {said})")

    def _words(self, body: bytes) -> str:
        """What a server says of an error."""
        text = body.decode("utf-8", "replace")
        with suppress(ValueError, LookupError, TypeError, AttributeError):
            said = parsed_json(body)
            error = said.get("error", said)
            text = str(error.get("message") or error.get("detail") or text)
        return self.address.said(text)

    def _document(self, response: http.client.HTTPResponse, most_bytes: int) -> dict[str, Any]:
        body = response.read(most_bytes + 1)
        if len(body) > most_bytes:
            raise self._too_long(most_bytes)
        if response.length:
            raise BusyError(f"the answer of {self.address.url} broke off")
        return self._parsed(body)

    def _events(self, response: http.client.HTTPResponse, most_bytes: int) -> Iterator[dict[str, Any]]:
        left = most_bytes
        while line := response.readline(left + 1):
            left -= len(line)
            if left < 0:
                raise self._too_long(most_bytes)
            name, _, value = line.partition(b":")
            if name != b"data":
                continue
            if value.strip() == b"[DONE]":
                response.read(MOST_BYTES)  # to its end, so that the connection can be used again
                return
            yield self._parsed(value)
        raise BusyError(f"the answer of {self.address.url} broke off")

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            document = parsed_json(text)
        except ValueError as error:
            problem = f"answers with what is no JSON: {self.address.said(error)}"
            raise ServerError(f"the server at {self.address.url} {problem}") from error
        if not isinstance(document, dict):
            raise ServerError(f"the server at {self.address.url} answers with no JSON object")
        if "error" in document and not document.get("choices"):
            raise ServerError(f"the server at {self.address.url} failed ({self._words(text)})")
        return document

    def _too_long(self, most_bytes: int) -> ServerError:
        return ServerError(f"the server at {self.address.url} answers with more than {most_bytes:,} bytes")


def wait_behind(number: int, error: BusyError, tries: int = TRIES) -> float:
    """Seconds behind the try of this number, from 1, that failed so; the error is raised behind the last one."""
    if number >= tries:
        raise ServerError(f"{error}, {tries} times", "Start the server, or give the right --url") from error
    return max(error.wait_s, min(MOST_WAIT_S, FIRST_WAIT_S * 2.0 ** (number - 1)))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What a server says of the model that is asked for."""

    address: ServerAddress
    name: str  # as requests have to call it
    positions: int | None = None  # prompt and answer together; None where it does not say
    version: str = ""
    takes_ids: bool = False  # whether it has the endpoint that takes and gives ids alone

    @property
    def words(self) -> str:
        """Of a run's notes, without the address."""
        version = f"vLLM {self.version}" if self.version else "a server"
        return f"written by {version}, which calls the model {self.address.said(self.name, MOST_NAME)}"


def served_model(address: ServerAddress, names: Sequence[str], ids: Sequence[int] = ()) -> ServedModel:
    """``names``: what the model is called here. A server of one model is asked for that one, whatever it calls it.
    ``ids``: of ``PROBE`` by the model's tokenizer; an error where the server has others, if it says so at all."""
    connection = Connection(address, READ_S)
    try:
        listed = _asked(connection, "/v1/models").get("data")
        models = {str(row["id"]): row for row in listed} if isinstance(listed, list) else {}
        name = next((name for name in (*names, *(models if len(models) == 1 else ())) if name in models), None)
        if name is None:
            known = ", ".join(address.said(name, MOST_NAME) for name in list(models)[:10]) or "none"
            raise ServerError(f"the server at {address.url} has no model {shown(names[0])}", f"It has {known}")
        positions, version = models[name].get("max_model_len"), ""
        with suppress(ServerError):
            version = address.said(_asked(connection, "/version").get("version", ""), MOST_NAME)[1:-1]
        # A path that is there refuses a request that asks for nothing; vLLM from 0.32 on has it switched off (403)
        # unless it is started with --enable-scale-out.
        takes_ids = connection.status(TOKENS_PATH, b"{}") in (400, 422)
        tokens = _tokens(connection, name) if ids else None
        if tokens and tokens != list(ids):
            problem = f"has another tokenizer than {shown(names[0])}"
            theirs = f"the model {address.said(name, MOST_NAME)} at {address.url}"
            raise ServerError(f"{theirs} {problem}", "Name the model that it serves")
        return ServedModel(address, name, positions if isinstance(positions, int) else None, version, takes_ids)
    except (LookupError, TypeError, AttributeError) as error:
        raise ServerError(f"the server at {address.url} lists no models as OpenAI's API does") from error
    finally:
        connection.hang_up()


def _tokens(connection: Connection, name: str) -> Any:
    """Of ``PROBE`` by the server's tokenizer; None where it does not say."""
    body = json.dumps({"model": name, "prompt": PROBE, "add_special_tokens": False}).encode()
    try:
        return _asked(connection, "/tokenize", body).get("tokens")
    except ServerError:
        return None


def _asked(connection: Connection, path: str, body: bytes | None = None) -> dict[str, Any]:
    """One small document, however often it takes."""
    number = 1
    while True:
        try:
            (document,) = connection.documents(path, body, MOST_BYTES)
            return document
        except BusyError as error:
            time.sleep(wait_behind(number, error, FIRST_TRIES))
            number += 1
        except ValueError as error:
            raise ServerError(f"the server at {connection.address.url} streams what is no stream") from error
