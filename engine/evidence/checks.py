"""The checks by the names that ``data/claims/`` uses. Each takes a claim and what answers SQL over the stored runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from engine.chem.enriched import described
from engine.chem.smiles import parse_smiles
from engine.evidence.claims import Claim, load_claims, pretty
from engine.figures.statistics import Bootstrap, Interval
from engine.figures.words import fixed, percent
from engine.lp.constraint import build_constraint
from engine.lp_records import DEFAULT_PLACEHOLDER, lp_record
from engine.models.shipped import VOCAB_ROWS
from engine.records import FIXED4, SHORTEST4, VerdictName
from engine.text.check import answer_of
from engine.text.placeholder import reference_text
from engine.text.template import DriftSummary, drift_summary
from engine.text.tokenizers import load_tokenizer

VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
DEMO = "origin = 'measured' AND label = 'ships with the project'"
"""What ``{demo}`` in a claim's SQL means: the measured runs that ship."""
TEXTS = (
    f"SELECT text FROM samples JOIN runs USING (run_id) WHERE {DEMO} AND lp = 'none' AND model_alias = 'demo-qwen' "
    "AND samples.clean ORDER BY sample_id"
)
"""Whole coordinates as a model writes them that no LP disturbs."""
MOLECULES = f"SELECT DISTINCT smiles FROM samples JOIN runs USING (run_id) WHERE {DEMO} ORDER BY smiles LIMIT 32"
"""A batch, as the reports had it."""
Rows = Callable[[str], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Finding:
    """``words`` are figures that a claim's note may use in braces; ``interval`` is None where no chance is in it."""

    verdict: VerdictName
    measured: float | None
    reason: str
    query: str
    source: str
    words: Mapping[str, str] = field(default_factory=dict)
    interval: Interval | None = None


def held_against(claim: Claim, measured: float) -> VerdictName:
    """Whether a measured figure can be the claim's. One with ``refuted_by`` falls where it is in there."""
    if "refuted_by" in claim.check:
        least, most = claim.check["refuted_by"]
        return "contradicted" if least <= measured <= most else "reproduced"
    (least, most), slack = claim.ends, 1e-9 * abs(measured)
    is_in = (least is None or measured >= least - slack) and (most is None or measured <= most + slack)
    return "reproduced" if is_in else "contradicted"


def reported(claim: Claim) -> str:
    return f"; the report has {claim.reported} {claim.unit}".rstrip() if claim.reported else ""


def no_rows(query: str) -> Finding:
    return Finding("not testable here", None, "The store does not hold what the query asks for.", query, "store")


def over_molecules(measured: float, parts: Sequence[float], wholes: Sequence[float], unit: str) -> Interval | None:
    """The bootstrap interval of a figure that is a sum over a sum, of one part and one whole for each molecule."""
    draw = Bootstrap(len(parts))
    found = (draw.share if unit.startswith("%") else draw.ratio)(np.asarray(parts, float), np.asarray(wholes, float))
    scale = 1.0
    if unit.startswith("%"):
        scale = 100.0
    elif found and found.value:
        scale = measured / found.value
    return found and found.mapped(lambda value: scale * value)


def sql(claim: Claim, rows: Rows) -> Finding:
    """One row with ``measured``, or with ``holds``; ``says`` tells its columns in words. ``parts`` and ``wholes`` are
    lists over molecules. Without a row, the runs that ship are missing, or what the claim ``needs``."""
    query = " ".join(claim.check["sql"].replace("{demo}", DEMO).split())
    row = next(iter(rows(query)), {})
    key = "holds" if "holds" in row else "measured"
    if row.get(key) is None:
        if "needs" not in claim.check:
            return no_rows(query)
        reason = f"Needs {claim.check['needs']}; the store holds none that was imported or measured."
        return Finding("not testable here", None, reason, query, "none")
    measured = None if row.get("measured") is None else float(row["measured"])
    parts, wholes = row.pop("parts", None), row.pop("wholes", None)
    interval = None
    if parts and measured is not None:
        interval = over_molecules(measured, parts, wholes, claim.check.get("unit", claim.unit))
    words = {name: str(value) if isinstance(value, str | bool) else pretty(float(value)) for name, value in row.items()}
    verdict: VerdictName = "reproduced" if row[key] else "contradicted"
    if key == "measured":
        verdict = held_against(claim, row[key])
    if verdict == "contradicted" and claim.check.get("of_theirs"):  # other models do not contradict it
        verdict = "not shown on these models"
    reason = f"{claim.check['says'].format(**words)}{reported(claim) if key == 'measured' else ''}."
    by = claim.check["by"]
    return Finding(verdict, measured, reason, query, "store" if by == "sql" else by, words, interval)


def agree(claim: Claim, rows: Rows) -> Finding:
    """Whether ``other``, the same thing in another place, has the same figure."""
    other = next(candidate for candidate in load_claims() if candidate.id == claim.check["other"])
    citations = "; ".join(f"report {cited.report}, {cited.section}: {cited.reported}" for cited in (claim, other))
    (low, high), (least, most) = claim.ends, other.ends
    if (low or 0) <= (most or 0) and (least or 0) <= (high or 0):
        return Finding("not testable here", None, f"The reports agree: {citations}.", "needs another input", "none")
    query = f"the figures of {claim.id} and {other.id}"
    return Finding("internally inconsistent", other.value, f"Two reports, two figures: {citations}.", query, "reports")


def needs(claim: Claim, rows: Rows) -> Finding:
    """What only an input from outside can decide."""
    reason = f"Needs {claim.check['of']}, and nothing of that sort is kept here."
    return Finding("not testable here", None, reason, "needs another input", "none")


def tokens(claim: Claim, rows: Rows) -> Finding:
    """A count that a tokenizer alone decides."""
    text, name, quantity = (claim.check.get(key, "") for key in ("text", "tokenizer", "quantity"))
    tokenizer, slack = load_tokenizer(name), 0.0
    if quantity == "vocab_size":
        measured, label = tokenizer.vocab_size, "Vocabulary size"
    elif quantity == "angle_tokens":  # that a position LP blocks; the reports round to hundreds, so a twentieth is free
        pieces = (raw for id_, raw in tokenizer.pieces.items() if id_ not in tokenizer.added)
        measured = sum(b"<" in raw or b">" in raw for raw in pieces)
        label = "Tokens with < or >"
        slack = 0.05
    else:
        measured, label = len(tokenizer.encode(text)), f"{text}: tokens"
    least, most = (end or 0.0 for end in claim.ends)
    is_it = max(least - measured, measured - most, 0.0) <= slack * least
    reason = f"{label} {measured:,} under {name}{reported(claim)}."
    query = f"{quantity} of {text!r} with load_tokenizer({name!r})"
    return Finding("reproduced" if is_it else "contradicted", float(measured), reason, query, "tokenizers")


@functools.lru_cache(maxsize=256)  # each of 32 molecules, as two writers put it down, in two claims
def summary_of(texts: tuple[str, ...], tokenizer: str, placeholder: str) -> DriftSummary:
    return drift_summary(texts, load_tokenizer(tokenizer), placeholder)


def drift_figure(name: str, summary: DriftSummary, usual: DriftSummary) -> float:
    near = sum(count for drift, count in summary.histogram.items() if 1 <= abs(drift) <= 3)
    figures: dict[str, float] = {
        "less distance in percent": 100 * (1 - summary.mean_distance / usual.mean_distance),
        "least drift": min(summary.histogram),
        "most drift": max(summary.histogram),
        "blocks that fit in percent": 100 * summary.share(summary.exact),
        "blocks that differ by 1 to 3 tokens in percent": 100 * summary.share(near),
        "blocks that do not fit in percent": 100 * (1 - summary.share(summary.exact)),
    }
    return float(figures[name])


def drift(claim: Claim, rows: Rows) -> Finding:
    """A ``figure`` of the drift that stored coordinates have under a placeholder and a tokenizer; ``beside`` is the
    tokenizer to compare with."""
    check, texts = claim.check, tuple(answer_of(row["text"]) for row in rows(TEXTS))
    if not texts:
        return no_rows(TEXTS)
    placeholder = check.get("placeholder", DEFAULT_PLACEHOLDER)
    summary = summary_of(texts, check["tokenizer"], placeholder)
    usual = summary_of(texts, check.get("beside", check["tokenizer"]), DEFAULT_PLACEHOLDER)
    measured = drift_figure(check["figure"], summary, usual)
    phrases = [
        f"{row.blocks:,} blocks of stored texts under {row.tokenizer} with {row.placeholder}: "
        f"{row.junk_prone:,} with tokens left over, {row.exact:,} that fit, {row.cut:,} that are cut, drift from "
        f"{min(row.histogram):+d} to {max(row.histogram):+d}, {fixed(row.mean_distance, 2)} tokens off on average."
        for row in ((summary,) if usual is summary else (summary, usual))
    ]
    reason = f"{' In place of: '.join(phrases)} {check['figure'].capitalize()}: {pretty(measured)}{reported(claim)}."
    query = f"{TEXTS} -- drift_summary(texts, {check['tokenizer']}, {placeholder!r})"
    return Finding(held_against(claim, measured), measured, reason, query, "tokenizers")


def references(claim: Claim, rows: Rows) -> Finding:
    """The same for conformers of stored molecules, which no model wrote, as each of the group's two writers puts them
    down: trimmed until December 2025, fixed since. The claim holds where one of them gives its figure."""
    check, smiles = claim.check, [row["smiles"] for row in rows(MOLECULES)]
    if not smiles:
        return no_rows(MOLECULES)
    figures = []
    phrases = []
    intervals = {}
    for writer, form in {"with trailing zeros dropped": SHORTEST4, "with four decimals always": FIXED4}.items():
        # A summary per molecule, for the interval; the figure is a share, so that of all is their sums' ratio.
        texts = [(reference_text(molecule, form),) for molecule in smiles]
        each = [summary_of(text, check["tokenizer"], check["placeholder"]) for text in texts]
        wholes = [molecule.blocks for molecule in each]
        parts = [drift_figure(check["figure"], molecule, molecule) * molecule.blocks / 100 for molecule in each]
        cut = sum(molecule.cut for molecule in each) / sum(wholes)
        figures.append(100 * sum(parts) / sum(wholes))
        phrases.append(f"{pretty(figures[-1])} {writer} ({percent(cut)} cut)")
        intervals[figures[-1]] = over_molecules(figures[-1], parts, wholes, claim.unit)
    measured = min(figures, key=lambda figure: held_against(claim, figure) != "reproduced")
    reason = f"Of {sum(wholes):,} blocks of ETKDG conformers under {check['tokenizer']} with {check['placeholder']}"
    reason += f", {check['figure']}: {', '.join(phrases)}{reported(claim)}."
    query = f"{MOLECULES} -- drift_summary(reference_texts(SMILES, FORM), {check['tokenizer']}, "
    query += f"{check['placeholder']!r})"
    verdict = held_against(claim, measured)
    return Finding(verdict, measured, reason, query, "tokenizers", interval=intervals[measured])


def lp_memory(claim: Claim, rows: Rows) -> Finding:
    """How many MB the tables of ``lp`` take for the stored molecules: all that masks are made from."""
    check, smiles = claim.check, [row["smiles"] for row in rows(MOLECULES)]
    if not smiles:
        return no_rows(MOLECULES)
    lp, tokenizer = check["lp"], load_tokenizer(check["tokenizer"])
    constraint = build_constraint(lp, tokenizer, VOCAB_ROWS[check["tokenizer"]])
    automaton, descriptors = constraint.automaton, lp_record(lp).descriptors or "plain"
    arrays: list[Any] = [automaton.classes, automaton.goto, automaton.move]
    for text in smiles:
        program = constraint.compile(described(parse_smiles(text), descriptors))
        arrays += [program.forced, program.entry, program.symbols, program.jump, program.block]
    measured = sum(int(array.nbytes) for array in arrays) / 1e6
    of = f"The LP {lp} for {len(smiles)} molecules under {check['tokenizer']}"
    reason = f"{of}: its tables take {pretty(measured)} MB{reported(claim)}."
    query = f"{MOLECULES} -- build_constraint({lp!r}, {check['tokenizer']}, {VOCAB_ROWS[check['tokenizer']]})"
    return Finding(held_against(claim, measured), measured, reason, query, "lp tables")


CHECKS: dict[str, Callable[[Claim, Rows], Finding]] = {
    **{check.__name__: check for check in (agree, drift, lp_memory, needs, references, sql, tokens)},
    "arithmetic": sql,
    "experiment": sql,
}
