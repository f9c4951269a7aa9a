"""Checks by the real tokenizers: token counts, drift of known coordinates under a placeholder; junk in quotations."""

from __future__ import annotations

import functools
from collections.abc import Callable

from engine.evidence.checks.finding import Basis, Finding, VerdictName, beside_reported, fallen_by, held_against, said
from engine.evidence.checks.stored import written_out
from engine.evidence.checks.tables import MOLECULES
from engine.evidence.claims import Claim
from engine.evidence.formula import Range
from engine.evidence.tokenisation import QUANTITIES
from engine.figures.words import percent
from engine.lp_records import DEFAULT_PLACEHOLDER
from engine.records import FIXED4, SHORTEST4, NumberFormat
from engine.text.blocks import find_blocks, has_letter, has_nonnumeric
from engine.text.check import answer_of
from engine.text.cleanup import clean_up
from engine.text.drift import DriftSummary, drift_summary
from engine.text.reference import reference_texts
from engine.text.tokenizers import load_tokenizer

TEXTS = (
    "SELECT text FROM samples JOIN runs USING (run_id) "
    "WHERE {demo} AND lp = 'none' AND model_alias = 'demo-qwen' AND samples.clean ORDER BY sample_id"
)
"""Whole coordinates as a model writes them that no LP disturbs."""


def tokens(claim: Claim, basis: Basis) -> Finding:
    """A count that a tokenizer alone decides, as the Tokenizer lab shows it.

    ``over`` names a tokenizer: the ratio to its count. ``share``: in percent of the vocabulary.
    """
    given = claim.arguments
    text, names = given.get("text", ""), [given["tokenizer"], *([given["over"]] if "over" in given else [])]
    quantity = QUANTITIES[given["quantity"]]
    counts = [quantity.measure(text, load_tokenizer(name)) for name in names]
    measured = counts[0] / counts[1] if "over" in given else float(counts[0])
    if given.get("share"):
        measured = 100 * counts[0] / load_tokenizer(names[0]).vocab_size
    is_right = quantity.agrees(measured, claim.least, claim.most)
    verdict: VerdictName = "reproduced" if is_right else "contradicted"
    listed = " and ".join(f"{count:,} under {name}" for count, name in zip(counts, names, strict=True))
    what = f"`{text}`: " if text else ""
    figure = "" if measured == counts[0] else f": {said(measured)}"
    reason = f"{what}{quantity.label} {listed}{figure}{beside_reported(claim)}."
    query = f"QUANTITIES[{given['quantity']!r}].measure({text!r}, load_tokenizer(NAME)), NAME in {names}"
    return Finding(verdict, measured, reason[0].upper() + reason[1:], query, "tokenizers")


def characters(claim: Claim, basis: Basis) -> Finding:
    """How many characters a ``text`` has."""
    text = claim.arguments["text"]
    verdict = held_against(claim, Range.exact(float(len(text))))
    reason = f"`{text}` has {len(text)} characters{beside_reported(claim)}."
    return Finding(verdict, float(len(text)), reason, f"len({text!r})", "arithmetic")


def examples(claim: Claim, basis: Basis) -> Finding:
    """For how many of the quoted ``blocks`` a ``rule`` holds."""
    rule, words = _RULES[claim.arguments["rule"]]
    blocks = claim.arguments["blocks"]
    contents = [find_blocks(f"[C]{block}")[0].content for block in blocks]
    measured = sum(map(rule, contents))
    verdict = fallen_by(claim, measured) or held_against(claim, Range.exact(float(measured)))
    reason = f"{measured} of {len(blocks)} quoted blocks {words}{beside_reported(claim)}."
    return Finding(verdict, float(measured), reason, f"{rule.__name__} of {' '.join(blocks)}", "arithmetic")


def drift(claim: Claim, basis: Basis) -> Finding:
    """A ``figure`` of the drift that whole stored coordinates have under a placeholder and a tokenizer.

    ``beside`` is the tokenizer to compare with. A claim without a figure falls where the measured one lies in
    ``refuted_by``.
    """
    given = claim.arguments
    query = written_out(TEXTS)
    texts = tuple(answer_of(row["text"]) for row in basis.rows(query))
    if not texts:
        return Finding("not testable here", None, "The store does not hold the texts to count in.", query, "store")
    placeholder = given.get("placeholder", DEFAULT_PLACEHOLDER)
    summary = _summary(texts, given["tokenizer"], placeholder)
    usual = _summary(texts, given.get("beside", given["tokenizer"]), DEFAULT_PLACEHOLDER)
    measured = _FIGURES[given["figure"]](summary, usual)
    verdict = fallen_by(claim, measured) or held_against(claim, Range.exact(measured))
    reason = f"{_told(summary)}{f' In place of: {_told(usual)}' if usual != summary else ''}"
    how = f"drift_summary(texts, {given['tokenizer']}, {placeholder!r})"
    end = f" {given['figure'][0].upper()}{given['figure'][1:]}: {said(measured)}{beside_reported(claim)}."
    return Finding(verdict, measured, f"{reason}{end}", f"{query} -- {how}", "tokenizers")


