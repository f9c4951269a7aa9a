"""The pieces that a run's junk is made of, by count, script and probability before the LP.

With token ids a token counts where at least one of its characters is junk; where only texts are stored, junk is split
into runs of characters of one script. Invisible characters are escaped, spaces are marked. Whether the model would have
written the junk without an LP is not known here.
"""

from __future__ import annotations

import contextlib
import itertools
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from engine.chem.enriched import skeleton_of
from engine.errors import DriftscopeError, visible
from engine.figures.words import counted, fixed, percent
from engine.inspection.runs import RunFacts, facts_of, number_format, placeholder_of, run_tokenizer
from engine.inspection.sample import molecule_asked
from engine.questions.question import Chart, Column, Of, Options, Tables, answer_text, rows_table
from engine.store.entries import Entry
from engine.store.store import Store
from engine.text.generated import read_generated
from engine.text.template import Template, build_template
from engine.text.tokenizers import TextTokenizer

TITLE = "What is the junk made of?"
OF = Of("run")
NEEDS_TEXTS = True
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

MOST_SAMPLES = 5_000
"""Samples of a run that are read, the first with junk; some ten seconds."""

BYTES = "bytes"
_SCRIPTS = {"IDEOGRAPH": "CJK", "CJK": "CJK", "HIRAGANA": "Kana", "KATAKANA": "Kana", "HALFWIDTH": "Fullwidth"}
_CLASSES = {"N": "digits", "P": "punctuation", "S": "symbols", "Z": "space", "C": "control"}

_SAMPLES = """
SELECT sample_id, smiles, token_ids, extra FROM samples
WHERE run_id = $run AND list_count(token_ids) = len(token_ids) AND sample_id IN  -- none of them null
    (SELECT sample_id FROM blocks WHERE run_id = $run AND junk_text <> '')
ORDER BY sample_id LIMIT $most
"""
_TEXTS = "SELECT sample_id, junk_text FROM blocks WHERE run_id = $run AND junk_text <> '' ORDER BY sample_id, block"
_STEPS = """
SELECT sample_id, pos, p_raw FROM steps WHERE run_id = $run AND p_raw IS NOT NULL AND sample_id IN
    (SELECT sample_id FROM blocks WHERE run_id = $run AND junk_text <> '')
"""

Piece = tuple[str, int | None, str]  # a token's text, its id and its script; of text alone, characters of one script
Use = tuple[int, float | None]  # a sample, and p(raw) where known


def tables(store: Store, entries: Sequence[Entry], options: Options) -> Tables:
    run = facts_of(entries[0])
    texts = store.rows(_TEXTS, {"run": run.run_id})
    with_junk = len({row["sample_id"] for row in texts})
    tokenizer, _ = run_tokenizer(run)
    samples = store.rows(_SAMPLES, {"run": run.run_id, "most": MOST_SAMPLES}) if texts and tokenizer else []
    by_token = tokenizer is not None and bool(samples)
    uses = _uses_of_tokens(store, run, samples, tokenizer) if by_token and tokenizer else _uses_of_texts(texts)
    seen: defaultdict[Piece, list[Use]] = defaultdict(list)
    for piece, use in uses:
        seen[piece].append(use)
    most_first = sorted(seen, key=lambda piece: (-len(seen[piece]), piece[0], piece[1] or 0))
    rows = [_row(piece, seen[piece]) for piece in most_first]
    about = {
        "read": len(samples) or with_junk,
        "with_junk": with_junk,
        "by_token": by_token,
        "has_blocks": run.has_blocks,
    }
    return {
        "main": rows_table(rows, list(COLUMNS)[:-1]),
        "scripts": rows_table(_scripts(rows)),
        "about": rows_table([about]),
    }


def _uses_of_tokens(
    store: Store, run: RunFacts, samples: Sequence[Mapping[str, Any]], tokenizer: TextTokenizer
) -> Iterator[tuple[Piece, Use]]:
    steps = store.rows(_STEPS, {"run": run.run_id}) if run.has_steps else []
    p_raw = {(row["sample_id"], row["pos"]): row["p_raw"] for row in steps}
    for sample_id, position, token_id in junk_tokens(run, samples, tokenizer):
        yield _piece(token_id, tokenizer), (sample_id, p_raw.get((sample_id, position)))


def _uses_of_texts(texts: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Piece, Use]]:
    for row in texts:
        for _, chars in itertools.groupby(row["junk_text"], key=_class):
            text = "".join(chars)
            yield (text, None, script_of(text)), (row["sample_id"], None)


