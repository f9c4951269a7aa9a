"""The checks by the names that ``data/claims/`` uses. Each takes a claim and gives its verdict with figures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from engine.chem.enriched import described
from engine.chem.smiles import parse_smiles
from engine.evidence.arithmetic import ARITHMETIC, EXPERIMENT
from engine.evidence.claims import Claim
from engine.evidence.formula import Range, said
from engine.evidence.tokenisation import QUANTITIES
from engine.figures.words import percent
from engine.lp.constraint import build_constraint
from engine.lp.table import ILLEGAL, KEEP, NO_ID, SYMBOLS, Automaton, Program
from engine.lp_records import DEFAULT_PLACEHOLDER, lp_record
from engine.models.layout import VOCAB_ROWS
from engine.records import FIXED4, SHORTEST4
from engine.text.blocks import find_blocks, has_nonnumeric
from engine.text.check import answer_of
from engine.text.cleanup import clean_up
from engine.text.drift import DriftSummary, drift_summary
from engine.text.reference import reference_texts
from engine.text.tokenizers import load_tokenizer

VerdictName = Literal[
    "reproduced", "contradicted", "internally inconsistent", "not shown on these models", "not testable here"
]
VERDICTS: tuple[VerdictName, ...] = get_args(VerdictName)
LABEL = "ships with the project"
DEMO = f"origin = 'measured' AND label = '{LABEL}'"
"""What ``{demo}`` in a claim's SQL stands for: the measured runs that ship."""
TEXTS = (
    "SELECT text FROM samples JOIN runs USING (run_id) "
    "WHERE {demo} AND lp = 'none' AND model_alias = 'demo-qwen' AND samples.clean ORDER BY sample_id"
)
"""Whole coordinates as a model writes them that no LP disturbs."""
MOLECULES = "SELECT DISTINCT smiles FROM samples JOIN runs USING (run_id) WHERE {demo} ORDER BY smiles LIMIT 32"
"""A batch, as the reports had it."""


@dataclass(frozen=True, slots=True)
class Basis:
    """All claims by id, what answers SQL over the runs that a claim may be about, and figures of `lost-third`."""

    claims: Mapping[str, Claim]
    rows: Callable[[str], list[dict[str, Any]]]
    experiment: Mapping[str, Range]

    @property
    def figures(self) -> dict[str, Range]:
        known = {id_: claim.range for id_, claim in self.claims.items() if claim.range is not None}
        return known | dict(self.experiment)


@dataclass(frozen=True, slots=True)
class Finding:
    """``words`` are figures that a claim's note may use in braces; without ``unit`` it is the claim's."""

    verdict: VerdictName
    measured: float | None
    reason: str
    query: str
    source: str
    words: Mapping[str, str] | None = None
    unit: str = ""


def is_asked(row: Mapping[str, Any]) -> bool:
    """Whether some claim's query may meet this run or trace: one that ships, or one like the reports' own."""
    where = f"{row.get('device')} {row.get('label') if 'trace_id' in row else ''}"
    return row.get("origin") != "reported" and (row.get("label") == LABEL or "H100" in where)


def held_against(claim: Claim, measured: float) -> VerdictName:
    """Whether a measured figure can be the claim's. One with ``refuted_by`` falls where it lies in there."""
    if "refuted_by" in claim.arguments:
        least, most = claim.arguments["refuted_by"]
        return "contradicted" if least <= measured <= most else "reproduced"
    slack = 1e-9 * abs(measured)
    is_above = claim.least is None or measured >= claim.least - slack
    return "reproduced" if is_above and (claim.most is None or measured <= claim.most + slack) else "contradicted"


def on_these_models(claim: Claim, verdict: VerdictName) -> VerdictName:
    """A statement about the group's own models (``of_theirs``): other models do not contradict it."""
    return "not shown on these models" if verdict == "contradicted" and claim.arguments.get("of_theirs") else verdict


def beside(claim: Claim) -> str:
    return f"; the report has {claim.reported} {claim.unit}".rstrip() if claim.reported else ""


def written_out(text: str) -> str:
    """The SQL of a claim as it can be run."""
    return " ".join(text.replace("{demo}", DEMO).split())


