"""What the system refuses while a command writes or reads: a full disk at any call, a store without the right to it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.cli import entries
from engine.store.schema import KINDS
from engine.store.store import Store, damaged_parts
from tests.cli import run, run_json
from tests.engine.logits.logs import clean, objects, write
from tests.engine.profile.made_traces import write_trace
from tests.engine.store.faults import Fault, raising
from tests.engine.store.reports.documents import document
from tests.support import sized

NOBODY = 65534
STRIDE = sized(40, 5)
"""From one call that fails to the next."""
ADDERS = {"import": ("import",), "trace": ("trace", "add", "--events", "--keep"), "log": ("logits", "add")}


def make(path: Path, kind: str) -> None:
    if kind == "import":
        path.write_text(json.dumps(document()))
    elif kind == "trace":
        write_trace(path, 200)
    else:
        write(path, objects(clean()))


def in_process(seen: Callable[..., object], add: Callable[..., Any], *given: Any, **kept: Any) -> Any:
    made = add(*given, **kept, say=seen)
    return [entry.id for entry in made] if isinstance(made, list) else made.id


@pytest.mark.soak
@pytest.mark.parametrize("kind", ADDERS)
def test_a_full_disk_at_any_call_is_told_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # Where the calls that fail are counted, and not in a child of the sandbox.
    monkeypatch.setattr(entries, "read_aside", in_process)
    path = tmp_path / "given.json"
    make(path, kind)
    refused = 0
    for turn in range(0, 1_000, STRIDE):
        place = tmp_path / str(turn)
        fault = Fault(raising(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))), turn)
        with fault.armed():
            result = run(*ADDERS[kind], str(path), "--store", str(place))
        if not fault.is_over:
            break
        if result.code:
            assert "No space left on device" in result.error
            refused += 1
        store = Store.open(str(place))
        found = [entry for kind_ in KINDS for entry in store.found(kind_).entries]
        assert not any(damaged_parts(entry) for entry in found)
        assert run(*ADDERS[kind], str(path), "--store", str(place)).code == 0, "once there is room, it goes"
        again = [entry for kind_ in KINDS for entry in Store.open(str(place)).found(kind_).entries]
        assert again and not any(damaged_parts(entry) for entry in again)
    else:
        pytest.fail("the calls of one command do not end")
    assert refused


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
@pytest.mark.parametrize("mode", [0o000, 0o555])
def test_a_store_without_the_right_to_it(tmp_path: Path, mode: int) -> None:
    """As a user who is not root, whom rights bind."""
    place, path, other = tmp_path / "store", tmp_path / "given.json", tmp_path / "other.json"
    make(path, "import")
    (row,) = run_json("import", str(path), "--store", str(place))
    run("runs", "--store", str(place))  # whatever these import is imported: not all of it is another user's to read
    other.write_text(json.dumps(document(seed=1)))
    for folder in (tmp_path, *(above for above in tmp_path.parents if above.name.startswith(("pytest-", "popen-")))):
        folder.chmod(0o755)
    for inside in (other, *place.rglob("*")):
        inside.chmod(0o755 if inside.is_dir() else 0o644)
    place.chmod(mode)
    os.seteuid(NOBODY)
    try:
        added, listed = run("import", str(other), "--store", str(place)), run("runs", "--store", str(place))
    finally:
        os.seteuid(0)
        place.chmod(0o755)
    assert "Permission denied" in added.error
    if mode:
        assert (listed.code, listed.err) == (0, "") and row["run_id"] in listed.out
    else:
        assert "Permission denied" in listed.error
    assert [row["run_id"] for row in run_json("runs", "--store", str(place))] == [row["run_id"]]
