"""Asking Driftscope from outside: commands in a process of their own, pages by their addresses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tests.support import ROOT

HERE = Path(__file__).parent
INPUTS = HERE / "inputs"
LIMIT_S = 300.0

# The command line is printed instead of used.
_PARSER = """
import json, runpy, sys

def walk(command, name, commands):
    options = commands[name] = {}
    for param in command.params:
        names, takes = [param.name], "+" if param.required else "*"
        if param.nargs != -1:
            takes = "one" if param.required else "?"
        if param.param_type_name == "option":
            names, metavar, takes = param.opts, param.metavar or "", "one" if param.nargs == 1 else param.nargs
            if param.is_flag:
                takes = "nothing"
            elif metavar.endswith("...") or metavar.startswith("["):
                takes = "+" if metavar.endswith("...") else "?"
        default = param.default() if callable(param.default) else param.default
        entry = {"names": dict.fromkeys(names, True), "default": "==SUPPRESS==" if param.is_eager else default,
                 "required": param.required or takes == "*", "takes": takes}
        if param.type_descriptor.choices is not None:
            entry["choices"] = dict.fromkeys(map(str, param.type_descriptor.choices), True)
        options[names[0]] = entry
    for word, below in getattr(command, "commands", {}).items():
        walk(below, f"{name} {word}".strip(), commands)
    return commands

def printed(command, *args, **kwargs):
    print(json.dumps(walk(command, "", {}), default=str))
    sys.exit()

import typer.core
typer.core.TyperGroup.make_context = printed
sys.argv = ["engine"]
runpy.run_module("engine", run_name="__main__")
"""

# Calls are made one after the other by one process, which has to import the app once.
_CALLS = """
import contextlib, io, json, sys
from engine.cli.main import main

for argv in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as stop:
            code = stop.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""

# Each address is opened on its own, as in a fresh tab; all in one process, which has to import the app once. What a
# query in the background brings is not there at first: the page is drawn again until it says all that is wanted, or,
# where that is not known, until it says no more.
_PAGES = """
import json, sys, time
from streamlit.testing.v1 import AppTest

def shown(app):
    return json.loads(app.session_state["shown"]) if "shown" in app.session_state else {}

for name, query, wanted in json.load(sys.stdin):
    app = AppTest.from_file(f"pages/{name}.py", default_timeout=250)
    for key, value in query.items():
        app.query_params[key] = value
    app.run()
    for _ in range(60):
        known = shown(app)
        if wanted is not None and set(wanted) <= set(known):
            break
        time.sleep(1 if wanted is None else 0.3)
        app.run()
        if wanted is None and shown(app) == known:
            break
    wrong = [element.message for element in app.exception]
    print(json.dumps({"shown": shown(app), "exceptions": wrong}), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        assert self.code == 0, self
        return json.loads(self.out)


def engine(*args: str, store: Path) -> Done:
    return _python("-m", "engine", *args, store=store)


def options() -> dict[str, Any]:
    """Of every command, by its whole name: each option's names, default, choices, and whether it has to be there."""
    commands: dict[str, Any] = _python("-c", _PARSER, store=ROOT).document
    return commands


Link: TypeAlias = tuple[str, Mapping[str, Any], Sequence[str] | None]
"""A page's name, the parameters of its address, and the keys that it has to say, where they are known."""


def pages(links: Sequence[Link], store: Path) -> list[Any]:
    """What each of the addresses selects, as the page says, and the exceptions that it showed."""
    done = _python("-c", _PAGES, store=store, stdin=json.dumps(links), limit_s=LIMIT_S * 3)
    assert done.code == 0, done.err[-2000:]
    answers = [json.loads(line) for line in done.out.splitlines() if line.startswith('{"shown"')]
    assert len(answers) == len(links), done.err[-2000:]
    return answers


def _python(*args: str, store: Path, stdin: str = "", limit_s: float = LIMIT_S) -> Done:
    env = {**os.environ, "DRIFTSCOPE_STORE": str(store), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    env.pop("DRIFTSCOPE_MODELS", None)
    done = subprocess.run(
        [sys.executable, *args], cwd=ROOT, env=env, input=stdin, capture_output=True, text=True, timeout=limit_s
    )
    return Done(done.returncode, done.stdout, done.stderr)


def answers(calls: Mapping[str, Mapping[str, Any]], store: Path) -> dict[str, Any]:
    """Each call's JSON by its name; where it ``reads`` a file that it wrote to ``{out}``, that file as well."""
    with tempfile.TemporaryDirectory() as out:
        folders = [Path(out, str(number)) for number in range(len(calls))]
        requests = []
        for folder, call in zip(folders, calls.values(), strict=True):
            folder.mkdir()
            words = [arg.replace("{inputs}", str(INPUTS)).replace("{out}", str(folder)) for arg in call["args"]]
            requests.append([*words, "--json"])
        documents = {}
        for name, folder, done in zip(calls, folders, all_of(requests, store), strict=True):
            documents[name] = done.document
            if reads := calls[name].get("reads"):
                content = (folder / reads).read_text(encoding="utf-8")
                file = json.loads(content) if reads.endswith(".json") else content.splitlines()
                documents[name] = {"answer": documents[name], "file": file}
        return documents


def all_of(requests: Sequence[Sequence[str]], store: Path) -> list[Done]:
    """What each command wrote, one after the other in one process."""
    done = _python("-c", _CALLS, store=store, stdin=json.dumps(requests), limit_s=LIMIT_S * 3)
    assert done.code == 0, done.err[-2000:]
    return [Done(*json.loads(line)) for line in done.out.splitlines()]


def unpacked_old_store(folder: Path) -> Path:
    return unpacked("old_store", folder) / "store"


def unpacked(name: str, folder: Path) -> Path:
    with tarfile.open(HERE / f"{name}.tar.gz") as packed:
        packed.extractall(folder, filter="data")
    return folder