def sql(claim: Claim, basis: Basis) -> Finding:
    """One row with ``measured``, or with ``holds``; ``says`` tells its columns in words."""
    query = written_out(claim.arguments["sql"])
    row = next(iter(basis.rows(query)), {})
    key = "holds" if "holds" in row else "measured"
    if row.get(key) is None:
        reason = "The store does not hold the runs that the query asks for."
        return Finding("not testable here", None, reason, query, "store")
    measured = None if row.get("measured") is None else float(row["measured"])
    words = {name: str(value) if isinstance(value, str | bool) else said(float(value)) for name, value in row.items()}
    verdict = held_against(claim, float(row["measured"])) if key == "measured" else (
        "reproduced" if row["holds"] else "contradicted"
    )  # fmt: skip
    end = beside(claim) if key == "measured" else ""
    reason = f"{claim.arguments['says'].format(**words)}{end}."
    return Finding(on_these_models(claim, verdict), measured, reason, query, "store", words)


def arithmetic(claim: Claim, basis: Basis) -> Finding:
    is_measured = claim.id in EXPERIMENT
    compute = ARITHMETIC[claim.id]
    query = f"{compute.__name__ if is_measured else claim.id} of engine/evidence/arithmetic.py"
    try:
        holds, measured, unit, reason = compute(basis.figures)
    except KeyError as lacking:
        needs_ = f"Needs the result of `make lost-third MODEL={str(lacking).strip(chr(39)).partition('/')[0]}`."
        return Finding("not testable here", None, needs_, query, "none")
    verdict = on_these_models(claim, "reproduced" if holds else "contradicted")
    return Finding(verdict, measured, reason, query, "experiment" if is_measured else "arithmetic", None, unit)


def agree(claim: Claim, basis: Basis) -> Finding:
    """Whether other places give the same figure (``others``: ids). Where they do, it is told what a test would need."""
    others = [basis.claims[id_] for id_ in claim.arguments["others"]]
    mine, query = claim.range, " == ".join((claim.id, *claim.arguments["others"]))
    assert mine is not None
    apart = [other for other in others if other.range is not None and not mine.meets(other.range)]
    places = "; ".join(f"report {one.report}, {one.section}: {one.reported}" for one in (claim, *(apart or others)))
    if not apart:
        found = needs(claim, basis)
        return replace(found, reason=f"{found.reason} The reports agree: {places}.")
    widest = max((other.value or 0.0 for other in apart), key=lambda value: abs(value - mine.value))
    return Finding("internally inconsistent", widest, f"One thing, two figures: {places}.", query, "reports")


def needs(claim: Claim, basis: Basis) -> Finding:
    """What only an input from outside can decide. A ``run`` or a ``trace`` like the reports' own is compared where it
    is here."""
    given = claim.arguments
    if given["needs"] not in ("run", "trace"):
        of = given.get("of") or f"the texts that the reports' {given.get('family')} wrote on an H100"
        reason = f"Needs {of}, and nothing of that sort is kept here."
        return Finding("not testable here", None, reason, "needs another input", "none")
    lp = "=" if given.get("lp") == "none" else "<>"
    if given["needs"] == "run":
        query = (
            f"SELECT {given.get('column', 'wall_s')} AS measured, run_id AS id FROM runs WHERE origin <> 'reported' "
            f"AND model_family = '{given['family']}' AND lp {lp} 'none' AND samples >= {given['samples']} AND "
            "device LIKE '%H100%' ORDER BY created_at LIMIT 1"
        )
    else:
        query = (
            "SELECT trace_id AS id, sum(calls) FILTER (family = 'launch') AS measured FROM traces JOIN trace_ops USING "
            "(trace_id) LEFT JOIN runs USING (run_id) WHERE traces.origin <> 'reported' AND traces.is_complete IS NOT "
            "FALSE AND traces.samples = 64 AND concat_ws(' ', traces.device, traces.label) LIKE '%H100%' AND "
            f"coalesce(runs.lp, '') {lp} 'none' AND coalesce(runs.model_family, concat_ws(' ', traces.label, "
            f"traces.source)) ILIKE '%{given['family']}%' GROUP BY trace_id ORDER BY min(traces.created_at) LIMIT 1"
        )
    row = next(iter(basis.rows(query)), None)
    if row is None or row["measured"] is None:
        of = given.get("of") or f"{given['family']} on {given['samples']:,} samples on an H100"
        reason = f"Needs the {given['needs']} of {of}; the store holds none that was imported or measured."
        return Finding("not testable here", None, reason, query, "none")
    measured = float(row["measured"])
    reason = f"{row['id']} has {said(measured)}{beside(claim)}."
    return Finding(held_against(claim, measured), measured, reason, query, "store")


