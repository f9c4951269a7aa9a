"""``claims``: what the reports state, re-checked."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_command, open_store
from engine.cli.output import emit_json, note, table, write
from engine.errors import one_line

if TYPE_CHECKING:
    from engine.evidence.claims import Claim
    from engine.evidence.verdicts import Verdict

MOST_CELL = 90
NAMES = ("reproduced", "contradicted", "internally inconsistent", "not shown on these models", "not testable here")
COLUMNS = ("claim", "section", "verdict", "reported", "measured", "unit", "about")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    what = "the reports' claims, each checked now"
    description = "Every claim of the reports with a verdict that is computed now."
    parser = add_command(commands, "claims", run, what, description, store=True)
    parser.add_argument("ids", nargs="*", metavar="CLAIM", help="only these claims, in detail (default: all)")
    parser.add_argument(
        "--report", choices=("000", "001", "002", "003", "004", "005"), help="only this report's claims"
    )
    parser.add_argument("--verdict", choices=NAMES, metavar="V", help=f"only this verdict: {', '.join(NAMES)}")
    parser.add_argument(
        "--save", action="store_true", help="re-check all claims, and save the verdicts in data/claims/"
    )


def run(args: argparse.Namespace) -> int:
    from engine.errors import FileFormatError, nearest
    from engine.evidence.claims import load_claims
    from engine.evidence.verdicts import document, judge

    claims = load_claims()
    known = [claim.id for claim in claims]
    if unknown := sorted(set(args.ids) - set(known)):
        raise FileFormatError(f"there is no claim {unknown[0]}", nearest(unknown[0], known))
    if args.save:
        return _save(args)
    chosen = [claim for claim in claims if claim.id in (args.ids or known) and args.report in (None, claim.report)]
    judged = zip(chosen, judge(chosen, open_store(args)), strict=True)
    shown = [(claim, verdict) for claim, verdict in judged if args.verdict in (None, verdict.verdict)]
    if args.json:
        emit_json([document(claim, verdict) for claim, verdict in shown])
    elif args.ids:
        write("\n\n".join(_details(claim, verdict) for claim, verdict in shown))
    else:
        write(table(COLUMNS, [_row(claim, verdict) for claim, verdict in shown]))
        _count([verdict for _, verdict in shown])
    return 0


def _save(args: argparse.Namespace) -> int:
    from engine.evidence.verdicts import FILE, judge_all, save

    judgement = judge_all(open_store(args))
    save(judgement)
    if args.json:
        emit_json({"file": str(FILE), "counts": {str(name): count for name, count in judgement.counts.items()}})
    else:
        _count(judgement.verdicts)
        write(str(FILE))
    return 0


def _row(claim: Claim, verdict: Verdict) -> tuple[str, ...]:
    from engine.evidence.formula import said

    measured = "" if verdict.measured is None else said(verdict.measured)
    subject = one_line(claim.subject)[:MOST_CELL]
    return (claim.id, claim.section, verdict.verdict, claim.reported, measured, verdict.unit, subject)


def _details(claim: Claim, verdict: Verdict) -> str:
    place = f"{claim.id} (report {claim.report}, {', '.join(claim.sections)})"
    lines = (place, claim.statement, f"{verdict.verdict}: {verdict.reason}", f"by: {verdict.query}")
    return "\n".join(one_line(line) for line in lines)


def _count(verdicts: Any) -> None:
    counts = Counter(verdict.verdict for verdict in verdicts)
    note(f"{len(verdicts)} claims: {', '.join(f'{counts[name]} {name}' for name in NAMES if counts[name])}")
