"""``claims``: what the reports state, judged anew."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from engine.cli.main import emit_json
from engine.cli.output import json_option, table, write
from engine.cli.run import add_store_option
from engine.errors import one_line

if TYPE_CHECKING:
    from engine.evidence.claims import Claim
    from engine.evidence.verdicts import Verdict

MOST_CELL = 90
NAMES = ("reproduced", "contradicted", "internally inconsistent", "not testable here")
COLUMNS = ("claim", "section", "verdict", "reported", "measured", "unit", "about")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "claims",
        parents=[json_option()],
        help="the reports' claims, each judged now",
        description="Every claim of the five reports with a verdict that is computed now.",
    )
    parser.add_argument("ids", nargs="*", metavar="CLAIM", help="only these, told at length; all without it")
    parser.add_argument("--report", choices=("000", "001", "002", "003", "004"), help="only this report's")
    parser.add_argument("--verdict", choices=NAMES, metavar="V", help=f"only these: {', '.join(NAMES)}")
    parser.add_argument("--save", action="store_true", help="all claims, and keep the verdicts in data/claims/")
    add_store_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from engine.errors import FileFormatError, nearest
    from engine.evidence.claims import load_claims
    from engine.evidence.documents import document
    from engine.evidence.verdicts import judge
    from engine.store.store import Store

    claims = load_claims()
    unknown = set(args.ids) - {claim.id for claim in claims}
    if unknown:
        wrong = min(unknown)
        raise FileFormatError(f"there is no claim {wrong}", nearest(wrong, [claim.id for claim in claims]))
    if args.save:
        return _save(args)
    named = [claim for claim in claims if not args.ids or claim.id in args.ids]
    asked = [claim for claim in named if args.report in (None, claim.report)]
    judged = list(zip(asked, judge(asked, Store.open(args.store)), strict=True))
    shown = [(claim, verdict) for claim, verdict in judged if args.verdict in (None, verdict.verdict)]
    if args.json:
        emit_json([document(claim, verdict) for claim, verdict in shown])
    elif args.ids:
        write("\n\n".join(_at_length(claim, verdict) for claim, verdict in shown))
    else:
        write(table(COLUMNS, [_row(claim, verdict) for claim, verdict in shown]))
        _count([verdict for _, verdict in shown])
    return 0


def _save(args: argparse.Namespace) -> int:
    from engine.evidence.verdicts import FILE, judge_all, save
    from engine.store.store import Store

    judgement = judge_all(Store.open(args.store))
    save(judgement)
    if args.json:
        emit_json({"file": str(FILE), "counts": {str(name): count for name, count in judgement.counts.items()}})
    else:
        _count(judgement.verdicts)
        write(str(FILE))
    return 0


def _row(claim: Claim, verdict: Verdict) -> tuple[str, ...]:
    from engine.evidence.checks.finding import said

    measured = "" if verdict.measured is None else said(verdict.measured)
    subject = one_line(claim.subject)[:MOST_CELL]
    return (claim.id, claim.section, verdict.verdict, claim.reported, measured, verdict.unit, subject)


def _at_length(claim: Claim, verdict: Verdict) -> str:
    place = f"{claim.id} (report {claim.report}, {', '.join(claim.sections)})"
    lines = (place, claim.statement, f"{verdict.verdict}: {verdict.reason}", f"by: {verdict.query}")
    return "\n".join(one_line(line) for line in lines)


def _count(verdicts: Any) -> None:
    found = {name: sum(one.verdict == name for one in verdicts) for name in NAMES}
    told = ", ".join(f"{count} {name}" for name, count in found.items() if count)
    sys.stderr.write(f"{len(verdicts)} claims: {told}\n")
