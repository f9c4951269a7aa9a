"""``lost-third``: what of a checkpoint's coverage each LP costs, measured lane by lane, and why."""

from __future__ import annotations

import argparse
import io
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_command, open_store, whole
from engine.cli.output import StatusLine, bar, emit_json, note, table, write
from engine.errors import RunError, nearest
from engine.processes import usable_cores

if TYPE_CHECKING:
    from engine.evidence.lost_third.coverage import Texts
    from engine.evidence.lost_third.lanes import LanePlan, LaneSize
    from engine.store.entries import Entry
    from engine.store.store import Store

MOST_MOLECULES, MOST_SAMPLES = 2_990, 1_000
CTRL_C = 130
TITLES = ("COV-R", "COV-P", "MAT-R Å", "MAT-P Å")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "lost-third",
        run,
        "what of a model's coverage each LP costs, and why",
        "Writes the same held-out molecules under each LP as stored runs, and takes the fall in coverage from no LP to "
        "the reports' v4.3 apart. A stopped call resumes. Options behind -- go to `run`, such as --submit h100.",
        store=True,
    )
    add = parser.add_argument
    add("--model", required=True, metavar="A", help="ALIAS or ALIAS:STEP (see `models`)")
    molecules, samples = whole(MOST_MOLECULES), whole(MOST_SAMPLES)
    add("--molecules", type=molecules, default=200, metavar="N", help="of lanes with a small output head (200)")
    add("--samples", type=samples, default=20, metavar="N", help="of each of them (20); half as many references")
    add("--wide-molecules", type=molecules, default=64, metavar="N", help="of lanes that need all logits (64)")
    add("--wide-samples", type=samples, default=10, metavar="N", help="of each of them (10)")
    add("--lane", action="append", metavar="NAME", help="only this lane; may be repeated (default: all)")
    add("--workers", type=whole(256), metavar="N", help="processes that compute RMSDs (default: all cores)")
    add("options", nargs="*", metavar="-- OPTION", help="for `run`")


def run(args: argparse.Namespace) -> int:
    from engine.chem.molecule_sets import load_run_set
    from engine.evidence.lost_third.coverage import texts_by_molecule
    from engine.evidence.lost_third.documents import rounded, save
    from engine.evidence.lost_third.lanes import LANES, LaneSize
    from engine.models.registry import load_registry

    load_registry().find(args.model)  # an error before anything is begun
    for name in args.lane or ():
        if name not in LANES:
            raise RunError(f"there is no lane {name!r}", nearest(name, list(LANES)))
    narrow, wide = LaneSize(args.molecules, args.samples), LaneSize(args.wide_molecules, args.wide_samples)
    if wide.molecules > narrow.molecules or wide.samples > narrow.samples:
        raise RunError("the wide lanes are larger than the others", "Give fewer --wide-molecules or --wide-samples")
    store, molecules = open_store(args), list(load_run_set(narrow.molecules))
    texts: dict[str, Texts] = {}
    runs: dict[str, str] = {}
    for lane in LANES.values():
        if args.lane and lane.key not in args.lane:
            continue
        entry = _lane_run(args, store, lane, wide if lane.full_vocabulary else narrow, molecules, texts)
        if entry is None:
            note(f"{lane.words}: others are writing it; call again when they are done")
            continue
        texts[lane.key], runs[lane.key] = texts_by_molecule(store, entry), entry.id
    document = rounded(_document(args, runs, texts, molecules, (narrow, wide)))
    note(f"Kept in {save(document, store.home)}: the Evidence page shows it.")
    if args.json:
        emit_json(document)
    else:
        _write(document)
    return 0


def _lane_run(
    args: argparse.Namespace,
    store: Store,
    lane: LanePlan,
    size: LaneSize,
    molecules: Sequence[str],
    texts: Mapping[str, Texts],
) -> Entry | None:
    """The lane's finished run: as it is, resumed, or written now. None where others write it."""
    from engine.evidence.lost_third.lanes import other_order
    from engine.store.unfinished import unfinished_runs

    label = lane.label(args.model, size)
    if (entry := _finished(store, label)) is not None:
        return entry
    note(f"{lane.words}: {size.molecules:,} molecules, {size.samples} samples each")
    begun = [found for found in unfinished_runs(store.home) if found.row.get("label") == label]
    if begun and begun[-1].state == "being written":
        return None
    where = ["--store", args.store] if args.store else []
    if begun:
        _command("run", "--resume", begun[-1].run_id, *where, *args.options)
        return _finished(store, label)
    chosen = molecules[: size.molecules]
    written = [other_order(smiles) for smiles in chosen] if lane.order == "written" else chosen
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "molecules.smi"
        file.write_text("".join(f"{smiles}\n" for smiles in written))
        placeholder = _placeholder(args, lane, texts)
        what = ("--model", args.model, *lane.options(size, placeholder), "--label", label, *where, *args.options)
        _command("run", "--smiles-file", str(file), *what)
    return _finished(store, label)


