"""A quick probe: some held-out molecules under each LP, measured now and stored as runs for the advisor.

The model is loaded once, and each LP writes a few tokens before anything is timed, so that no LP pays for the start of
the process. The LPs run one after the other: load that begins meanwhile slows the later ones, so answers are
judged after the last LP, by the caller (``inspection/judging.py``). A probe that is stopped loses the LP that was
running; finished LPs stay.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import BackendName, Plan
from engine.decode.presets import preset
from engine.errors import RunError
from engine.evidence.advice.commands import USUAL_BATCH, USUAL_SAMPLING
from engine.lp_records import full_name
from engine.models.loading import LoadedModel
from engine.records import Molecule, NumberFormat
from engine.runner.plan import ModelChoice, RunPlan, RunProgress
from engine.runner.run import Run, begin
from engine.store.files import Files, LocalFiles
from engine.store.references import ReferenceSet
from engine.store.staging import Staging
from engine.store.store import Store
from engine.store.writing import whole_or_nothing

LABEL = "probe"
LEAST_PROBE = 4
WARM_MOLECULES, WARM_TOKENS = 2, 24


@dataclass(frozen=True, slots=True)
class Probe:
    molecules: int
    lps: tuple[str, ...]
    sampling: str = USUAL_SAMPLING
    batch_size: int = USUAL_BATCH
    backend: BackendName = "fast"
    device: str = "auto"
    rmsd: int = 0  # reference conformers that an answer is compared with
    references: ReferenceSet | None = None  # a set that they are of, all of a molecule's, in place of ETKDG
    seed: int = 0

    def __post_init__(self) -> None:
        if self.molecules < LEAST_PROBE:
            raise RunError(
                f"a probe of {self.molecules} molecules is too small", f"Give {LEAST_PROBE} or more; 64 tell something"
            )
        if len(set(self.lps)) < 2:
            raise RunError("a probe of one LP has nothing to compare", "Give --lp twice or more, or leave it out")
        for lp in self.lps:
            self.plan(lp)

    def plan(self, lp: str, form: NumberFormat | None = None) -> Plan:
        """``form`` is the model's number format, as in a run's plan, so that both have one setting."""
        return Plan(
            lp=full_name(lp),
            form=form,
            backend=self.backend,
            sampling=preset(self.sampling),
            batch_size=self.batch_size,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """How far a probe is: ``number`` counts LPs from 0."""

    lp: str
    number: int
    lps: int
    progress: RunProgress
    is_kept: bool = False  # the run is in the store now


def probe(files: Files, loaded: LoadedModel, settings: Probe, *, source: str = "") -> Generator[ProbeStep, None, None]:
    """Write a run for each LP. Closing it early throws the unfinished one away."""
    molecules = [parse_smiles(smiles) for smiles in load_run_set(settings.molecules)]
    lps = tuple(dict.fromkeys(full_name(lp) for lp in settings.lps))
    plans = {lp: settings.plan(lp, loaded.entry.numbers) for lp in lps}
    for warm_up in plans.values():
        Generation(loaded, molecules[:WARM_MOLECULES], replace(warm_up, limit=WARM_TOKENS)).run()
    entry = loaded.entry
    choice = ModelChoice(alias=entry.alias, step=entry.step, device=settings.device)
    for number, lp in enumerate(lps):
        plan = RunPlan(choice, plans[lp], rmsd=settings.rmsd, label=LABEL, source=source)
        with _begun(files, loaded, molecules, plan, settings.references) as (staging, whole):
            run = Run(staging, loaded, molecules, whole)
            for progress in run.progress():
                yield ProbeStep(lp, number, len(lps), progress)
            run.publish()
        yield ProbeStep(lp, number, len(lps), run.now(), is_kept=True)


@contextlib.contextmanager
def passing_store() -> Iterator[Store]:
    """A store that is removed after the block, for a probe that is not kept."""
    folder = tempfile.mkdtemp(prefix="driftscope-probe-")
    try:
        yield Store(LocalFiles(Path(folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _begun(
    files: Files, loaded: LoadedModel, molecules: Sequence[Molecule], plan: RunPlan, references: ReferenceSet | None
) -> Iterator[tuple[Staging, RunPlan]]:
    staging = begin(files, loaded, molecules, plan, references=references)
    with whole_or_nothing(staging):  # half a probe tells nothing
        yield staging, RunPlan.read(staging.sheet["plan"])
    staging.release()
