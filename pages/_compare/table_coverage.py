"""COV and MAT on demand: threshold and references, the job and its progress.

Results are cached for the process, so the table shows them for the same choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import streamlit as st

from engine.comparing.coverage import Coverage, CoverageRequest, coverage_of, known_coverage
from engine.errors import DriftscopeError
from engine.figures.coverage_metrics import DRUG_LIKE_ANG, SMALL_ANG
from engine.figures.words import counted
from engine.service import Control, Job, service, waiting_words
from engine.service.jobs import Work
from engine.store.entries import Entry
from engine.store.store import Store
from pages._compare.runs import RunSelection
from pages._shared.errors import escape_markdown
from pages._shared.visitor import presence, visitor

THRESHOLDS = {f"{DRUG_LIKE_ANG} Å": DRUG_LIKE_ANG, f"{SMALL_ANG} Å": SMALL_ANG, "1.25 Å": 1.25}
REFERENCES = (10, 20, 50)
MOLECULES = (64, 16, 256, 1_024)
INPUTS: tuple[tuple[str, Iterable[str | int], str, int, str], ...] = (
    (
        "Threshold", THRESHOLDS, "cov_threshold", 130,
        "0.75 Å is usual for drug-like molecules, 0.5 Å for small ones; older work used 1.25 Å",
    ),
    (
        "References per molecule", REFERENCES, "cov_references", 180,
        "RDKit's ETKDGv3 conformers, with the same seed as for RMSD",
    ),
    (
        "Number of molecules", MOLECULES, "cov_molecules", 200,
        "The same molecules in all runs that share them. Each takes 0.1 s or more",
    ),
)  # fmt: skip
TICK_S = 0.5
_PENDING, _COMPLAINT = "coverage under way", "coverage that failed"


def known(chosen: RunSelection, request: CoverageRequest) -> dict[str, Coverage]:
    """Coverages that were computed for the chosen runs, by run."""
    coverages = {entry.id: known_coverage(entry, request) for entry in chosen.measured}
    return {run_id: coverage for run_id, coverage in coverages.items() if coverage is not None}


def panel(store: Store, chosen: RunSelection) -> CoverageRequest:
    """Draw the options and the button, or the progress; return what the options ask for."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="coverage"):
        threshold, references, molecules = (
            st.selectbox(label, list(options), key=key, bind="query-params", width=width, help=about)
            for label, options, key, width, about in INPUTS
        )
        request = CoverageRequest(
            THRESHOLDS[str(threshold)], int(references or REFERENCES[0]), int(molecules or MOLECULES[0])
        )
        missing = [entry for entry in chosen.measured if known_coverage(entry, request) is None]
        if missing and _pending() is None:
            st.button(
                f"Compute COV and MAT of {counted(len(missing), 'run')}",
                icon=":material/calculate:",
                key="cov_compute",
                on_click=_start,
                args=(store, missing, request),
            )
    if _pending() is not None:
        _watch()
    elif complaint := st.session_state.get(_COMPLAINT):
        st.error(escape_markdown(complaint), icon=":material/error:")
    st.caption(_words(chosen, request))
    return request


def _words(chosen: RunSelection, request: CoverageRequest) -> str:
    about = (
        f"Coverage: share of a molecule's {request.references} references with a generated conformer within"
        f" {request.threshold_ang:g} Å (R), and the other way round (P). With one answer per molecule COV-R"
        " is low; published figures use other references and more answers."
    )
    runs = [_of_run(chosen.letter(run_id), coverage) for run_id, coverage in known(chosen, request).items()]
    return " ".join([about, *runs])


def _of_run(letter: str, coverage: Coverage) -> str:
    answers = f"{coverage.answers:,} answers that the strict reader takes"
    parts = [f"{len(coverage.judged):,} of {coverage.molecules:,} molecules, {answers}"]
    if coverage.without_answers:
        parts.append(f"{coverage.without_answers:,} without any count as COV 0 and are not in MAT")
    if coverage.without_references:
        parts.append(f"{coverage.without_references:,} have no references and are left out")
    if not coverage.is_complete:
        parts.append("not all symmetries were tried, so distances may be too large")
    return f"**{letter}**: {'; '.join(parts)}."


def work_of(store: Store, entries: Sequence[Entry], request: CoverageRequest) -> Work[Coverage]:
    """For ``Service.submit``; yields one coverage per run."""

    def work(control: Control) -> Iterator[Coverage]:
        for number, entry in enumerate(entries, 1):

            def report(done: int, total: int, number: int = number) -> None:
                control.progress(done, total, f"run {number} of {len(entries)}, molecule {done + 1} of {total}")

            coverage = coverage_of(store, entry, request, cancelled=control.cancelled, told=report)
            if coverage is None:
                return
            yield coverage

    return work


def _start(store: Store, entries: Sequence[Entry], request: CoverageRequest) -> None:
    st.session_state.pop(_COMPLAINT, None)
    try:
        job = service().submit(visitor(), work_of(store, entries, request), label="COV and MAT", is_there=presence())
    except DriftscopeError as error:
        st.session_state[_COMPLAINT] = str(error)
        return
    st.session_state[_PENDING] = job


@st.fragment(run_every=TICK_S)
def _watch() -> None:
    pending = _pending()
    if pending is None:
        return
    status = pending.poll()
    if status.has_ended:
        del st.session_state[_PENDING]
        if status.state == "failed":
            st.session_state[_COMPLAINT] = status.error
        elif status.state == "stopped" and status.progress.note:
            st.session_state[_COMPLAINT] = f"Stopped: {status.progress.note}."
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center", border=True, key="covering"):
        words = waiting_words(status.ahead) if status.state == "waiting" else status.progress.note or "Reading the run"
        share = status.progress.done / status.progress.total if status.progress.total else 0.0
        st.progress(min(share, 1.0), text=escape_markdown(words), width=420)
        st.button("Stop", icon=":material/stop:", key="cov_cancel", on_click=_stop)


def _stop() -> None:
    pending = _pending()
    if pending is not None:
        del st.session_state[_PENDING]
        pending.stop()


def _pending() -> Job[Coverage] | None:
    job: Job[Coverage] | None = st.session_state.get(_PENDING)
    return job
