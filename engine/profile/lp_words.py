"""What the LP of a trace's run changes, and what its samples' lengths do: a trace says how much, not why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.figures.statistics import quotient
from engine.figures.words import number, percent
from engine.lp_records import LEGAL_ROWS, lp_record, split_cleanup
from engine.profile.cautions import WINDOW
from engine.profile.compare import TraceComparison
from engine.profile.stored_trace import StoredTrace
from engine.profile.words import incomparable, pace_words

Run = Mapping[str, Any]
EXACT = "engine.lp.exact"


def lp_words(comparison: TraceComparison, control: Run, test: Run) -> str:
    """``control`` and ``test`` are rows of the traces' runs. Empty unless one model wrote without and with an LP."""
    forced = _per_token(comparison.test, "forced_tokens")
    if not _is_pair(control, test) or not forced:
        return ""
    return f"B's LP, {test['lp']}, forces {percent(forced)} of its tokens, so they need no pass of their own."


def sample_words(comparison: TraceComparison, control: Run, test: Run) -> str:
    """The pace per sample, where samples of the two have unlike numbers of tokens; else, or if not known, empty.

    A trace may begin samples and not end them. Then tokens per sample are its run's, and the pace is an estimate: as if
    all tokens took as long as those of the trace.
    """
    clock, tokens = (comparison.figure(name).ratio for name in ("span_us", "tokens"))
    sides = (comparison.control, control), (comparison.test, test)
    counts = [quotient(trace.known("tokens"), trace.known("samples")) for trace, _ in sides]
    is_known = all(counts)
    before, after = counts if is_known else (quotient(run.get("tokens"), run.get("samples")) for _, run in sides)
    if incomparable(comparison) or not clock or not tokens or not before or not after:
        return ""
    if abs(after / before - 1) <= WINDOW:
        return ""
    per_token = clock / tokens
    per_sample = per_token * after / before
    turned = "But " if (per_token < 1) != (per_sample < 1) else ""
    verb, rest = pace_words(per_sample).split(" ", 1)
    return (
        f"{turned}B writes {number(after)} tokens per sample against {number(before)} in A: per sample it {verb} "
        f"{'' if is_known else 'about '}{rest} by the clock."
    )


def head_words(control: Run, test: Run) -> str:
    """How much smaller the LP makes the output head, as a clause; empty where it does not, or that is not known.

    Plain ``generate`` (``hf``) computes all logits, and masks them.
    """
    is_exact = _is_pair(control, test) and lp_record(split_cleanup(test["lp"])[0]).module == EXACT
    if not is_exact or test.get("backend") != "fast":
        return ""
    legal, rows = LEGAL_ROWS.get(str(test.get("tokenizer"))), test.get("vocab_size")
    if legal is None or rows is None or legal == rows:
        return ""
    return f"{test['lp']} computes logits for only {legal:,} of the vocabulary's {rows:,} tokens"


def _is_pair(control: Run, test: Run) -> bool:
    """One model, without and with an LP."""
    return control.get("lp") == "none" and test.get("lp") not in (None, "none") and _model(control) == _model(test)


def _model(run: Run) -> tuple[Any, Any]:
    return run.get("model_alias"), run.get("model_step")


def _per_token(trace: StoredTrace, name: str) -> float | None:
    return quotient(trace.known(name), trace.known("tokens"))
