"""The pieces that a run's junk is made of, by count, script and probability before the LP.

With token ids a token counts where at least one of its characters is junk; where only texts are stored, junk is split
into runs of characters of one script. Invisible characters are escaped, spaces are marked. Whether the model would have
written the junk without an LP is not known here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.errors import visible
from engine.figures.words import counted, percent
from engine.inspection.lexicon import JunkPiece, lexicon_of
from engine.inspection.runs import facts_of
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store

TITLE = "What is the junk made of?"
OF = Of("run")
OPTIONS = ()
RARE, MOST_SCRIPTS = 0.001, 10
COLUMNS = {
    "piece": Column("piece", is_pinned=True),
    "token_id": Column("token id"),
    "script": Column("script"),
    "count": Column("count"),
    "samples": Column("samples", help="That have it"),
    "mean_p_raw": Column("mean p(raw)", help="Its probability before the LP, where steps are stored"),
    "tokens_with_p_raw": Column("with steps", help="How many of them have stored steps"),
    "pieces": Column("junk pieces by script"),
}
CHARTS = (Chart("bars", "pieces", "script", "scripts", colour="", text="words"),)
TABLES = ("main",)


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    run = facts_of(entries[0])
    lexicon = lexicon_of(store, run)
    rows = [
        {"piece": shown(piece), "token_id": piece.token_id, "script": piece.script, "count": piece.count,
         "samples": piece.samples, "mean_p_raw": piece.mean_p_raw, "tokens_with_p_raw": piece.known}
        for piece in lexicon.pieces
    ]  # fmt: skip
    counts: Counter[str] = Counter()
    for piece in lexicon.pieces:
        counts[piece.script] += piece.count
    scripts = counts.most_common(MOST_SCRIPTS)
    rest = counts.total() - sum(count for _, count in scripts)
    scripts += [("others", rest)] if rest else []
    about = {
        "read": lexicon.read,
        "with_junk": lexicon.with_junk,
        "by_token": lexicon.by_token,
        "has_blocks": run.has_blocks,
    }
    return {
        "main": rows_table(rows, list(COLUMNS)[:-1]),
        "scripts": rows_table([{"script": name, "pieces": count, "words": f"{count:,}"} for name, count in scripts]),
        "about": rows_table([about]),
    }


def shown(piece: JunkPiece) -> str:
    return "".join("␣" if char == " " else visible(char) for char in piece.piece)


def answer(tables: Tables, options: Options) -> str:
    rows, about = tables["main"].to_pylist(), tables["about"].to_pylist()[0]
    if not rows:
        return (
            "No block contains junk." if about["has_blocks"] else "This run stored no blocks, so its junk is unknown."
        )
    what = "junk tokens" if about["by_token"] else "runs of junk characters (only texts are stored, not tokens)"
    most = ", ".join(f"“{row['piece']}” {row['count']:,}×" for row in rows[:3])
    words = f"{sum(row['count'] for row in rows):,} {what} in {counted(about['with_junk'], 'sample')}, {len(rows):,} "
    words += f"different. Most frequent: {most}."
    if known := sum(row["tokens_with_p_raw"] for row in rows):
        mean = sum((row["mean_p_raw"] or 0) * row["tokens_with_p_raw"] for row in rows) / known
        rare = sum(row["tokens_with_p_raw"] for row in rows if (row["mean_p_raw"] or 0) < RARE)
        words += f" Mean probability before the LP: {mean:.2f}, over the {known:,} tokens with stored steps; "
        words += f"{percent(rare / known)} have a mean below {RARE:g}."
    partly = about["read"] < about["with_junk"]
    return answer_text([words], [f"Counted in the first {about['read']:,} of these samples."] if partly else [])
