"""Why coverage fell under an LP: COV-R without filters against ETKDG conformers, as `lost-third` measured it.

The same molecules were written under each LP, read as the group reads them, and matched within 0.75 Å. A molecule
without an answer counts as 0; *without missing* leaves it out, as the group does. demo-qwen drops trailing zeros and
learnt random atom orders, demo-qwen-fixed writes four decimals, demo-qwen-canonical learnt canonical order alone. Lanes
and curves are of one model: a fall left at 2 Å is no matter of precision. Yours: `make lost-third MODEL=alias`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from engine.evidence.claims import load_claims
from engine.evidence.lost_third import load_usable
from engine.figures.words import fixed, listed, signed_hundredths
from engine.lp_records import DEFAULT_LP, NO_LP
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "Why did coverage fall by a third under an LP?"
OF = Of("run", least=0, most=0)
COLUMNS = {
    "change": Column("change of COV-R", "points", "With its 95 % interval"),
    "low": Column("from", "points", "95 % interval"),
    "high": Column("to", "points"),
    "is_fall": Column(is_hidden=True),
    "lane": Column("LP", is_pinned=True),
    "size": Column("answers", help="Molecules, times answers of each"),
    "parsed": Column("parsed", "%"),
    "cov_r": Column("COV-R", "%"),
    "cov_p": Column("COV-P", "%"),
    "mat_r_ang": Column("MAT-R", "Å"),
    "mat_p_ang": Column("MAT-P", "Å"),
    "missing": Column("missing", help="Molecules without an answer that parses; they count as 0"),
    "skip": Column("COV-R, without missing", "%"),
    "covered": Column("COV-R", "%"),
    "threshold": Column("threshold", "Å"),
}
CHARTS = (
    Chart("points", "change", "step", "fall", colour="model", low="low", high="high", line_at=0,
          hover=("model", "step", "change", "low", "high")),
    Chart("points", "cov_r", "lane", "lanes", colour="size", hover=("lane", "size", "cov_r", "cov_p")),
    Chart("lines", "threshold", "covered", "curves", colour="lane", hover=("lane", "threshold", "covered")),
)  # fmt: skip
TABLES = ("main", "lanes")
Row = dict[str, Any]


def models(store: Store, _: object) -> list[str]:
    return [document["model"] for document in load_usable(store.locations)[0]]


OPTIONS = (Option("lost_third_model", None, "Model of the lanes", models),)
CAUSES = {
    "failed parses": "because answers no longer parse",
    "placeholder and cut": "because the placeholder cuts numbers",
    "forcing the SMILES": "because the SMILES is forced",
}


def depends(store: Store, entries: Sequence[Entry], options: Options) -> str:
    return str(load_usable(store.locations))


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    documents, damaged = load_usable(store.locations)
    changes = [row for document in documents for row in changes_of(document)]
    changes.sort(key=lambda row: not row["is_fall"])
    chosen = [document for document in documents if document["model"] == options["lost_third_model"]]
    shown = (chosen or documents or [{"lanes": []}])[0]
    return {
        "main": rows_table(changes, ["model", "step", "change", "low", "high"]),
        "fall": rows_table([row for row in changes if row["is_fall"]], ["model", "step", "change"]),
        "lanes": rows_table(list(map(lane_row, shown["lanes"])), ["lane"]),
        "curves": rows_table(list(curves_of(shown)), ["lane", "threshold", "covered"]),
        "damaged": rows_table([{"what": str(error)} for error in damaged[:5]], ["what"]),
    }


def curves_of(document: Row) -> Iterator[Row]:
    """A lane that was run at two sizes has two rows, and the curves are of the size that all have."""
    size = min((lane["molecules"] for lane in document["lanes"]), default=0)
    drawn = {NO_LP, DEFAULT_LP, *(document.get("cost") or ())}  # all lanes would be too many curves
    for lane in document["lanes"]:
        if lane["lane"] in drawn and lane["molecules"] == size:
            for at, share in zip(lane["zero"]["thresholds"], lane["zero"]["cov_r_curve"], strict=True):
                yield {"lane": lane["words"], "threshold": at, "covered": share}


def changes_of(document: Row) -> Iterator[Row]:
    """What each step does to the coverage, where it was measured: first the fall, then other comparisons."""
    deltas = [(step["step"], step["cov_r"], True) for step in document["fall"] or ()]
    others = {
        "SMILES in another atom order, the exact LP": document["reordered"],
        **{f"{lane}, against no LP": delta for lane, delta in (document.get("beside_none") or {}).items()},
        "[OH] and [NH2], against plain descriptors, under v4.3": document.get("descriptors"),
    }
    deltas += [(words, (delta or {}).get("cov_r"), False) for words, delta in others.items()]
    for step, delta, is_fall in deltas:
        if delta:
            ends = {end: delta[end] for end in ("low", "high")}
            yield {"model": document["model"], "step": step, "change": delta["value"], **ends, "is_fall": is_fall}


def lane_row(lane: Row) -> Row:
    zero = lane["zero"]
    return {
        "lane": lane["words"],
        "parsed": lane["parsed"] / max(1, lane["samples"]),
        "size": f"{lane['molecules']:,} × {lane['samples_per_molecule']}",
        **{name: zero[name] for name in ("cov_r", "cov_p", "mat_r_ang", "mat_p_ang", "missing")},
        "skip": lane["skip"]["cov_r"],
        "does not parse": ", ".join(f"{kind} {count:,}" for kind, count in lane["not_decoded"].items()),
    }


def answer(tables: Tables, options: Options) -> str:
    claims = {claim.id: claim.value or 0.0 for claim in load_claims()}
    before, under = claims["005-cov-r-2"], claims["005-cov-r-lp"]
    lead = (
        f"The group's COV-R, the share of reference conformers that some answer matches within 0.75 Å, fell from "
        f"{fixed(before, 1)} to {fixed(under, 1)} %, by {fixed(before - under, 1)} points, under v4.3, their LP that "
        "fits every number into the tokens of 0.000 (report 005). Small models stand in for theirs."
    )
    falls: dict[str, dict[str, float]] = {}
    for row in tables["fall"].to_pylist():
        falls.setdefault(row["model"], {})[row["step"]] = row["change"]
    losses, forced = [], []
    for model, steps in sorted(falls.items(), key=lambda pair: pair[1]["in all"]):
        whole, cause = steps["in all"], min(CAUSES, key=lambda name: steps[name])
        lost, by_cause = (signed_hundredths(change) for change in (whole, steps[cause]))
        words = f"{model} {'gains' if whole > 0 else 'loses'} {lost.lstrip('+−')} points"
        of = "all" if by_cause == lost else f"{by_cause.lstrip('+−')} of them"
        losses.append(words + (f", {of} {CAUSES[cause]}" if whole < 0 else ""))
        forced.append(f"{signed_hundredths(steps['forcing the SMILES'])} ({model})")
    lines, rows = [lead], tables["main"].to_pylist()
    if not tables["lanes"].num_rows:
        lines.append("Nothing is measured in this store yet: `make lost-third MODEL=demo-qwen` does so in two hours.")
    if losses:
        lines.append(
            f"Under v4.3, {'; '.join(losses)}. Forcing the SMILES alone, in canonical atom order, changes "
            f"COV-R by {listed(forced)} points."
        )
    other = [(row["change"], row["model"]) for row in rows if row["step"].startswith("SMILES in another")]
    if other:
        off, model = min(other)
        lines.append(
            f"Forcing a SMILES in another atom order changes COV-R by {signed_hundredths(off)} points more ({model})."
        )
    note = (
        "A possible cause that no report names: the group's LPs force [OH] and [NH2] for a heteroatom with hydrogens, "
        "and its Qwen model was trained on [O] and [N]; what that does to it cannot be shown here."
    )
    return answer_text(lines, [note, *tables["damaged"]["what"].to_pylist()])
