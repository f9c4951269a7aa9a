"""What is chosen in the Drift inspector, as its address has it: runs, a sample, an atom, a token, a histogram's bar.

Only the address holds these, so a link restores them. A value that cannot be read counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from engine.inspection.molecules import CUT_BAR, DriftBin
from engine.inspection.sample import Inspected

RUN, OF, SAMPLE, ATOM, TOKEN, BIN, UNDER = "run", "of", "sample", "atom", "token", "bin", "under"
OTHER_READER = "drift_other_reader"
CONFORMER = "conformer"
MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Spot:
    run_id: str
    sample_id: int


def spot_of(inspection: Inspected) -> Spot:
    return Spot(inspection.run.run_id, inspection.sample["sample_id"])


def run_names() -> list[str] | None:
    """Runs as the address names them, each by any part of its name; None where it names none."""
    named = st.query_params.get_all(RUN)
    return [name for name in named if name] if named else None


def spot(run_ids: list[str]) -> Spot | None:
    """The sample that the address names, of the run in ``of``, else of the first one."""
    sample_id = number(SAMPLE)
    if sample_id is None or not run_ids:
        return None
    named = st.query_params.get(OF) or ""
    matches = [run_id for run_id in run_ids if named and named in run_id]
    return Spot(matches[0] if matches else run_ids[0], sample_id)


def put_spot(chosen: Spot) -> None:
    """Another sample; the atom of the earlier one is cleared, and what was chosen for its 3D view."""
    _write(_opened(chosen) | {ATOM: None, TOKEN: None, OTHER_READER: None, CONFORMER: None})


def other_reader() -> bool | None:
    """Whether the address wants the group's reading in 3D; None where it does not say."""
    value = st.query_params.get(OTHER_READER)
    return None if value is None else value == "true"


def put_other_reader(key: str) -> None:
    """As the switch of this key stands."""
    _write({OTHER_READER: str(bool(st.session_state[key])).lower()})


def put_atom(inside: Spot, atom: int | None, token: int | None = None, conformer: int | None = None) -> None:
    """``token`` is the picked column of the alignment, if any; ``conformer`` the one to be seen, None: as it is."""
    _write(_opened(inside) | {ATOM: atom, TOKEN: token} | ({CONFORMER: conformer} if conformer else {}))


def put_conformer(inside: Spot, key: str) -> None:
    """As the buttons of this key stand. The token of another conformer is cleared."""
    _write(_opened(inside) | {CONFORMER: int(st.session_state[key] or 1), TOKEN: None})


def put_under(name: str) -> None:
    """A branch of the open sample, whose tokens are to be seen under its own."""
    _write({UNDER: name})


def _opened(chosen: Spot) -> dict[str, str | int | None]:
    """The run is named even where it was opened by default, so that the address still means it when newer runs come."""
    names = run_names()
    opened: dict[str, str | int | None] = {SAMPLE: chosen.sample_id}
    if names is None:
        opened[RUN] = chosen.run_id
    elif len(names) > 1:
        opened[OF] = chosen.run_id
    return opened


def bar() -> DriftBin | None:
    """The bar of the histogram that filters the table."""
    return DriftBin.read(st.query_params.get(BIN) or "")


def clear_bar() -> None:
    """The open sample stays."""
    _write({BIN: None})


def named_bar() -> str | None:
    """As the address has it, also that of cut blocks; None where it names none."""
    named = st.query_params.get(BIN)
    return named if named == CUT_BAR or bar() is not None else None


def number(name: str) -> int | None:
    """A count in the address, from 0."""
    digits = st.query_params.get(name) or ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS else None


def _write(values: Mapping[str, str | int | None]) -> None:
    """In one update, since each change of the address is a step for the browser's Back. None removes a value."""
    changes = {name: value for name, value in values.items() if value is not None or name in st.query_params}
    if changes:
        st.query_params.update({name: [] if value is None else str(value) for name, value in changes.items()})
