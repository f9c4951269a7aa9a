"""The junk of a run by its pieces."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from engine.inspection.sample import inspect_sample
from engine.questions import ask
from engine.questions.drift_lexicon import script_of
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, step_row, write_run

Row = dict[str, Any]
QWEN = load_tokenizer("qwen3")


def junk_run(store: Store, junk: str, *, steps: bool = False, tokens: bool = True, samples: int = 1) -> None:
    """Samples of methanol with junk behind its first block's numbers."""
    text = f"[CONFORMER][C]<0.1,0.2,0.3{junk}>[O]<1.5,0.5,1.5>[/CONFORMER]"
    ids = [*QWEN.encode(text), QWEN.end_id] if tokens else None
    rows = [sample_row(n, text=text, token_ids=ids, tokens=len(ids) if ids else None) for n in range(samples)]
    blocks = [block_row(n, 0, kinds=["letters"], junk_text=junk) for n in range(samples)]
    step_rows = [step_row(0, pos, p_raw=0.25 if pos % 2 else 0.75) for pos in range(len(ids or ()))] if steps else []
    write_run(store, "one", rows, blocks, step_rows, tokenizer="qwen3", lp="none")


def read_lexicon(store: Store, run_id: str) -> tuple[list[Row], Row]:
    """Its pieces, and how they were counted."""
    tables = ask(store, "drift_lexicon", [run_id]).tables
    return tables["main"].to_pylist(), tables["about"].to_pylist()[0]


@pytest.mark.parametrize("model", ["qwen", "llama"])
def test_pieces_are_those_that_the_alignment_marks(model: str) -> None:
    run_id = demo_run(model, "group-v2.1")
    marked: Counter[int | None] = Counter()
    for number in range(0, 64, 8):
        inspected = inspect_sample(DEMO_STORE, run_id, number)
        assert inspected.alignment is not None
        marked.update(row.token_id for row in inspected.alignment.rows if row.mark == "junk")
    pieces, about = read_lexicon(DEMO_STORE, run_id)
    counts = {piece["token_id"]: piece["count"] for piece in pieces}
    assert marked and all(counts[id_] >= count for id_, count in marked.items())
    stored = DEMO_STORE.rows("SELECT sum(junk_tokens)::INT AS n FROM blocks WHERE run_id = $1", [run_id])
    assert sum(counts.values()) == stored[0]["n"]
    assert about["by_token"] and about["read"] == about["with_junk"]


def test_pieces_stand_by_count_with_what_the_model_thought(store: Store) -> None:
    junk_run(store, "的的 \u202efoo", steps=True, samples=2)
    pieces, _ = read_lexicon(store, "one")
    counts = [piece["count"] for piece in pieces]
    assert counts == sorted(counts, reverse=True)
    chinese = next(piece for piece in pieces if "的" in piece["piece"])
    assert (chinese["script"], chinese["samples"]) == ("CJK", 2)
    assert QWEN.piece(chinese["token_id"]) == chinese["piece"]
    assert sum(piece["tokens_with_p_raw"] for piece in pieces) * 2 == sum(counts)  # of sample 0 only
    assert "\u202e" not in "".join(piece["piece"] for piece in pieces), "escaped"
    assert {piece["mean_p_raw"] for piece in pieces} <= {0.25, 0.5, 0.75}


@pytest.mark.parametrize(("ids", "tokenizer"), [([1, 2], "/no/such"), ([5, None, 7], "qwen3")])
def test_ids_without_their_tokenizer_or_with_a_gap_fall_back_to_text(
    store: Store, ids: list[int | None], tokenizer: str
) -> None:
    rows = [sample_row(0, text="x", token_ids=ids)]
    write_run(store, "one", rows, [block_row(0, 0, junk_text="的x")], tokenizer=tokenizer, lp="none")
    pieces, _ = read_lexicon(store, "one")
    assert [(piece["piece"], piece["token_id"]) for piece in pieces] == [("x", None), ("的", None)]


SCRIPTS = {
    "Latin": ["abc", "Ünï", " a1)", "e\u0301"], "Cyrillic": ["привет"], "CJK": ["的"], "Kana": ["かナ"],
    "Arabic": ["العربية"], "Hebrew": ["שלום"], "Hangul": ["한국"], "digits": ["123", " 1"], "punctuation": [")#"],
    "symbols": ["+="], "space": [" "], "control": ["\x00\u202e"], "bytes": ["\ufffd"], "mixed": ["a的", "1)"],
    "marks": ["\u0301"], "empty": [""],
}  # fmt: skip


@pytest.mark.parametrize(("script", "texts"), SCRIPTS.items())
def test_scripts(script: str, texts: list[str]) -> None:
    assert {script_of(text) for text in texts} == {script}