def tokens(claim: Claim, basis: Basis) -> Finding:
    """A count that a tokenizer alone decides, as the Tokenizer lab shows it."""
    given = claim.arguments
    text, quantity = given.get("text", ""), QUANTITIES[given["quantity"]]
    measured = quantity.measure(text, load_tokenizer(given["tokenizer"]))
    verdict: VerdictName = "reproduced" if quantity.agrees(measured, claim.least, claim.most) else "contradicted"
    what = f"`{text}`: {quantity.label}" if text else quantity.label.capitalize()
    reason = f"{what} {measured:,} under {given['tokenizer']}{beside(claim)}."
    query = f"QUANTITIES[{given['quantity']!r}].measure({text!r}, load_tokenizer({given['tokenizer']!r}))"
    return Finding(verdict, float(measured), reason, query, "tokenizers")


def examples(claim: Claim, basis: Basis) -> Finding:
    """For how many of the quoted ``blocks`` a ``rule`` holds."""
    rule, words = {
        "nonnumeric": (has_nonnumeric, "hold anything but digits and . , -"),
        "mended": (lambda content: bool(clean_up(f"[C]<{content}>").mended), "are clean after a cleanup"),
    }[claim.arguments["rule"]]
    blocks = claim.arguments["blocks"]
    measured = sum(rule(find_blocks(f"[C]{block}")[0].content) for block in blocks)
    reason = f"{measured} of {len(blocks)} quoted blocks {words}{beside(claim)}."
    query = f"{claim.arguments['rule']} of {' '.join(blocks)}"
    return Finding(held_against(claim, measured), float(measured), reason, query, "arithmetic")


# --- drift ------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=16)
def summary_of(texts: tuple[str, ...], tokenizer: str, placeholder: str) -> DriftSummary:
    return drift_summary(texts, load_tokenizer(tokenizer), placeholder)


def drift_figure(name: str, one: DriftSummary, usual: DriftSummary) -> float:
    near = sum(count for drift, count in one.histogram.items() if 1 <= abs(drift) <= 3)
    figures: dict[str, float] = {
        "less distance in percent": 100 * (1 - one.mean_distance / usual.mean_distance),
        "least drift": min(one.histogram),
        "most drift": max(one.histogram),
        "blocks that fit in percent": 100 * one.share(one.exact),
        "blocks that differ by 1 to 3 tokens in percent": 100 * one.share(near),
        "blocks that do not fit in percent": 100 * (1 - one.share(one.exact)),
    }
    return float(figures[name])


def drift(claim: Claim, basis: Basis) -> Finding:
    """A ``figure`` of the drift that stored coordinates have under a placeholder and a tokenizer; ``beside`` is the
    tokenizer to compare with."""
    given, query = claim.arguments, written_out(TEXTS)
    texts = tuple(answer_of(row["text"]) for row in basis.rows(query))
    if not texts:
        return Finding("not testable here", None, "The store does not hold the texts to count in.", query, "store")
    placeholder = given.get("placeholder", DEFAULT_PLACEHOLDER)
    summary = summary_of(texts, given["tokenizer"], placeholder)
    usual = summary_of(texts, given.get("beside", given["tokenizer"]), DEFAULT_PLACEHOLDER)
    measured = drift_figure(given["figure"], summary, usual)
    told = [
        f"{one.blocks:,} blocks of stored texts under {one.tokenizer} with {one.placeholder}: {one.junk_prone:,} with "
        f"tokens left over, {one.exact:,} that fit, {one.cut:,} that are cut, drift from {min(one.histogram):+d} to "
        f"{max(one.histogram):+d}, {one.mean_distance:.2f} tokens off on average."
        for one in ((summary,) if usual is summary else (summary, usual))
    ]
    reason = f"{' In place of: '.join(told)} {given['figure'].capitalize()}: {said(measured)}{beside(claim)}.".strip()
    query += f" -- drift_summary(texts, {given['tokenizer']}, {placeholder!r})"
    return Finding(held_against(claim, measured), measured, reason, query, "tokenizers")