def references(claim: Claim, basis: Basis) -> Finding:
    """The same ``figure`` for conformers of stored molecules, which no model wrote.

    Each of the group's two writers puts them down; the claim holds where one of them gives its figure.
    """
    given = claim.arguments
    query = written_out(MOLECULES)
    smiles = tuple(row["smiles"] for row in basis.rows(query))
    if not smiles:
        return Finding("not testable here", None, "The store does not hold the molecules.", query, "store")
    findings: list[tuple[VerdictName, float]] = []
    told = []
    for writer, form in _WRITERS.items():
        summary = _summary(_reference_texts(smiles, form), given["tokenizer"], given["placeholder"])
        measured = _FIGURES[given["figure"]](summary, summary)
        findings.append((held_against(claim, Range.exact(measured)), measured))
        drifts = f"drift from {min(summary.histogram):+d} to {max(summary.histogram):+d}"
        told.append(f"{said(measured)} {writer} ({percent(summary.share(summary.cut))} cut, {drifts})")
    verdict, measured = min(findings, key=lambda finding: finding[0] != "reproduced")
    about = f"Of {summary.blocks:,} blocks of ETKDG conformers under {given['tokenizer']} with {given['placeholder']}"
    reason = f"{about}, {given['figure']}: {', '.join(told)}{beside_reported(claim)}."
    how = f"drift_summary(reference_texts(SMILES, FORM), {given['tokenizer']}, {given['placeholder']!r})"
    return Finding(verdict, measured, reason, f"{query} -- {how}", "tokenizers")


def _told(summary: DriftSummary) -> str:
    drifts = sorted(summary.histogram)
    return (
        f"{summary.blocks:,} blocks of stored texts under {summary.tokenizer} with {summary.placeholder}: "
        f"{summary.junk_prone:,} with tokens left over, {summary.exact:,} that fit, {summary.cut:,} that are cut, "
        f"drift from {drifts[0]:+d} to {drifts[-1]:+d}, {summary.mean_distance:.2f} tokens off on average."
    )


@functools.lru_cache(maxsize=16)
def _summary(texts: tuple[str, ...], tokenizer: str, placeholder: str) -> DriftSummary:
    return drift_summary(texts, load_tokenizer(tokenizer), placeholder)


@functools.lru_cache(maxsize=4)
def _reference_texts(smiles: tuple[str, ...], form: NumberFormat) -> tuple[str, ...]:
    return tuple(text for molecule in smiles for text in reference_texts(molecule, form))


def _is_mended(content: str) -> bool:
    return bool(clean_up(f"[C]<{content}>").mended)


_RULES: dict[str, tuple[Callable[[str], bool], str]] = {
    "letters": (has_letter, "hold a letter"),
    "nonnumeric": (has_nonnumeric, "hold anything but digits and . , -"),
    "mended": (_is_mended, "are clean after a cleanup"),
}
_FIGURES: dict[str, Callable[[DriftSummary, DriftSummary], float]] = {
    "less distance in percent": lambda one, usual: 100 * (1 - one.mean_distance / usual.mean_distance),
    "least drift": lambda one, _: float(min(one.histogram)),
    "most drift": lambda one, _: float(max(one.histogram)),
    "blocks that fit in percent": lambda one, _: 100 * one.share(one.exact),
    "blocks that differ by 1 to 3 tokens in percent": lambda one, _: (
        100 * one.share(sum(count for drift, count in one.histogram.items() if 1 <= abs(drift) <= 3))
    ),
    "blocks that do not fit in percent": lambda one, _: 100 * (1 - one.share(one.exact)),
    "blocks that are cut in percent": lambda one, _: 100 * one.share(one.cut),
    "least tokens of a block": lambda one, _: float(_free(one) - max(one.histogram) + BRACKETS),
    "most tokens of a block": lambda one, _: float(_free(one) - min(one.histogram) + BRACKETS),
}
_WRITERS = {"with trailing zeros dropped": SHORTEST4, "with four decimals always": FIXED4}
"""The group's: the trimmed one until December 2025, the fixed one since."""
BRACKETS = 2
"""The reports count a block's two brackets with its tokens."""


def _free(summary: DriftSummary) -> int:
    return int(QUANTITIES["free"].measure(f"<{summary.placeholder}>", load_tokenizer(summary.tokenizer)))
