"""What of a checkpoint's coverage each LP costs, measured lane by lane, and why. See docs/lost_third.md.

    python -m tools.lost_third --model demo-qwen

A lane is a stored run: its LP, placeholder and atom order, over the same held-out molecules. Lanes are distinguished by
their run's label, so a stopped experiment resumes and nothing is written twice.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from rdkit import Chem

from engine.chem.molecule_sets import load_run_set
from engine.chem.smiles import in_text_order, molecule_of, parse_smiles
from engine.cli.main import main as engine
from engine.errors import DriftscopeError, RunError, nearest
from engine.evidence.lost_third import FOLDER
from engine.figures.coverage_metrics import FIGURES
from engine.models.registry import load_registry
from engine.processes import usable_cores
from engine.store.entries import Entry
from engine.store.staging import unfinished_runs
from engine.store.store import Store
from engine.text.check import answer_of
from engine.text.placeholder import fit_placeholder
from engine.text.tokenizers import load_tokenizer
from tools.lost_third.summary import EXACT, FITTED, PLANS, REORDERED, V43, LaneSize, Texts, summary, texts_by_molecule
from tools.terminal import Progress, ToolParser, emit_json, log, markdown, run_tool

COSTED, MOST_COSTED = (EXACT, V43, "v4.3-fitted"), 8
"""Lanes of which log w is computed, over this many of their molecules: a scoring pass takes longer than the lane."""


def other_order(smiles: str, seed: int = 0) -> str:
    """The molecule's SMILES from other atoms along other branches, drawn by the seed and the molecule.

    A molecule of one or two atoms may have no other.
    """
    molecule = parse_smiles(smiles)
    rng = random.Random(f"{seed} {molecule.smiles}")
    for _ in range(20):
        order = rng.sample(range(molecule.atoms), molecule.atoms)
        text: str = Chem.MolToSmiles(Chem.RenumberAtoms(molecule.mol, order), canonical=False)
        try:
            reordered = in_text_order(molecule, text)
        except DriftscopeError:  # RDKit does not read it back
            continue
        if text != molecule.smiles and molecule_of(reordered.mol).smiles == molecule.smiles:
            return text
    return molecule.smiles


def main(argv: Sequence[str] | None = None) -> int:
    description = (
        "Writes the same held-out molecules under each LP as stored runs, and divides the fall in coverage from no LP "
        "to the reports' v4.3 into its causes. A stopped call resumes. Options after -- go to `run`, such as "
        "--submit h100."
    )
    parser = ToolParser(prog="python -m tools.lost_third", description=description)
    add = parser.add_argument
    add("--model", required=True, metavar="A", help="ALIAS or ALIAS:STEP (see `models`)")
    add("--molecules", type=int, default=200, metavar="N", help="of lanes with a small output head (200)")
    add("--samples", type=int, default=20, metavar="N", help="of each of them (20); half as many references")
    add("--wide-molecules", type=int, default=64, metavar="N", help="of lanes that need all logits (64)")
    add("--wide-samples", type=int, default=10, metavar="N", help="of each of them (10)")
    add("--lane", action="append", metavar="NAME", help="only this lane; may be repeated (default: all)")
    add("--workers", type=int, metavar="N", help="processes that compute RMSDs (default: all cores)")
    add("--store", metavar="DIR", help="(default: the app's store)")
    add("--json", action="store_true", help="the document as JSON")
    add("options", nargs="*", metavar="-- OPTION", help="for `run`")
    args = parser.parse_args(argv)
    return run_tool(lambda: experiment(args))


def experiment(args: argparse.Namespace) -> None:
    load_registry().find(args.model)  # an error before anything is begun
    for name in args.lane or ():
        if name not in PLANS:
            raise RunError(f"there is no lane {name!r}", nearest(name, list(PLANS)))
    narrow, wide = LaneSize(args.molecules, args.samples), LaneSize(args.wide_molecules, args.wide_samples)
    if wide.molecules > narrow.molecules or wide.samples > narrow.samples:
        raise RunError("the wide lanes are larger than the others", "Give fewer --wide-molecules or --wide-samples")
    store, molecules = Store.open(args.store), list(load_run_set(narrow.molecules))
    texts: dict[str, Texts] = {}
    runs: dict[str, str] = {}
    sizes: dict[str, tuple[LaneSize, ...]] = {}  # lanes without a full vocabulary are also cut to the wide size
    for key, lane in PLANS.items():
        if args.lane and key not in args.lane:
            continue
        sizes[key] = (wide,) if lane.full_vocabulary else (narrow, wide)
        run = lane_run(args, store, key, sizes[key][0], molecules, texts)
        if run is None:
            log.info("%s: another process is writing it; call again when it is done", PLANS[key].words)
            continue
        texts[key], runs[key] = texts_by_molecule(store, run), run.id
    costs = {key: cost for key in COSTED if key in runs and (cost := cost_of(args, runs[key], narrow)).get("samples")}
    counted = Progress("molecules compared", sum(size.molecules for key in runs for size in sizes[key]))
    workers = args.workers or usable_cores()
    document = {"model": args.model} | summary(runs, texts, costs, molecules, sizes, workers, counted.advance)
    # With six decimals: curves are long.
    document = json.loads(json.dumps(document), parse_float=lambda text: round(float(text), 6))
    name = f"{FOLDER}/{args.model.replace(':', '-')}.json"  # replaces an older one
    store.home.write(name, json.dumps(document, allow_nan=False).encode() + b"\n")
    log.info("Saved to %s: the Evidence page shows it.", store.home.path(name))
    if args.json:
        emit_json(document)
    else:
        print("\n".join(report(document)))


def lane_run(
    args: argparse.Namespace,
    store: Store,
    key: str,
    size: LaneSize,
    molecules: Sequence[str],
    texts: Mapping[str, Texts],
) -> Entry | None:
    lane, where = PLANS[key], ["--store", args.store] if args.store else []
    # With its size, so that a smaller trial is no part of the experiment.
    label = f"lost-third {args.model} {key} {size.molecules}x{size.samples}"

    def finished() -> Entry | None:
        return next((entry for entry in reversed(store.listing().entries) if entry.row.get("label") == label), None)

    if (entry := finished()) is not None:
        return entry
    log.info("%s: %s molecules, %d samples each", PLANS[key].words, f"{size.molecules:,}", size.samples)
    begun = [run for run in unfinished_runs(store.home) if run.row.get("label") == label]
    if begun and begun[-1].state == "being written":
        return None
    if begun:
        command("run", "--resume", begun[-1].run_id, *where, *args.options)
        return finished()
    placeholder = lane.placeholder
    if placeholder == FITTED:
        if EXACT not in texts:
            raise RunError("the fitted placeholder needs the texts of the lane exact", "Ask for --lane exact too")
        answers = [answer_of(text) for of_molecule in texts[EXACT].values() for text in of_molecule if text is not None]
        placeholder = fit_placeholder(answers, load_tokenizer(load_registry().find(args.model).tokenizer)).placeholder
    chosen = molecules[: size.molecules]
    written = [other_order(smiles) for smiles in chosen] if key == REORDERED else chosen
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "molecules.smi"
        file.write_text("".join(f"{smiles}\n" for smiles in written))
        command(
            *("run", "--smiles-file", str(file), "--model", args.model, "--label", label, *where, "--lp", lane.lp),
            *(("--placeholder", placeholder) if placeholder else ()),
            *lane.options,
            *("--sampling", "p1.0_t1.0", "--n", str(size.samples), "--seed", "0", "--no-closing", *args.options),
        )
    return finished()


def command(*words: str) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed if "--json" in words else sys.stderr):
        code = engine(list(words))
    if code == 130:  # Ctrl-C
        raise KeyboardInterrupt
    if code:
        raise RunError(f"`{words[0]}` ended with status {code}", "Its message is above; the same command resumes")
    return printed.getvalue()


def cost_of(args: argparse.Namespace, run_id: str, size: LaneSize) -> dict[str, Any]:
    """What the LP costs in nats over the first molecules; empty for a run that cannot be scored."""
    log.info("What the LP of %s costs, in nats", run_id)
    samples = min(MOST_COSTED, size.molecules) * size.samples
    where = ["--store", args.store] if args.store else []
    try:
        figures: dict[str, Any] = json.loads(command("cost-of-lp", run_id, "--samples", str(samples), "--json", *where))
    except RunError:  # its message is shown already
        return {}
    return figures


def report(document: Mapping[str, Any]) -> list[str]:
    rows = []
    for lane in document["lanes"]:
        figures = zip(("{:.1%}", "{:.1%}", "{:.3f}", "{:.3f}"), (lane["zero"][name] for name in FIGURES), strict=True)
        cells = ["-" if value is None else form.format(value) for form, value in figures]
        size = f"{lane['molecules']:,} x {lane['samples_per_molecule']}"
        rows.append((lane["words"], size, f"{lane['parsed'] / max(1, lane['samples']):.1%}", *cells))
    lines = markdown(("lane", "size", "parsed", "COV-R", "COV-P", "MAT-R Å", "MAT-P Å"), rows)
    if document["fall"]:
        changes = [("another atom order", "reordered"), ("v4.3, [OH] for [O]", "descriptors")]
        steps = [(step["step"], step) for step in document["fall"]]
        steps += [(words, document[name]) for words, name in changes if document[name]]
        lines += ["", "The fall in coverage, in points (molecules without a sample count as 0):", ""]
        rows = [(words, _points(change["cov_r"]), _points(change["cov_p"])) for words, change in steps]
        lines += markdown(("step", "COV-R", "COV-P"), rows)
    return lines


def _points(change: Mapping[str, float | None] | None) -> str:
    if change is None:
        return "-"
    low, high = change["low"], change["high"]
    ends = "" if low is None or high is None else f" ({100 * low:+.1f} .. {100 * high:+.1f})"
    return f"{100 * (change['value'] or 0):+.1f}{ends}"


if __name__ == "__main__":
    raise SystemExit(main())
