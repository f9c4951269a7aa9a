"""What is chosen in the Drift inspector, as its address has it: runs, a sample, an atom, a token, a histogram's bar.

The address is the one place where these live, so a link restores them and the browser's page agrees with it. Anybody
may write an address: what does not read is as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from engine.inspection.drifts import BYS, DriftBin
from engine.inspection.sample import Inspected

RUN, OF, SAMPLE, ATOM, TOKEN, BIN = "run", "of", "sample", "atom", "token", "bin"
MOST_DIGITS = 9
_APART, _CUT = "~", "cut"


@dataclass(frozen=True, slots=True)
class Spot:
    """One sample of one run."""

    run_id: str
    sample_id: int


def spot_of(one: Inspected) -> Spot:
    return Spot(one.run.run_id, one.sample["sample_id"])


def run_names() -> list[str] | None:
    """Runs as the address names them, each by any part of its name; None where it names none."""
    named = st.query_params.get_all(RUN)
    return [name for name in named if name] if named else None


def put_runs(run_ids: list[str]) -> None:
    """Other runs: what was chosen inside the former ones goes with them."""
    _write({RUN: run_ids or "", **dict.fromkeys((OF, SAMPLE, ATOM, TOKEN, BIN))})


def spot(run_ids: list[str]) -> Spot | None:
    """The sample that the address names, of the run in ``of``, else of the first one."""
    sample_id = number(SAMPLE)
    if sample_id is None or not run_ids:
        return None
    named = st.query_params.get(OF) or ""
    near = [run_id for run_id in run_ids if named and named in run_id]
    return Spot(near[0] if near else run_ids[0], sample_id)


def put_spot(chosen: Spot) -> None:
    """Another sample: an atom of the former one means nothing in it."""
    put_atom(chosen, None)


def _named(chosen: Spot) -> dict[str, str]:
    """Also where it was opened without being named, so that the address goes on to mean it when newer runs come."""
    names = run_names()
    run = {RUN: chosen.run_id} if names is None else {OF: chosen.run_id} if len(names) > 1 else {}
    return {**run, SAMPLE: str(chosen.sample_id)}


def put_atom(inside: Spot, atom: int | None, token: int | None = None) -> None:
    """``token`` is the column of the alignment that was picked, where one was."""
    _write({**_named(inside), ATOM: atom, TOKEN: token})


def bar() -> DriftBin | None:
    """The bar of the histogram that filters the table."""
    parts = (st.query_params.get(BIN) or "").split(_APART)
    by, drift = parts[0], _whole(parts[-1])
    if len(parts) < 3 or by not in BYS or drift is None:
        return None
    return DriftBin(by, _APART.join(parts[1:-1]), drift)


def put_bar(chosen: DriftBin | None) -> None:
    """The bar alone; the sample that is shown stays."""
    if chosen is None:
        forget(BIN)
    else:
        st.query_params[BIN] = _APART.join((chosen.by, chosen.group, str(chosen.drift)))


def only_cut() -> bool:
    """Whether the bar of cut blocks filters the table: they are in no other bar, since nobody knows their drift."""
    return st.query_params.get(BIN) == _CUT


def put_only_cut() -> None:
    st.query_params[BIN] = _CUT


def number(name: str) -> int | None:
    """A count in the address, from 0."""
    found = _whole(st.query_params.get(name) or "")
    return found if found is not None and found >= 0 else None


def forget(*names: str) -> None:
    _write(dict.fromkeys(names))


def _write(said: Mapping[str, str | int | list[str] | None]) -> None:
    """At once, since each change of the address is a step for the browser's Back. What is None leaves it."""
    changes = {name: value for name, value in said.items() if value is not None or name in st.query_params}
    if changes:
        texts = {name: str(value) if isinstance(value, int) else value for name, value in changes.items()}
        st.query_params.update({name: [] if value is None else value for name, value in texts.items()})


def _whole(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS else None
