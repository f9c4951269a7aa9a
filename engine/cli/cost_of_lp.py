"""``cost-of-lp``: how far a stored run's LP moved its model from what it would have written, as one number."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from engine.cli.options import add_command, add_threads_option, open_store, set_threads, whole
from engine.cli.output import StatusLine, bar, cell, emit_json, note, table, write
from engine.cli.progress_option import add_progress_options, reporting

if TYPE_CHECKING:
    from engine.inspection.lp_cost import RunCost

MOST_SAMPLES = 100_000


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "cost-of-lp",
        run,
        "how far the LP of a run moved its model: log w, log p(C), effective samples",
        "Reads the run's kept steps. Samples without them are scored by the run's model in one pass over their stored "
        "tokens; nothing is generated. What is scored of a run of your own is stored with it, as its steps.",
        store=True,
    )
    parser.add_argument("run_id", metavar="RUN", help="its id, or a part of it that no other has")
    parser.add_argument("--kept", action="store_true", help="only samples with kept steps; needs no model")
    parser.add_argument("--samples", type=whole(MOST_SAMPLES), metavar="N", help="the first N (default: all)")
    parser.add_argument("--batch-size", type=whole(4_096), default=8, help="samples that are scored at once (8)")
    parser.add_argument("--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, mps")
    add_threads_option(parser)
    add_progress_options(parser)


def run(args: argparse.Namespace) -> int:
    from engine.inspection.lp_cost import cost_of_run
    from engine.inspection.runs import run_facts
    from engine.questions.drift_lp_cost import PLACES, places_rows, sentences

    store = open_store(args)
    facts = run_facts(store, args.run_id)
    scored: dict[str, Any] = {"samples": 0, "tokens": 0, "seconds": 0.0, "stored": False}
    if args.kept:
        cost = cost_of_run(store, facts)
    else:
        cost, scored = _scored(args, facts.run_id)
    if args.json:
        known = {field.name: _plain(getattr(cost, field.name)) for field in fields(cost)}
        emit_json({"run_id": facts.run_id, "lp": facts.lp, "scored": scored, **known})
        return 0
    write("\n".join(sentences(cost, facts.lp or "the LP")))
    for words, places in zip(PLACES.values(), (cost.tenths, cost.parts, cost.elements), strict=True):
        if rows := places_rows(places):
            write(table((words, *list(rows[0])[1:]), [[cell(value) for value in row.values()] for row in rows]))
    return 0


def _scored(args: argparse.Namespace, run_id: str) -> tuple[RunCost, dict[str, Any]]:
    from engine.live.score_run import score_run

    set_threads(args.threads)
    line = StatusLine(is_quiet=args.json)
    with reporting(args) as say:

        def progress(done: int, samples: int) -> None:
            say(done=done, samples=samples)
            line.draw(f"{bar(done / samples)} {done:,}/{samples:,} samples scored", now=done == samples)

        scored = score_run(
            open_store(args),
            run_id,
            most=args.samples or 0,
            device=args.device,
            batch_size=args.batch_size,
            progress=progress,
        )
        line.clear()
        say(now=True, run_id=scored.entry.id, state="done")
    if scored.samples and not scored.is_stored:
        note(f"{run_id} lies in {scored.entry.files.where}, which is read-only: scored and printed, not stored")
    figures = {name: getattr(scored, name) for name in ("samples", "tokens", "seconds")}
    return scored.cost, {**figures, "stored": scored.is_stored}


def _plain(value: Any) -> Any:
    """As JSON: what is not finite is null."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value
