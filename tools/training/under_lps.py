"""What a registered model writes under the LPs, added to its card: blocks under each LP, and verdicts on conformers.

    python -m tools.training.under_lps --model demo-qwen:final [--corpus ~/.cache/driftscope/corpus-held-out]

*Blocks*: the fast backend writes one answer per held-out molecule under every LP. A block that a position LP closed by
force is judged by the model's own mass on closing it or going on, scored afterwards from the ids.
*Verdicts*, where a corpus is given that was built with ``--held-out``: the exact LP forces the molecule, stereo and
all, and the model writes the numbers: whether they are the molecule's is the model's own doing; the guarded LP has
blocks drawn anew. There are as many molecules of each number of stereo sites, one of each pair of mirror images. Beside
the model are ETKDGv3, judged in the same way, and chance: a half for each site.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from rdkit import Chem

from engine.chem.conformers import reference_conformers
from engine.chem.enriched import as_decimals, encode
from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import parse_smiles
from engine.chem.stereo import stereo_goals
from engine.chem.verdict import WITH_STRAIN, judge_answer
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.jobs.plan import ModelChoice, RunPlan
from engine.jobs.run import GroupWork
from engine.lp_records import LPS
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import load_registry
from engine.records import TRIMMED4, Molecule, MoleculeVerdict
from engine.store.sample_rows import verdict_row, verdict_sums
from engine.text.blocks import has_letter, has_nonnumeric
from engine.text.check import answer_of
from tools.terminal import Progress, ToolParser, markdown, run_tool
from tools.training.card import NO_FIGURE, put_section
from tools.training.corpus import read_corpus
from tools.training.molecules import EMBED_SECONDS

log = logging.getLogger(__name__)

BLOCKS, VERDICTS = "## Under the LPs", "## Are the conformers right?"
MOST_SITES, MOST_ATOMS = 3, 16
LPS_JUDGED = ("exact", "guarded")
OF_SAMPLES, OF_BLOCKS = ("passed", "decodes", "clean"), ("letters", "nonnumeric", "cut", "exact")
Rates = dict[str, Any]
"""Of one row of a table, as the card's JSON has them."""
Judged = list[tuple[Molecule, MoleculeVerdict, bool]]
"""Molecule, verdict, and whether the text is clean."""


def measure_lp(loaded: LoadedModel, molecules: Sequence[Molecule], lp: str, batch: int = 32) -> Rates:
    plan = RunPlan(ModelChoice(loaded.entry.alias, loaded.entry.step), Plan(lp, batch_size=batch))
    work = GroupWork(Generation(loaded, molecules, plan.plan), "", plan)
    for _ in work.events():
        pass
    work.rows()  # scores the samples
    samples = work.judged
    blocks = [block for sample in samples for block in sample.blocks]
    return {
        "lp": lp,
        "samples": len(samples),
        **{name: sum(getattr(sample.check, name) for sample in samples) for name in OF_SAMPLES},
        "blocks": len(blocks),
        "letters": sum(has_letter(block.text) for block in blocks),
        "nonnumeric": sum(has_nonnumeric(block.text) for block in blocks),
        "cut": sum("cut" in block.kinds for block in blocks),
        "exact": sum(block.kinds == ("exact",) for block in blocks),
        "tokens": sum(sample.tokens for sample in samples),
    }


def block_section(rates: Sequence[Rates], command: str) -> Iterator[str]:
    yield from (BLOCKS, "")
    yield (
        "The same held-out molecules, each asked once under each LP: preset qwen3, seed 0, each LP's own placeholder. "
        "*Letters* and *not numeric* are the reports' two ways to count junk. *Cut*: the LP closed the block while "
        "more than half of the model's mass wanted to go on and z had decimals left, or a number is missing or "
        "incomplete."
    )
    yield ""
    head = ("LP", "passed", "decodes", "clean", "blocks", "letters", "not numeric", "cut", "exact")
    rows = []
    for rate in rates:
        of_samples = [_share(rate[name], rate["samples"], 1) for name in OF_SAMPLES]
        of_blocks = [_share(rate[name], rate["blocks"], 1) for name in OF_BLOCKS]
        rows.append((f"`{rate['lp']}`", *of_samples, f"{rate['blocks']:,}", *of_blocks))
    yield from markdown(head, rows)
    yield from ("", f"Measured by `{command}`.")


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
    generation.run()
    judged = []
    for sample in generation.in_order():
        molecule = generation.molecule_of(sample.sample_id)
        text = as_decimals(answer_of(sample.text), generation.form, keep=True)
        judged.append((molecule, judge_answer(text, molecule.mol, WITH_STRAIN), sample.check.clean))
    return judged


def judge_etkdg(molecules: Sequence[Molecule]) -> Judged:
    """One conformer a molecule, written as the models write."""
    judged = []
    for molecule in molecules:
        embedded = reference_conformers(molecule, seed=1, max_seconds=EMBED_SECONDS)
        judged.append((molecule, judge_answer(encode(embedded, TRIMMED4).text, molecule.mol, WITH_STRAIN), True))
    return judged


