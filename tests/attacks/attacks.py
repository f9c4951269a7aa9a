"""The list of attacks: the tables of ``attacks.toml``, multiplied. A tenth of it in ``make test``, all in soak."""

from __future__ import annotations

import gzip
import os
import random
import socket
import tomllib
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from tests.support import sized

TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text(encoding="utf-8"))
SECRET = "secret-4711"
Attack = TypeVar("Attack")


def some(attacks: Sequence[Attack]) -> Sequence[Attack]:
    return attacks[:: sized(10, 1)]


def statements() -> list[str]:
    tables = TABLES["statements"]
    pairs = [("source_places", "sources"), ("call_places", "calls"), ("command_places", "commands")]
    made = [place.replace("{}", what) for places, of in pairs for place, what in product(tables[places], tables[of])]
    return made + bombs()


def bombs() -> list[str]:
    tables = TABLES["statements"]
    return [place.replace("{}", bomb) for place, bomb in product(tables["bomb_places"], tables["bombs"])]


def files() -> list[tuple[list[str], str, str]]:
    """Words of a command, a file's name, and its damage. Each damage meets each reader under one of the names."""
    tables = TABLES["files"]
    pairs = list(product(tables["readers"], tables["damages"]))
    return [
        (reader, tables["names"][place % len(tables["names"])], damage) for place, (reader, damage) in enumerate(pairs)
    ]


def paths() -> list[str]:
    tables = TABLES["links"]
    return [
        root + target.replace("{}", up)
        for root, up, target in product(tables["roots"], tables["spellings"], tables["targets"])
    ]


# --- damaged files --------------------------------------------------------------------------------------------------

CONTENTS: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "secret": lambda: f"{SECRET}:x:0:0:root:/root:/bin/bash\n".encode() * 40,
    "zeros": lambda: bytes(100_000),
    "random_bytes": lambda: random.Random(0).randbytes(100_000),
    "not_utf8": lambda: b'{"' + SECRET.encode() + b'": "\xff\xfe\xc0"}',
    "lone_surrogate": lambda: b'{"a": "\\ud800"}',
    "deep_json": lambda: b"[" * 200_000,
    "dense_json": lambda: b'{"a":[' + b"[]," * 8_000_000 + b"1]}",
    "huge_number": lambda: b'{"traceEvents": [{"ts": ' + b"9" * 100_000 + b"}]}",
    "duplicate_keys": lambda: b'{"metadata": 1, "metadata": {}, "traceEvents": [], "traceEvents": 7}',
    "cut_gzip": lambda: gzip.compress(b'{"a": 1}' * 1_000)[:-9],
    "gzip_of_zeros": lambda: gzip.compress(bytes(80 << 20), 1),
    "gzip_in_gzip": lambda: gzip.compress(gzip.compress(b"{}")),
    "wrong_magic": lambda: b"PAR1" + bytes(1_000) + b"PAR1",
    "nul_in_text": lambda: b"CC\0O name\n$$$$\n" * 100,
    "one_long_line": lambda: b"C" * 3_000_000,
}


def make_file(path: Path, damage: str) -> None:
    if damage in CONTENTS:
        path.write_bytes(CONTENTS[damage]())
    elif damage == "fifo":
        os.mkfifo(path)
    elif damage == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)  # of the folder that the test stands in: a socket's path is short
    elif damage == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "dangling_link": "nowhere", "link_to_itself": path.name}[damage])
