"""``evaluate``: COV and MAT of a stored run against references, or of RMSD matrices, as the field defines them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_command, finite, open_store, whole
from engine.cli.output import StatusLine, bar, emit_json, read_text, table, write
from engine.cli.progress_option import add_progress_options, reporting
from engine.errors import RunError

if TYPE_CHECKING:
    from engine.comparing.evaluation import Evaluation, EvaluationRequest, Side
    from engine.store.store import Store

TITLES = ("COV-R", "COV-P", "MAT-R", "MAT-P")
MOST_REFERENCES, MOST_THRESHOLD_ANG = 1_000, 100.0


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "evaluate",
        run,
        "coverage (COV) and matching (MAT) of a run against reference conformers",
        "COV-R/P and MAT-R/P of a run's conformers against references, beside clustered RDKit conformers: mean and "
        "median over molecules, and curves over thresholds. A stopped call resumes.",
        store=True,
    )
    parser.add_argument("run_id", metavar="RUN", nargs="?", help="its id, or a part of it that no other has")
    add = parser.add_argument
    add("--references", metavar="NAME", help="references of the store (see `references`; default: ETKDG)")
    add(
        "--per-molecule",
        type=whole(MOST_REFERENCES),
        metavar="K",
        help="references by ETKDG where none are named (10)",
    )
    add("--matrices", metavar="FILE", help="RMSD matrices in place of a run: JSON, {molecule: [[rmsd, ...] ...]}")
    add(
        "--missing",
        choices=("skip", "zero"),
        default="skip",
        help="molecules without a sample: left out (default), or 0 in COV and left out of MAT",
    )
    add(
        "--threshold",
        type=finite(MOST_THRESHOLD_ANG, above=0),
        metavar="ANG",
        default=0.75,
        help="of COV (default 0.75)",
    )
    add("--no-baseline", action="store_true", help="leave the clustered RDKit conformers out")
    add("--workers", type=whole(256), metavar="N", help="processes that compute RMSDs (default: all cores)")
    add_progress_options(parser)


def run(args: argparse.Namespace) -> int:
    if (args.run_id is None) == (args.matrices is None):
        raise RunError("give either a run or --matrices", "`runs` lists the runs")
    return _of_matrices(args) if args.run_id is None else _of_run(args)


def _of_matrices(args: argparse.Namespace) -> int:
    from engine.comparing.matrices_file import read_matrices
    from engine.figures.coverage_metrics import figures_of, over_molecules

    matrices = read_matrices(read_text(args.matrices)).values()
    figures = over_molecules([figures_of(matrix, args.threshold) for matrix in matrices], args.missing)
    document = _head(args) | figures.columns()
    if args.json:
        emit_json(document)
    else:
        _write(document)
    return 0


def _of_run(args: argparse.Namespace) -> int:
    from engine.comparing.evaluation import evaluate_run

    line = StatusLine(is_quiet=args.json)
    with reporting(args) as say:

        def progress(done: int, molecules: int) -> None:
            say(done=done, molecules=molecules, work=done / molecules)
            line.draw(f"{bar(done / molecules)} {done:,}/{molecules:,} molecules evaluated", now=done == molecules)

        store = open_store(args)
        found = evaluate_run(store, args.run_id, _request(args, store), workers=args.workers, progress=progress)
        line.clear()
        say(now=True, run_id=found.entry.id, state="done")
    document = _document(args, found)
    if args.json:
        emit_json(document)
    else:
        _write(document)
    return 0


def _request(args: argparse.Namespace, store: Store) -> EvaluationRequest:
    from engine.comparing.evaluation import PER_MOLECULE, EvaluationRequest
    from engine.store.references import reference_set

    if args.references and args.per_molecule:
        raise RunError("--per-molecule is of references by ETKDG", "Give it or --references")
    return EvaluationRequest(
        None if args.references is None else reference_set(store, args.references),
        per_molecule=args.per_molecule or PER_MOLECULE,
        threshold_ang=args.threshold,
        rule=args.missing,
        baseline=not args.no_baseline,
    )


def _head(args: argparse.Namespace) -> dict[str, Any]:
    return {"threshold_ang": args.threshold, "missing_rule": args.missing}


def _document(args: argparse.Namespace, found: Evaluation) -> dict[str, Any]:
    """Shares are from 0 to 1, null where there is nothing to share."""
    references = found.request.references
    of_run = _counts(found.run) | {"asked": found.asked}
    baseline = None
    if found.baseline is not None and found.clustered is not None:
        baseline = found.baseline.columns() | _counts(found.clustered) | {"method": "clustered RDKit conformers"}
    return {
        "run_id": found.entry.id,
        "references": None if references is None else references.name,
        "etkdg_per_molecule": found.request.per_molecule if references is None else None,
        "reference_conformers": found.references,
        "without_references": found.without_references,
        "references_not_asked": found.not_asked,
        **_head(args),
        **found.figures.columns(),
        **of_run,
        "baseline": baseline,
    }


def _counts(side: Side) -> dict[str, int]:
    return {"samples": side.samples, "incomplete": side.incomplete}


def _write(document: dict[str, Any]) -> None:
    from engine.figures.coverage_metrics import FIGURES

    sides = {"": document} | ({"RDKit ": document["baseline"]} if document.get("baseline") else {})
    columns = [f"{side}{name}" for side in sides for name in ("mean", "median")]
    rows = [
        (title, *(_cell(name, side[key]) for side in sides.values() for key in (name, f"{name}_median")))
        for title, name in zip(TITLES, FIGURES, strict=True)
    ]
    write(table((f"at {document['threshold_ang']:g} Å", *columns), rows))
    rule = "left out" if document["missing_rule"] == "skip" else "counted as 0 in COV and left out of MAT"
    write(f"{document['molecules']:,} molecules; {document['missing']:,} without a single sample, {rule}")
    if "run_id" in document:
        _write_counts(document)


def _write_counts(document: dict[str, Any]) -> None:
    name = document["references"]
    which = f"references of {name}" if name else "references, conformers by RDKit's ETKDG (no --references given)"
    write(
        f"{document['run_id']}: {document['samples']:,} conformers of {document['asked']:,} samples against "
        f"{document['reference_conformers']:,} {which}"
    )
    if document["without_references"]:
        write(f"{document['without_references']:,} molecules have no references and are left out")
    if document["references_not_asked"]:
        write(f"{document['references_not_asked']:,} molecules of {name} were never asked for and are left out")
    if document["incomplete"]:
        write(f"{document['incomplete']:,} molecules have more symmetries than were tried: upper bounds")
    baseline = document["baseline"]
    if baseline is not None:
        write(
            f"RDKit: as many clustered conformers per molecule as the run has samples of it ({baseline['samples']:,})"
        )


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.1%}" if name.startswith("cov") else f"{value:.3f} Å"
