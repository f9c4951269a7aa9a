"""COV and MAT on demand: what they are told against, a job for the worker, and how far it is.

What was computed stays with the process, so the table shows it to whoever asks for the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.comparing.coverage import DRUG_LIKE_ANG, SMALL_ANG, Asked, Coverage, coverage_of, known_coverage
from engine.errors import DriftscopeError
from engine.service import Control, Job, service
from engine.service.jobs import Work
from engine.store.entries import Entry
from engine.store.store import Store
from pages._shared.compare.state import Chosen
from pages._shared.errors import escape_markdown
from pages._shared.visitor import presence, visitor

THRESHOLDS = {f"{DRUG_LIKE_ANG} Å": DRUG_LIKE_ANG, f"{SMALL_ANG} Å": SMALL_ANG, "1.25 Å": 1.25}
REFERENCES = (10, 20, 50)
MOLECULES = (64, 16, 256, 1_024)
TICK_S = 0.5
_PENDING, _COMPLAINT = "coverage under way", "coverage that failed"


@dataclass(frozen=True, slots=True)
class Pending:
    job: Job[Coverage]
    runs: int


def known(chosen: Chosen, asked: Asked) -> dict[str, Coverage]:
    """What was computed of the chosen runs, by run."""
    found = {entry.id: known_coverage(entry, asked) for entry in chosen.measured}
    return {run_id: one for run_id, one in found.items() if one is not None}


def panel(store: Store, chosen: Chosen) -> Asked:
    """Draw the choice and the button, or how far the work is; what is asked for now."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="coverage"):
        threshold = st.selectbox(
            "Threshold",
            list(THRESHOLDS),
            key="cov_threshold",
            bind="query-params",
            width=130,
            help="0.75 Å is usual for drug-like molecules, 0.5 Å for small ones; older work used 1.25 Å",
        )
        references = st.selectbox(
            "References a molecule",
            REFERENCES,
            key="cov_references",
            bind="query-params",
            width=180,
            help="RDKit's ETKDGv3 conformers, of the seed that RMSD is taken with",
        )
        molecules = st.selectbox(
            "At most so many molecules",
            MOLECULES,
            key="cov_molecules",
            bind="query-params",
            width=200,
            help="The same ones in all runs that share them. A molecule takes a tenth of a second or more",
        )
        asked = Asked(THRESHOLDS[str(threshold)], int(references or REFERENCES[0]), int(molecules or MOLECULES[0]))
        missing = [entry for entry in chosen.measured if known_coverage(entry, asked) is None]
        if missing and _pending() is None:
            st.button(
                f"Compute COV and MAT of {len(missing)} {'run' if len(missing) == 1 else 'runs'}",
                icon=":material/calculate:",
                key="cov_compute",
                on_click=_ask,
                args=(store, missing, asked),
            )
    if _pending() is not None:
        _watch()
    elif complaint := st.session_state.get(_COMPLAINT):
        st.error(escape_markdown(complaint), icon=":material/error:")
    st.caption(_words(chosen, asked))
    return asked


def _words(chosen: Chosen, asked: Asked) -> str:
    said = (
        f"Coverage: share of {asked.references} references of a molecule that a generated conformer comes within"
        f" {asked.threshold_ang:g} Å of (R), and the other way round (P). With one answer a molecule COV-R cannot be"
        " high; beside published figures, mind that those have other references and more answers."
    )
    told = [_of_run(chosen.letter(run_id), one) for run_id, one in known(chosen, asked).items()]
    return " ".join([said, *told])


def _of_run(letter: str, one: Coverage) -> str:
    parts = [f"{len(one.judged):,} of {one.molecules:,} molecules, {one.answers:,} answers that decode"]
    if one.without_answers:
        parts.append(f"{one.without_answers:,} without any count as COV 0 and are in no MAT")
    if one.without_references:
        parts.append(f"{one.without_references:,} have no references and are left out")
    if not one.is_complete:
        parts.append("not all symmetries were tried, so distances may be too great")
    return f"**{letter}**: {'; '.join(parts)}."


def work_of(store: Store, entries: Sequence[Entry], asked: Asked) -> Work[Coverage]:
    """For ``Service.submit``; an event a run."""

    def work(control: Control) -> Iterator[Coverage]:
        for number, entry in enumerate(entries, 1):

            def told(done: int, total: int, number: int = number) -> None:
                control.progress(done, total, f"run {number} of {len(entries)}, molecule {done + 1} of {total}")

            found = coverage_of(store, entry, asked, cancelled=control.cancelled, told=told)
            if found is None:
                return
            yield found

    return work


def _ask(store: Store, entries: Sequence[Entry], asked: Asked) -> None:
    st.session_state.pop(_COMPLAINT, None)
    try:
        job = service().submit(visitor(), work_of(store, entries, asked), label="COV and MAT", is_there=presence())
    except DriftscopeError as error:
        st.session_state[_COMPLAINT] = str(error)
        return
    st.session_state[_PENDING] = Pending(job, len(entries))


@st.fragment(run_every=TICK_S)
def _watch() -> None:
    pending = _pending()
    if pending is None:
        return
    seen = pending.job.poll()
    if seen.ended:
        del st.session_state[_PENDING]
        if seen.state == "failed":
            st.session_state[_COMPLAINT] = seen.error
        elif seen.state == "cancelled" and seen.progress.note:
            st.session_state[_COMPLAINT] = f"It was stopped: {seen.progress.note}."
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="covering"):
        share = seen.progress.done / seen.progress.total if seen.progress.total else 0.0
        st.progress(min(share, 1.0), text=escape_markdown(_progress(seen)), width=420)
        st.button("Cancel", icon=":material/close:", key="cov_cancel", on_click=_cancel)


def _progress(seen: Any) -> str:
    if seen.state == "queued":
        return f"{seen.ahead} before it in the queue" if seen.ahead else "next in the queue"
    return seen.progress.note or "reading the run"


def _cancel() -> None:
    pending = _pending()
    if pending is not None:
        del st.session_state[_PENDING]
        pending.job.cancel()


def _pending() -> Pending | None:
    found: Pending | None = st.session_state.get(_PENDING)
    return found
