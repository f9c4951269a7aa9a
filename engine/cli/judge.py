"""``judge``: whether molecules are right in space, of one text or of a stored run."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_command, open_store, whole
from engine.cli.output import StatusLine, bar, emit_json, given_text, note, table, write
from engine.cli.progress_option import add_progress_options, reporting
from engine.errors import RunError

if TYPE_CHECKING:
    from engine.chem.verdict import JudgeSettings
    from engine.inspection.judging import JudgedRun

OF_SAMPLE = (
    "sample_id generation smiles heavy_atoms passed decodes clean stereo_right geometry_right usable failed "
    "strain_kcal strain_moved_ang strain_field"
).split()
RATES = {
    "passed": "samples",
    "decodes": "samples",
    "clean": "samples",
    "stereo_right": "stereo_judged",
    "geometry_right": "geometry_judged",
    "usable": "judged",
}
"""Columns of a run, and what each is a share of."""
COUNTS = ("judged", "stereo_judged", "stereo_sites", "stereo_sites_right", "geometry_judged")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "judge",
        run,
        "whether molecules are right in space: stereo, geometry, strain",
        "Judges the molecules of a stored run, or of one text. What is judged of a run of your own is stored with it.",
        store=True,
        rules=True,
    )
    parser.add_argument("run_id", metavar="RUN", nargs="?", help="its id, or a part of it that no other has")
    parser.add_argument("--text", help="one answer in place of a run; - reads standard input")
    parser.add_argument("--smiles", metavar="S", help="the molecule that the text should be (default: its own)")
    add = parser.add_argument
    add("--strain", action="store_true", help="also the energy above the relaxed conformer (MMFF94)")
    add("--xtb", action="store_true", help="strain by GFN2-xTB, with tblite (requirements-xtb.txt)")
    add("--settings", choices=("mol_fast", "mol", "group"), default="mol_fast", help="PoseBusters' checks of geometry")
    add("--energy", action="store_true", help="its energy ratio too (settings mol, group; a second each)")
    add("--workers", type=whole(256), metavar="N", help="processes that judge (default: all cores)")
    add("--limit", type=whole(86_400), metavar="S", help="seconds per molecule (default 60)")
    add_progress_options(parser)


def settings_of(args: argparse.Namespace) -> JudgeSettings:
    from engine.chem.verdict import JudgeSettings

    if args.energy and args.settings == "mol_fast":
        raise RunError(
            "the settings mol_fast have no energy ratio", "Give --settings mol or group, or leave --energy out"
        )
    return JudgeSettings(args.settings, args.energy, "gfn2-xtb" if args.xtb else "force-field" if args.strain else None)


def run(args: argparse.Namespace) -> int:
    if (args.run_id is None) == (args.text is None):
        raise RunError("give either a run or --text", "`runs` lists the runs")
    if args.text is not None:
        return _judge_text(args)
    if args.smiles:
        raise RunError("--smiles goes with --text", "A run knows its molecules")
    return _judge_run(args)


def _judge_text(args: argparse.Namespace) -> int:
    from engine.chem.judges import LIMIT_S
    from engine.chem.verdict import strain_words
    from engine.inspection.judging import judge_text

    text, smiles = given_text(args.text, None), args.smiles or ""
    row = judge_text(text, smiles, settings_of(args), limit_s=args.limit or LIMIT_S)
    if args.json:
        emit_json(row)
        return 0
    for name in RATES:
        write(f"{name.replace('_', ' '):<15} {_yes(row, name)}")
    if row["strain_kcal"] is not None:
        write(f"{'strain':<15} {strain_words(row)}")
    if row["issues"]:
        write(f"{'issues':<15} {'; '.join(row['issues'])}")
    if row["failed"]:
        failed = [(check["check"], "-".join(map(str, check["atoms"])), check["detail"]) for check in row["failed"]]
        write(table(("failed", "atoms", ""), failed))
    return 0


def _judge_run(args: argparse.Namespace) -> int:
    from engine.chem.judges import LIMIT_S
    from engine.inspection.judging import judge_run

    line = StatusLine(is_quiet=args.json)
    with reporting(args) as say:

        def progress(done: int, samples: int) -> None:
            say(done=done, samples=samples)
            line.draw(f"{bar(done / samples)} {done:,}/{samples:,} samples judged", now=done == samples)

        judged = judge_run(
            open_store(args),
            args.run_id,
            settings_of(args),
            workers=args.workers,
            limit_s=args.limit or LIMIT_S,
            progress=progress,
        )
        line.clear()
        say(now=True, run_id=judged.entry.id, state="done")
    for words in judged.not_finished:
        note(words)
    if not judged.is_stored:
        where = judged.entry.files.where
        note(f"{judged.entry.id} lies in {where}, which is read-only: judged and printed, not stored")
    if args.json:
        emit_json(_document(judged))
    else:
        _write_rates(judged)
    return 0


def _document(judged: JudgedRun) -> dict[str, Any]:
    """Rates are shares from 0 to 1, null where there is nothing to share."""
    rules = {
        name: None if any(row[name] is None for row in judged.rows) else sum(row[name] for row in judged.rows)
        for name in ("passed", "clean")
    }
    columns = {"samples": len(judged.rows), **rules, **judged.columns}
    return {
        "run_id": judged.entry.id,
        "stored": judged.is_stored,
        "judged_with": columns["judged_with"],
        **{name: columns.get(name, 0) for name in COUNTS},
        **{
            name: columns[name] / columns[whole] if columns.get(whole) and columns.get(name) is not None else None
            for name, whole in RATES.items()
        },
        "strain_kcal": columns.get("strain_kcal"),
        **_strain_means([row for row in judged.rows if row["geometry_right"] and "strain_kcal" in columns]),
        "samples": [{name: row[name] for name in OF_SAMPLE} for row in judged.rows],
    }


def _strain_means(right: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Per heavy atom, and how far these move: means over samples with right geometry, as the run's strain is."""
    from engine.chem.verdict import strain_per_atom

    shares = [share for row in right if (share := strain_per_atom(row)) is not None]
    moves = [row["strain_moved_ang"] for row in right if row["strain_moved_ang"] is not None]
    return {
        "strain_kcal_per_atom": fmean(shares) if shares else None,
        "strain_moved_ang": fmean(moves) if moves else None,
    }


def _write_rates(judged: JudgedRun) -> None:
    document = _document(judged)
    counts = {**document, "samples": len(judged.rows)}
    rows = [
        (name.replace("_", " "), "" if document[name] is None else f"{document[name]:.1%}", f"of {counts[whole]:,}")
        for name, whole in RATES.items()
    ]
    write(table(("", "share", "samples"), rows))
    if document["strain_kcal"] is not None:
        per_atom, moved = document["strain_kcal_per_atom"], document["strain_moved_ang"]
        share = "" if per_atom is None else f", {per_atom:,.2f} per heavy atom"
        moves = "" if moved is None else f"; heavy atoms move {moved:.2f} Å"
        write(f"strain: {document['strain_kcal']:,.1f} kcal/mol{share}{moves}: means where geometry is right")
    failed = Counter(check for row in judged.rows for check in {failure["check"] for failure in row["failed"] or ()})
    if failed:
        write(table(("failed check", "samples"), failed.most_common()))
    write(f"{judged.entry.id}: {document['judged_with']}")


def _yes(row: Mapping[str, Any], name: str) -> str:
    from engine.chem.verdict import is_stereo_judged

    if row[name] is None:
        return "nothing to judge" if name == "stereo_right" and is_stereo_judged(row) else "not judged"
    return "yes" if row[name] else "no"
