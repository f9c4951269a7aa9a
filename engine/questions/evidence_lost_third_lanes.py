"""Coverage by LP in the experiment `lost-third`: COV-R and COV-P, MAT, and COV-R over thresholds.

A fall that is left at 2 Å is no matter of precision. Molecules without an answer that parses count as 0; *without
missing* leaves them out, as the group does. A lane that was run at two sizes has a row each; the charts have the size
that all lanes have.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.errors import RunError
from engine.evidence.lost_third.documents import lane_of
from engine.questions.evidence_lost_third import depends, documents_of
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "What does each LP cover?"
OF = Of("run", least=0, most=0)


def models(store: Store, entries: Sequence[Entry]) -> list[str]:
    return [document["model"] for document in documents_of(store)[0]]


OPTIONS = (Option("lost_third_model", None, "Model", models),)
COLUMNS = {
    "lane": Column("LP", is_pinned=True),
    "size": Column("answers", help="Molecules, times answers of each"),
    "parsed": Column("parsed", "%"),
    "cov_r": Column("COV-R", "%"),
    "cov_p": Column("COV-P", "%"),
    "mat_r_ang": Column("MAT-R", "Å"),
    "mat_p_ang": Column("MAT-P", "Å"),
    "missing": Column("missing", help="Molecules without an answer that parses; they count as 0"),
    "skip": Column("COV-R, without missing", "%"),
    "share": Column("within 0.75 Å", "%"),
    "covered": Column("COV-R", "%"),
    "threshold": Column("threshold", "Å"),
}
CHARTS = (
    Chart("points", "share", "lane", "shares", colour="side", hover=("lane", "side", "share")),
    Chart("lines", "threshold", "covered", "curves", colour="lane", hover=("lane", "threshold", "covered")),
)
TABLES = ("main",)


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    documents = documents_of(store)[0]
    if not documents:
        raise RunError("no result of `lost-third` is here yet", "`make lost-third MODEL=demo-qwen` writes one")
    chosen = next((d for d in documents if d["model"] == options["lost_third_model"]), documents[0])
    figures = ("cov_r", "cov_p", "mat_r_ang", "mat_p_ang", "missing")
    rows = [
        {"lane": lane["words"], "size": f"{lane['molecules']:,} × {lane['samples_per_molecule']}",
         "parsed": lane["parsed"] / max(1, lane["samples"]), **{name: lane["zero"][name] for name in figures},
         "skip": lane["skip"]["cov_r"],
         "does not parse": ", ".join(f"{kind} {count:,}" for kind, count in lane["not_decoded"].items())}
        for lane in chosen["lanes"]
    ]  # fmt: skip
    few = lane_of(chosen, "none")
    size = None if few is None else few["molecules"]
    keys = dict.fromkeys(lane["lane"] for lane in chosen["lanes"])
    lanes = [lane for key in keys if (lane := lane_of(chosen, key, size)) is not None]
    shares = [{"lane": lane["words"], "side": side, "share": lane["zero"][name]} for lane in lanes
              for name, side in (("cov_r", "COV-R"), ("cov_p", "COV-P"))]  # fmt: skip
    curves = [
        {"lane": lane["words"], "threshold": threshold, "covered": share}
        for lane in lanes
        if lane["lane"] in ("none", "exact", "v4.3", "v4.3-fitted")
        for threshold, share in zip(lane["zero"]["thresholds"], lane["zero"]["cov_r_curve"], strict=True)
    ]
    return {"main": rows_table(rows, ["lane"]), "shares": rows_table(shares), "curves": rows_table(curves)}


def answer(tables: Tables, options: Options) -> str:
    rows = [row for row in tables["main"].to_pylist() if row["cov_r"] is not None]
    best, worst = (pick(rows, key=lambda row: float(row["cov_r"])) for pick in (max, min))
    return " ".join(
        f"{word} COV-R: {row['lane']}, {100 * row['cov_r']:.1f} % ({row['size']} answers)."
        for word, row in (("Highest", best), ("Lowest", worst))
    )


__all__ = ["depends"]
