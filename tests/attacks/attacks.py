"""The list of attacks: the tables of ``attacks.toml``, each kind once."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import socket
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rdkit import Chem

TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("attacks.toml").read_text(encoding="utf-8"))
SECRET = "secret-4711"


def in_turn(*lists: Sequence[Any]) -> list[tuple[Any, ...]]:
    """As many as the longest list has; the others begin again."""
    return [tuple(values[index % len(values)] for values in lists) for index in range(max(map(len, lists)))]


def statements() -> list[str]:
    tables = TABLES["statements"]
    pairs = [
        ("sources", "source_places"),
        ("calls", "call_places"),
        ("commands", "command_places"),
        ("bombs", "bomb_places"),
    ]
    return [frame.replace("{}", text) for of, frames in pairs for text, frame in in_turn(tables[of], tables[frames])]


def files() -> list[tuple[list[str], str, str]]:
    """Words of a command, a file's name, and its damage."""
    tables = TABLES["files"]
    of_pickles = [(["references", "add", "--label", "x"], "x.pickle", f"pickle_{kind}") for kind in tables["pickles"]]
    return in_turn(tables["readers"], tables["names"], 2 * tables["damages"]) + of_pickles


def paths() -> list[str]:
    tables = TABLES["links"]
    links = in_turn(tables["roots"], tables["targets"], 2 * tables["spellings"])
    return [root + target.replace("{}", up) for root, target, up in links]


# --- what a pickle names: read by Python's own unpickler, each of the first three acts --------------------------------


class Calling:
    """Pickled as a call of ``function``."""

    def __init__(self, function: Callable[..., Any], *given: Any) -> None:
        self.call = function, given

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.call


class Sub(Chem.Mol):  # type: ignore[misc]
    """Of an allowed class; reading one leaves a file."""

    def __setstate__(self, state: object) -> None:
        Path("out").write_text("run")


PICKLES: dict[str, Callable[[], object]] = {
    "unlink": lambda: Calling(os.unlink, "victim"),
    "kill": lambda: Calling(os.kill, os.getpid(), 9),
    "eval": lambda: Calling(eval, "open('out', 'w').write('run')"),
    "subclass": lambda: Sub(Chem.MolFromSmiles("CO")),
}


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
    elif damage.startswith("pickle_"):
        path.write_bytes(pickle.dumps({"CO": [PICKLES[damage.removeprefix("pickle_")]()]}))
    elif damage == "fifo":
        os.mkfifo(path)
    elif damage == "socket":
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)  # of the folder that the test stands in: a socket's path is short
    elif damage == "folder":
        path.mkdir()
    else:
        path.symlink_to({"device": "/dev/zero", "dangling_link": "nowhere", "link_to_itself": path.name}[damage])