def _placeholder(args: argparse.Namespace, lane: LanePlan, texts: Mapping[str, Texts]) -> str:
    from engine.evidence.lost_third.lanes import EXACT, FITTED
    from engine.models.registry import load_registry
    from engine.text.check import answer_of
    from engine.text.placeholder import fit_placeholder
    from engine.text.tokenizers import load_tokenizer

    if lane.placeholder != FITTED:
        return lane.placeholder
    if EXACT not in texts:
        raise RunError("the fitted placeholder needs the texts of the lane exact", "Ask for --lane exact too")
    answers = [answer_of(text) for of_molecule in texts[EXACT].values() for text in of_molecule if text is not None]
    return fit_placeholder(answers, load_tokenizer(load_registry().find(args.model).tokenizer)).placeholder


def _finished(store: Store, label: str) -> Entry | None:
    runs = [entry for entry in store.found().entries if entry.row.get("label") == label]
    return runs[-1] if runs else None


def _command(*words: str) -> str:
    """A command of the terminal in this process: what it prints, or without --json, tables among the progress."""
    from engine.cli.main import main

    printed = io.StringIO()
    with redirect_stdout(printed if "--json" in words else sys.stderr):
        code = main(list(words))
    if code == CTRL_C:
        raise KeyboardInterrupt
    if code:
        raise RunError(f"`{words[0]}` ended with status {code}", "Its message stands above; the same command resumes")
    return printed.getvalue()


def _document(
    args: argparse.Namespace,
    runs: Mapping[str, str],
    texts: Mapping[str, Texts],
    molecules: Sequence[str],
    sizes: tuple[LaneSize, LaneSize],
) -> dict[str, Any]:
    from engine.evidence.lost_third.lanes import COSTED
    from engine.evidence.lost_third.summary import Lanes, summary

    line, workers = StatusLine(is_quiet=args.json), args.workers or usable_cores()

    def told(words: str, done: int, total: int) -> None:
        line.draw(f"{bar(done / total)} {done:,}/{total:,} {words}", now=done == total)

    costs = {key: cost for key in COSTED if key in runs and (cost := _cost(args, runs[key], sizes[0])).get("samples")}
    document = summary(Lanes(runs, texts, costs, molecules, *sizes), workers, told)
    line.clear()
    return {"model": args.model, **document}


def _cost(args: argparse.Namespace, run_id: str, size: LaneSize) -> dict[str, Any]:
    """Log w and what goes with it, of the first molecules, scored once; nothing of a run that cannot be scored."""
    from engine.evidence.lost_third.lanes import MOST_COSTED

    note(f"What the LP of {run_id} costs, in nats")
    samples = min(MOST_COSTED, size.molecules) * size.samples
    where = ["--store", args.store] if args.store else []
    try:
        found: dict[str, Any] = json.loads(_command("cost-of-lp", run_id, "--samples", str(samples), "--json", *where))
    except RunError:  # its message stands there already
        return {}
    return found


def _write(document: Mapping[str, Any]) -> None:
    from engine.figures.coverage_metrics import FIGURES

    rows = []
    for lane in document["lanes"]:
        figures = [lane["zero"][name] for name in FIGURES]
        size = f"{lane['molecules']:,} x {lane['samples_per_molecule']}"
        cells = ["-" if value is None else form.format(value) for form, value in zip(FORMS, figures, strict=True)]
        rows.append((lane["words"], size, f"{lane['parsed'] / max(1, lane['samples']):.1%}", *cells))
    write(table(("lane", "size", "parsed", *TITLES), rows))
    if document["fall"]:
        write("\nThe fall in coverage, in points (molecules without a sample count as 0):")
        write(
            table(
                ("step", *TITLES[:2]), [(s["step"], _points(s["cov_r"]), _points(s["cov_p"])) for s in document["fall"]]
            )
        )
    if document["reordered"]:
        change = _points(document["reordered"]["cov_r"])
        write(f"\nWritten in another atom order, the exact LP's COV-R changes by {change} points.")
    if document["descriptors"]:
        change = _points(document["descriptors"]["cov_r"])
        write(f"\nWith descriptors such as [OH] in place of [O], v4.3's COV-R changes by {change} points.")


FORMS = ("{:.1%}", "{:.1%}", "{:.3f}", "{:.3f}")


def _points(found: Mapping[str, float | None] | None) -> str:
    if found is None:
        return "-"
    ends = (
        ""
        if found["low"] is None or found["high"] is None
        else f" ({100 * found['low']:+.1f} .. {100 * found['high']:+.1f})"
    )
    return f"{100 * (found['value'] or 0):+.1f}{ends}"