def rates_of(writer: str, judged: Judged) -> Iterator[Rates]:
    """By the number of stereocentres and double bonds that a molecule states; ``chance`` is that all come out right."""
    for sites in range(MOST_SITES + 1):
        group = [(clean, verdict) for molecule, verdict, clean in judged if _class_of(molecule) == sites]
        rows = [verdict_row(clean, verdict) for clean, verdict in group]
        counts = Counter({name: int(total) for name, total in verdict_sums(rows).items()})
        # A crushed one's thousands say nothing.
        strains = [row["strain_kcal"] for row in rows if row["geometry_right"] and row["strain_kcal"] is not None]
        yield {
            "writer": writer,
            "sites": f"{sites} or more" if sites == MOST_SITES else str(sites),
            "molecules": len(group),
            **{name: counts[name] for name in ("usable", "stereo_right", "geometry_right")},
            "sites_asked": counts["stereo_sites"],
            "sites_right": counts["stereo_sites_right"],
            "chance": fmean(0.5**verdict.stereo_sites for _, verdict in group) if group else 0.0,
            "strain_kcal": median(strains) if strains else None,
        }


def verdict_section(rates: Sequence[Rates], command: str) -> Iterator[str]:
    yield from (VERDICTS, "")
    yield (
        f"Held-out molecules of at most {MOST_ATOMS} heavy atoms, each asked once under the LP `exact` (preset qwen3, "
        "seed 0), which forces the molecule and leaves the numbers to the model, and under `guarded`, which has blocks "
        "redrawn that make the molecule wrong; next to them ETKDGv3, judged in the same way. "
        "*Sites*: stereocentres and double bonds with stereo in the SMILES. *Stereo*: all of a molecule's are "
        "right; by lot, as many as *chance* says would be. *Geometry*: all checks of PoseBusters' `mol_fast`. "
        "*Usable*: clean text, right stereo, right geometry. *Strain*: median where the geometry is right, kcal/mol "
        "above the relaxed conformer (MMFF94)."
    )
    yield ""
    head = ("sites", "written by", "molecules", "usable", "stereo", "chance", "single sites", "geometry", "strain")
    rows = []
    for rate in sorted(rates, key=lambda rate: rate["sites"]):
        molecules, sites, strain = rate["molecules"], rate["sites_asked"], rate["strain_kcal"]
        stereo = [NO_FIGURE] * 3
        if sites:
            stereo = [_share(rate["stereo_right"], molecules), f"{100 * rate['chance']:.0f} %"]
            stereo.append(_share(rate["sites_right"], sites))
        geometry = [_share(rate["geometry_right"], molecules), NO_FIGURE if strain is None else f"{strain:.1f}"]
        usable = _share(rate["usable"], molecules)
        rows.append((rate["sites"], rate["writer"], str(molecules), usable, *stereo, *geometry))
    yield from markdown(head, rows)
    yield from ("", f"Measured by `{command}`.")


def _class_of(molecule: Molecule) -> int:
    return min(len(stereo_goals(molecule.mol)), MOST_SITES)


def _share(count: int, of: int, decimals: int = 0) -> str:
    return f"{100 * count / of:.{decimals}f} %" if of else NO_FIGURE


def main(argv: Sequence[str] | None = None) -> int:
    parser = ToolParser(prog="python -m tools.training.under_lps", description="A model under the LPs.")
    add = parser.add_argument
    add("--model", required=True, help="ALIAS or ALIAS:STEP of the registry")
    add("--corpus", type=Path, metavar="FOLDER", help="built with --held-out: verdicts too")
    add("--molecules", type=int, help="only so many (of each number of sites); no card is changed then")
    add("--batch", type=int, default=32)
    add("--device", default="auto")
    args = parser.parse_args(argv)

    def action() -> None:
        entry = load_registry().find(args.model)
        loaded = load_model(entry, args.device)
        command = f"python -m tools.training.under_lps --model {entry.name}"
        molecules = list(map(parse_smiles, load_run_set(200)[: args.molecules]))
        lps = [lp for lp, record in LPS.items() if record.writes(entry.numbers) and not record.by_server]
        progress, blocks = Progress("LPs", len(lps)), []
        for lp in lps:
            blocks.append(measure_lp(loaded, molecules, lp, batch=args.batch))
            log.info("%s", json.dumps(blocks[-1]))
            progress.advance(1)
        figures: dict[str, Any] = {"lps": {rate["lp"]: rate for rate in blocks}, "lps_by": command}
        sections = [(list(block_section(blocks, command)), figures)]
        if args.corpus is not None:
            chosen = molecules_by_sites(args.corpus, args.molecules or 100)
            judged = {f"{entry.name}, {lp}": judge_model(loaded, chosen, lp, args.batch) for lp in LPS_JUDGED}
            judged["ETKDGv3"] = judge_etkdg(chosen)
            rates = [rate for writer, answers in judged.items() for rate in rates_of(writer, answers)]
            for rate in rates:
                log.info("%s", json.dumps(rate))
            figures = {"verdicts": rates, "verdicts_by": command}
            sections.append((list(verdict_section(rates, command)), figures))
        if args.molecules is None and entry.card is not None:
            for lines, figures in sections:
                put_section(entry.card, lines, figures)
            log.info("%s", entry.card)

    return run_tool(action)


if __name__ == "__main__":
    raise SystemExit(main())