def _row(piece: Piece, uses: Sequence[Use]) -> dict[str, Any]:
    text, token_id, script = piece
    known = [p for _, p in uses if p is not None]
    return {
        "piece": "".join("␣" if char == " " else visible(char) for char in text),
        "token_id": token_id,
        "script": script,
        "count": len(uses),
        "samples": len({sample for sample, _ in uses}),
        "mean_p_raw": sum(known) / len(known) if known else None,
        "tokens_with_p_raw": len(known),
    }


def _scripts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The most frequent, and the others together."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row["script"]] += row["count"]
    scripts = counts.most_common(MOST_SCRIPTS)
    rest = counts.total() - sum(count for _, count in scripts)
    scripts += [("others", rest)] if rest else []
    return [{"script": name, "pieces": count, "words": f"{count:,}"} for name, count in scripts]


def junk_tokens(
    run: RunFacts, samples: Sequence[Mapping[str, Any]], tokenizer: TextTokenizer
) -> Iterator[tuple[int, int, int]]:
    """Sample, position and id of each token with a character of junk, by the generated half of the alignment."""
    form = number_format(run)
    placeholder = placeholder_of(run)
    lp = run.lp_record.name

    templates: dict[str, Template | None] = {}
    for row in samples:
        molecule, *_ = molecule_asked(row, run.descriptors)
        if molecule.smiles not in templates:
            templates[molecule.smiles] = None
            with contextlib.suppress(DriftscopeError):
                if molecule.atoms:  # else the prompt cannot be read
                    skeleton = skeleton_of(molecule, form=form)
                    templates[molecule.smiles] = build_template(skeleton, tokenizer, placeholder, tags=True, form=form)
        template = templates[molecule.smiles]
        if template is not None:
            ids = row["token_ids"] or []
            inside = ids[: tokenizer.text_length(ids)]
            read = read_generated(template, inside, tokenizer, lp=lp, form=form)
            yield from ((row["sample_id"], at, ids[at]) for at in read.is_junk.nonzero()[0].tolist())


def _piece(id_: int, tokenizer: TextTokenizer) -> Piece:
    try:
        text = tokenizer.raw(id_).decode()
    except UnicodeDecodeError:  # bytes that are no whole character
        return tokenizer.piece(id_), id_, BYTES
    return text, id_, script_of(text)


def answer(tables: Tables, options: Options) -> str:
    rows, about = tables["main"].to_pylist(), tables["about"].to_pylist()[0]
    if not rows:
        return (
            "No block contains junk." if about["has_blocks"] else "This run stored no blocks, so its junk is unknown."
        )
    noun = "junk tokens" if about["by_token"] else "runs of junk characters (only texts are stored, not tokens)"
    most = ", ".join(f"“{row['piece']}” {row['count']:,}×" for row in rows[:3])
    words = f"{sum(row['count'] for row in rows):,} {noun} in {counted(about['with_junk'], 'sample')}, {len(rows):,} "
    words += f"different. Most frequent: {most}."
    if measured := sum(row["tokens_with_p_raw"] for row in rows):
        mean = sum((row["mean_p_raw"] or 0) * row["tokens_with_p_raw"] for row in rows) / measured
        rare = sum(row["tokens_with_p_raw"] for row in rows if (row["mean_p_raw"] or 0) < RARE)
        words += f" Mean probability before the LP: {fixed(mean, 2)}, over the {measured:,} tokens with stored steps; "
        words += f"{percent(rare / measured)} have a mean below {RARE:g}."
    partly = about["read"] < about["with_junk"]
    return answer_text([words], [f"Counted in the first {about['read']:,} of these samples."] if partly else [])


def script_of(text: str) -> str:
    """The one script of a text's letters, or what it is made of where it has none; ``mixed`` where it is several."""
    classes = {_class(char) for char in text if not unicodedata.category(char).startswith("M")}
    letters = classes.difference(_CLASSES.values(), {BYTES})
    kinds = letters or classes - {"space"} or classes
    if not kinds:
        return "marks" if text else "empty"
    return next(iter(kinds)) if len(kinds) == 1 else "mixed"


def _class(char: str) -> str:
    """A letter's script, by the first word of its name in Unicode; else what kind of character it is."""
    if char == "\ufffd":
        return BYTES  # what means bytes that are no whole character
    category = unicodedata.category(char)
    if category[0] not in "LM":
        return _CLASSES[category[0]]
    word = unicodedata.name(char, "UNNAMED").partition(" ")[0].partition("-")[0]
    return _SCRIPTS.get(word, word.capitalize())