def references(claim: Claim, basis: Basis) -> Finding:
    """The same for conformers of stored molecules, which no model wrote, as each of the group's two writers puts them
    down: trimmed until December 2025, fixed since. The claim holds where one of them gives its figure."""
    given, query = claim.arguments, written_out(MOLECULES)
    smiles = tuple(row["smiles"] for row in basis.rows(query))
    if not smiles:
        return Finding("not testable here", None, "The store does not hold the molecules.", query, "store")
    findings: list[tuple[VerdictName, float]] = []
    told = []
    for writer, form in {"with trailing zeros dropped": SHORTEST4, "with four decimals always": FIXED4}.items():
        texts = tuple(text for molecule in smiles for text in reference_texts(molecule, form))
        summary = summary_of(texts, given["tokenizer"], given["placeholder"])
        measured = drift_figure(given["figure"], summary, summary)
        findings.append((held_against(claim, measured), measured))
        told.append(f"{said(measured)} {writer} ({percent(summary.share(summary.cut))} cut)")
    verdict, measured = min(findings, key=lambda finding: finding[0] != "reproduced")
    about = f"Of {summary.blocks:,} blocks of ETKDG conformers under {given['tokenizer']} with {given['placeholder']}"
    reason = f"{about}, {given['figure']}: {', '.join(told)}{beside(claim)}."
    query += f" -- drift_summary(reference_texts(SMILES, FORM), {given['tokenizer']}, {given['placeholder']!r})"
    return Finding(verdict, measured, reason, query, "tokenizers")


# --- the LPs' own tables ----------------------------------------------------------------------------------------------


def lp_table(claim: Claim, basis: Basis) -> Finding:
    """A ``figure`` of the tables of ``lp`` for the stored molecules; ``text`` are the numbers of a block."""
    given, query = claim.arguments, written_out(MOLECULES)
    smiles = [row["smiles"] for row in basis.rows(query)]
    if not smiles:
        return Finding("not testable here", None, "The store does not hold the molecules.", query, "store")
    tokenizer, rows = load_tokenizer(given["tokenizer"]), VOCAB_ROWS[given["tokenizer"]]
    constraint = build_constraint(given["lp"], tokenizer, rows)
    descriptors = lp_record(given["lp"]).descriptors or "plain"
    programs = [constraint.compile(described(parse_smiles(text), descriptors)) for text in smiles]
    text, automaton = given.get("text", ""), constraint.automaton
    if given["figure"] == "memory":  # all that masks are made from
        arrays: list[Any] = [automaton.classes, automaton.goto, automaton.move]
        for program in programs:
            arrays += [program.forced, program.entry, program.symbols, program.jump, program.block]
        measured, words = sum(int(array.nbytes) for array in arrays) / 1e6, "its tables take {} MB"
    elif given["figure"] == "kept":
        measured = 100 * len(automaton.live) / len(automaton.classes)
        words = "a FREE position lets {} % of the vocabulary through"
    else:  # a number that begins with a digit joins no bracket
        measured = skipped(automaton, programs[0], tokenizer.encode(f"<{text}>")[1:-1])
        words = f"where <{text}> ends with its numbers, it leaves out {{}} FREE positions"
    about = f"The LP {given['lp']} for {len(smiles)} molecules under {given['tokenizer']}"
    query += f" -- build_constraint({given['lp']!r}, {given['tokenizer']}, {rows})"
    reason = f"{about}: {words.format(said(measured))}{beside(claim)}."
    return Finding(held_against(claim, measured), measured, reason, query, "lp tables")


def skipped(automaton: Automaton, program: Program, inside: list[int]) -> float:
    """FREE positions of a block that stay unused when it ends behind these tokens; 0 where it may not end there."""
    cells = np.flatnonzero((program.forced == NO_ID) & (program.block == 0))
    if len(inside) >= len(cells):
        return 0.0
    node = KEEP
    for cell, id_ in zip(cells, inside, strict=False):
        node = node if program.entry[cell] == KEEP else int(program.entry[cell])
        node = int(automaton.goto[node, automaton.classes[id_]])
        if node == ILLEGAL:
            return 0.0
    behind = cells[len(inside)]
    node = node if program.entry[behind] == KEEP else int(program.entry[behind])
    may_end = automaton.legal[node, -SYMBOLS] and program.symbols[behind, 0] != NO_ID
    return float(len(cells) - len(inside)) if may_end else 0.0


CHECKS: dict[str, Callable[[Claim, Basis], Finding]] = {
    check.__name__: check for check in (agree, arithmetic, drift, examples, lp_table, needs, references, sql, tokens)
}
