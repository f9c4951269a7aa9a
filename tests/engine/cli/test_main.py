"""The command line as a whole: exit status, one line for any bad input, streams that end early, a lean start."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import __version__
from engine.cli.terminal import emit_json, spelled_out
from engine.errors import DriftscopeError
from engine.records import RULES_HELP
from tests.cli import Result, run
from tests.strategies import any_text
from tests.support import ROOT

TOKENS = ("tokens", "<1.0,2.0,3.0>", "--tokenizer", "qwen3")


# Unbuffered output would hide what a buffer does when the interpreter ends.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def start(*argv: str | bytes, **options: object) -> subprocess.CompletedProcess[bytes]:
    """A true call of ``python -m engine``, its output captured unless the options say where it goes."""
    command = [sys.executable, "-m", "engine", *argv]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": ENVIRONMENT, **options}
    return subprocess.run(command, cwd=ROOT, check=False, timeout=120, **options)  # type: ignore[call-overload]


# --- exit status ----------------------------------------------------------------------------------------------------


def test_a_true_call() -> None:
    result = start(*TOKENS, "--json")
    assert (result.returncode, result.stderr) == (0, b"")
    assert json.loads(result.stdout)["count"] == 13


def test_json_is_whole_or_not_there() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit_json({"fine": 1, "not": float("nan")})


def test_version_and_help() -> None:
    assert run("--version").out == f"driftscope {__version__}\n"
    for argv in ((), ("runs",)):
        shown = run(*argv, "-h")
        assert (shown.code, shown.err, shown.out) == (0, "", run(*argv, "--help").out)
        assert "Usage: python -m engine" in shown.out
    assert RULES_HELP in " ".join(shown.out.split())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((), "Missing command"),
        (("fly",), "No such command 'fly'"),
        (("tokens", "x"), "Missing option '--tokenizer'"),
        ((*TOKENS, "--no-such-option"), "No such option: --no-such-option"),
        ((*TOKENS, "x\ny"), "unexpected extra argument(s) (x\\x0ay)"),
    ],
)
def test_a_wrong_call_is_one_line(argv: tuple[str, ...], said: str) -> None:
    line = run(*argv).error
    assert said in line
    assert line.startswith("python -m engine")
    assert len(line) < 1_200


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("drift --smiles A B --fit", "drift --smiles A --smiles B --fit"),
        ("judge RUN --smiles A B", "judge RUN --smiles A B"),
        ("export RUN --as sdf FILE", "export RUN --as sdf --as FILE"),
        ("export RUN --as sdf", "export RUN --as sdf"),
        ("run --rmsd --judge", "run --rmsd=10 --judge"),
        ("run --rmsd 5", "run --rmsd 5"),
        ("junk --bins FILE TEXT", "junk --bins FILE '' TEXT"),
        ("junk --bins=FILE TEXT", "junk --bins FILE '' TEXT"),
        ("junk --bins 0.05 9 TEXT", "junk --bins 0.05 9 TEXT"),
        ("junk --bins='0.05 9'", "junk --bins 0.05 9"),
        ("junk --bins", "junk --bins"),
        ("junk --bins= TEXT", "junk --bins '' '' TEXT"),
        ("ask lab_text TEXT --bins NAME", "ask lab_text TEXT --bins NAME"),
        ("models demo-qwen --json", "models list demo-qwen --json"),
        ("models --json", "models --json"),
        ("models add FOLDER", "models add FOLDER"),
        ("tokens -- --bins X", "tokens -- --bins X"),
        ("", ""),
    ],
)
def test_what_scripts_rely_on_is_spelled_out(typed: str, read: str) -> None:
    assert spelled_out(shlex.split(typed)) == shlex.split(read)


def test_errors_of_every_kind_end_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(error: BaseException) -> Result:
        monkeypatch.setattr("engine.cli.terminal.given_text", Mock(side_effect=error))
        return run(*TOKENS)

    assert raising(DriftscopeError("it\nbroke\x1b", "Mend it")).error == "driftscope: it broke\\x1b. Mend it"
    assert raising(OSError(28, "No space left on device")).error == "driftscope: No space left on device"
    assert raising(PermissionError(13, "Permission denied", "/x\n")).error == "driftscope: Permission denied '/x\\n'"
    assert len(raising(DriftscopeError("x" * 100_000)).error) <= 1_020
    stopped = raising(KeyboardInterrupt())
    assert (stopped.code, stopped.out, stopped.err) == (130, "", "driftscope: stopped\n")
    with pytest.raises(ZeroDivisionError):  # what nobody foresaw is not dressed up as bad input
        raising(ZeroDivisionError())


# --- any arguments at all -------------------------------------------------------------------------------------------

TEXTS = ("[C]<1.0,-2.0,3.0>=[O]<0.0,0.5,1.0>", "[C]<1.0,2.0,3.0amen>", "CC=O", "C(C", "*", "-", "-1.0", "", "[C]<1.0")
OPTIONS = (
    "--json", "--tokenizer", "--placeholder", "--tags", "--smiles", "--file", "--conformers", "--seed", "--fit", "--lp",
    "--least-decimals", "--junk-weight", "--cut-weight", "--sdf", "--xyz", "--", "--help", "-h", "--tok", "-x",
)  # fmt: skip
VALUES = tuple("qwen3 llama3 gpt5 1 0 -1 4 nan 1e9 none out.sdf in.sdf no/such/file / \0".split(" "))


def arguments() -> st.SearchStrategy[list[str]]:
    # Random texts without what could name a file elsewhere: some of these options write.
    text = any_text(20).filter(lambda value: not {"/", "~"} & set(value))
    words = st.one_of(st.sampled_from(TEXTS), st.sampled_from(OPTIONS), st.sampled_from(VALUES), text)
    command = st.one_of(st.sampled_from(("tokens", "template", "drift", "junk", "encode", "decode")), text)
    tokenizer = st.sampled_from(([], ["--tokenizer", "qwen3"], ["--tokenizer", "llama3"]))
    return st.builds(lambda first, more, rest: [first, *more, *rest], command, tokenizer, st.lists(words, max_size=5))


@pytest.mark.soak
def test_any_arguments_give_a_result_or_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.sdf").write_text("\n")

    @given(arguments(), st.one_of(st.binary(max_size=40), st.sampled_from(TEXTS).map(str.encode)))
    def check(argv: list[str], stdin: bytes) -> None:
        if argv[0] == "prepare":  # it builds and fetches
            return
        result = run(*argv, stdin=stdin)
        assert result.code in (0, 2)
        if result.code == 2:
            assert len(result.error) < 1_200
        else:
            assert result.err == ""
            assert result.out
            result.out.encode("utf-8", "backslashreplace")

    check()
    assert capfd.readouterr() == ("", "")


# --- true streams ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [("--help",), ("junk", "[C]<1>" * 20_000, "--json")])
def test_a_reader_that_stops_is_no_error(argv: tuple[str, ...]) -> None:
    """Output this short is written when the interpreter ends, which once complained of the closed pipe."""
    read, write = os.pipe()
    os.close(read)
    process = start(*argv, stdout=write)
    os.close(write)
    assert (process.returncode, process.stderr) == (0, b"")


def test_a_full_disk_is_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        process = start(*TOKENS, "--json", stdout=full)
    assert (process.returncode, process.stderr) == (2, b"driftscope: No space left on device\n")


@pytest.mark.parametrize("is_full", [False, True])
def test_a_log_that_cannot_be_written_ends_no_run(tmp_path: Path, is_full: bool) -> None:
    """The bug: `run ... 2>&1 | true` exited 0 without a run, and `2>/dev/full` 1 without a word."""
    argv = ("run", "C", "--model", "demo-qwen", "--max-new-tokens", "4", "--progress")
    environment = ENVIRONMENT | {"DRIFTSCOPE_STORE": str(tmp_path)}
    if is_full:
        with Path("/dev/full").open("wb") as full:
            process = start(*argv, "/dev/full", stderr=full, env=environment)
    else:
        read, write = os.pipe()
        os.close(read)
        process = start(*argv, "/dev/full", stdout=write, stderr=write, env=environment)
        os.close(write)
    assert process.returncode == 0 and len([*(tmp_path / "runs").iterdir()]) == 1


def test_a_pipe_that_broke_elsewhere_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.cli.terminal.given_text", Mock(side_effect=BrokenPipeError(32, "Broken pipe")))
    assert run(*TOKENS).error == "driftscope: Broken pipe"


NO_INPUT = b"driftscope: there is no standard input. Give the text itself, or a file\n"


@pytest.mark.parametrize(
    ("closed", "argv", "code", "said"),
    [
        ("<&-", "junk -", 2, NO_INPUT),
        (">&-", "junk '[C]<1>' --json", 0, b""),
        (">&- 2>&-", "junk '[C]<1>' --lp magic", 2, b""),
    ],
)
def test_closed_streams(closed: str, argv: str, code: int, said: bytes) -> None:
    line = f"{sys.executable} -m engine {argv} {closed}"
    process = subprocess.run(
        ["/bin/sh", "-c", line], cwd=ROOT, env=ENVIRONMENT, capture_output=True, check=False, timeout=120
    )
    assert (process.returncode, process.stderr) == (code, said)


def test_arguments_that_are_not_utf8() -> None:
    result = start("junk", b"[C]<\xff>")
    assert (result.returncode, result.stdout, len(result.stderr.splitlines())) == (2, b"", 1)
    assert b"\\udc" in result.stderr


# --- a lean start ---------------------------------------------------------------------------------------------------

HEAVY = {"torch", "transformers", "streamlit", "pandas", "pyarrow", "duckdb", "plotly"}


@pytest.mark.parametrize(
    ("argv", "absent"),
    [
        (("--help",), HEAVY - {"pyarrow"} | {"rdkit", "tokenizers", "tiktoken"}),
        (("junk", "[C]<1.0,2.0,3.0>"), HEAVY | {"numpy", "rdkit", "tokenizers", "tiktoken"}),
        (("drift", "--tokenizer", "qwen3", "--file", "-"), HEAVY),
    ],
)
def test_a_command_imports_only_what_it_needs(argv: tuple[str, ...], absent: set[str]) -> None:
    code = (
        "import sys\n"
        "from engine.cli.main import main\n"
        "try: status = main(sys.argv[1:])\n"
        "except SystemExit as stop: status = stop.code\n"
        "sys.stderr.write(' '.join(name for name in sys.modules if '.' not in name))\n"
        "sys.exit(status)\n"
    )
    command = [sys.executable, "-c", code, *argv]
    result = subprocess.run(command, cwd=ROOT, input=b"[C]<1.0,2.0,3.0>", capture_output=True, check=False, timeout=120)
    assert result.returncode == 0
    assert set(result.stderr.decode().split()) & absent == set()
    assert b"engine" in result.stderr
