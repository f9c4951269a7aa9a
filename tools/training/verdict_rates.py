"""Are the conformers right that a registered model writes under the exact and the guarded LP? For its card.

    python -m tools.training.verdict_rates --model demo-qwen:final --corpus ~/.cache/driftscope/corpus-held-out

The exact LP forces the molecule, stereo and all, and the model writes the numbers: whether they are the molecule's is
the model's own doing; the guarded LP has blocks drawn anew. Molecules come from a corpus that was built with
``--held-out``, as many of each number of stereo sites, one of each pair of mirror images. Beside the model stand
ETKDGv3, judged alike, and chance: a half for each site.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median

from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.chem.stereo import stereo_goals
from engine.chem.verdict import WITH_STRAIN, judge_answer
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.paths import cache_folder
from engine.records import TRIMMED4, Molecule, MoleculeVerdict
from engine.store.sample_rows import verdict_sums
from engine.text.check import answer_of
from tools.terminal import ToolParser, run_tool
from tools.training.card import put_section
from tools.training.corpus import read_corpus
from tools.training.molecule_sets import EMBED_SECONDS
from tools.training.training_card import NO_FIGURE, table

log = logging.getLogger(__name__)

TITLE = "## Are the conformers right?"
MOST_SITES, MOST_ATOMS = 3, 16
LPS_JUDGED = ("exact", "guarded")
ETKDG_SEED = 1

Judged = list[tuple[Molecule, MoleculeVerdict, bool]]
"""Molecule, verdict, and whether the text is clean."""


@dataclass(frozen=True, slots=True)
class VerdictRates:
    """Counts of the molecules with one number of stereocentres and double bonds that they state."""

    writer: str
    sites: str
    molecules: int
    usable: int
    stereo_right: int
    sites_asked: int
    sites_right: int
    chance: float  # that all sites of a molecule come out right by lot
    geometry_right: int
    strain_kcal: float | None  # median where the geometry is right


def molecules_by_sites(corpus: Path, each: int) -> list[Molecule]:
    """The first ones of the corpus with no site, one, two, and three or more: so many of each."""
    taken: dict[int, list[Molecule]] = {sites: [] for sites in range(MOST_SITES + 1)}
    seen = set()
    for conformer in read_corpus(corpus):
        molecule = parse_smiles(conformer.texts[0][0])
        flat = Chem.MolToSmiles(molecule.mol, isomericSmiles=False)
        group = taken[_class_of(molecule)]
        if molecule.heavy_atoms <= MOST_ATOMS and len(group) < each and flat not in seen:
            seen.add(flat)
            group.append(molecule)
    return [molecule for group in taken.values() for molecule in group]


def judge_model(loaded: LoadedModel, molecules: Sequence[Molecule], lp: str, batch: int) -> Judged:
    """One answer a molecule."""
    generation = Generation(loaded, molecules, Plan(lp, batch_size=batch))
    deque(generation.events(lambda: False), maxlen=0)
    judged = []
    for sample in generation.in_order():
        molecule = generation.molecule_of(sample.sample_id)
        judged.append((molecule, judge_answer(answer_of(sample.text), molecule.mol, WITH_STRAIN), sample.check.clean))
    return judged


def judge_etkdg(molecules: Sequence[Molecule]) -> Judged:
    """One conformer a molecule, written as the models write."""
    judged = []
    for molecule in molecules:
        embedded = reference_conformers(molecule, seed=ETKDG_SEED, max_seconds=EMBED_SECONDS)
        judged.append((molecule, judge_answer(encode(embedded, TRIMMED4).text, molecule.mol, WITH_STRAIN), True))
    return judged


def rates_of(writer: str, judged: Judged) -> Iterator[VerdictRates]:
    for sites in range(MOST_SITES + 1):
        group = [(clean, verdict) for molecule, verdict, clean in judged if _class_of(molecule) == sites]
        counts = Counter({name: int(total) for name, total in verdict_sums(group).items()})
        sound = [verdict for _, verdict in group if verdict.geometry_right]  # a crushed one's thousands say nothing
        strains = [verdict.strain_kcal for verdict in sound if verdict.strain_kcal is not None]
        yield VerdictRates(
            writer=writer,
            sites=f"{sites} or more" if sites == MOST_SITES else str(sites),
            molecules=len(group),
            usable=counts["usable"],
            stereo_right=counts["stereo_right"],
            sites_asked=counts["stereo_sites"],
            sites_right=counts["stereo_sites_right"],
            chance=fmean(0.5**verdict.stereo_sites for _, verdict in group) if group else 0.0,
            geometry_right=counts["geometry_right"],
            strain_kcal=median(strains) if strains else None,
        )


def section(rates: Sequence[VerdictRates], command: str) -> Iterator[str]:
    yield TITLE
    yield ""
    yield (
        f"Held-out molecules of at most {MOST_ATOMS} heavy atoms, each asked once under the LP `exact` (preset qwen3, "
        "seed 0), which forces the molecule and leaves the numbers to the model, and under `guarded`, which has blocks "
        "drawn anew that make the molecule wrong; beside them ETKDGv3, judged alike. "
        "*Sites*: stereocentres and double bonds whose stereo the SMILES states. *Stereo*: all of a molecule's are "
        "right; by lot, as many as *chance* says would be. *Geometry*: all checks of PoseBusters' `mol_fast`. "
        "*Usable*: clean text, right stereo, right geometry. *Strain*: median where the geometry is right, kcal/mol "
        "above the relaxed conformer (MMFF94)."
    )
    yield ""
    head = ("sites", "written by", "molecules", "usable", "stereo", "chance", "single sites", "geometry", "strain")
    rows = []
    for rate in sorted(rates, key=lambda rate: rate.sites):
        stereo = (
            _share(rate.stereo_right, rate.molecules),
            f"{100 * rate.chance:.0f} %",
            _share(rate.sites_right, rate.sites_asked),
        )
        rows.append(
            (
                *(rate.sites, rate.writer, str(rate.molecules), _share(rate.usable, rate.molecules)),
                *(stereo if rate.sites_asked else (NO_FIGURE,) * len(stereo)),
                _share(rate.geometry_right, rate.molecules),
                NO_FIGURE if rate.strain_kcal is None else f"{rate.strain_kcal:.1f}",
            )
        )
    yield from table(head, rows)
    yield ""
    yield f"Measured by `{command}`."


def _class_of(molecule: Molecule) -> int:
    return min(len(stereo_goals(molecule.mol)), MOST_SITES)


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.0f} %" if of else NO_FIGURE


def main(argv: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.verdict_rates", description="Verdicts on a model's conformers.")
    add = parser.add_argument
    add("--model", required=True, help="ALIAS or ALIAS:STEP of the registry")
    add("--corpus", type=Path, metavar="FOLDER", help="built with --held-out (corpus-held-out/ in the cache folder)")
    add("--molecules", type=int, help="only so many of each number of sites (100); no card is changed then")
    add("--batch", type=int, default=32)
    add("--device", default="auto")
    args = parser.parse_args(argv)

    def action() -> None:
        entry = load_registry().find(args.model)
        molecules = molecules_by_sites(args.corpus or cache_folder() / "corpus-held-out", args.molecules or 100)
        loaded = load_model(entry, args.device)
        judged = {f"{entry.name}, {lp}": judge_model(loaded, molecules, lp, args.batch) for lp in LPS_JUDGED}
        judged["ETKDGv3"] = judge_etkdg(molecules)
        rates = [rate for writer, answers in judged.items() for rate in rates_of(writer, answers)]
        for rate in rates:
            log.info("%s", json.dumps(asdict(rate)))
        if args.molecules is None and entry.card is not None:
            command = f"python -m tools.training.verdict_rates --model {entry.name}"
            figures = {"verdicts": [asdict(rate) for rate in rates], "verdicts_by": command}
            put_section(entry.card, list(section(rates, command)), figures)
            log.info("%s", entry.card)

    return run_tool(action)


if __name__ == "__main__":
    sys.exit(main())
