"""What an alphabet costs: conformers of a reference set in decimals and in bins, as a perfect model would write them.

RMSD: between a conformer and what its text says, without alignment. Bonds: mean change of their lengths. Lost: right in
3D (PoseBusters' checks and stereo) as it is, and not as read back; with its 95 % interval (Wilson), molecules taken as
independent. In tails: atoms with a number of the first or the last bin, or beyond. Forced: tokens that `exact` leaves
no choice. What lost a molecule: of its first lost atom, the token after which no right place was left. What this does
not know: how well a model learns an alphabet; and codes, whose encoder is no part of this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from engine.chem.verdict import check_words
from engine.figures.statistics import wilson
from engine.figures.words import counted, fixed, listed, percent, span
from engine.inspection.alphabets import TOKENIZERS, kept_alphabets
from engine.questions.question import Chart, Column, NeedsWork, Of, Option, Options, Tables, answer_text, rows_table
from engine.store.schema import REFERENCES
from engine.store.store import Store

TITLE = "What does an alphabet cost?"
OF = Of("text", least=0, most=0)
MOST_LOST = 0.01
"""Share of the molecules that a form may lose to be named as the one to train."""


def sets(store: Store, entries: Sequence[Any]) -> list[str]:
    return [entry.id for entry in store.listing(REFERENCES).entries]


OPTIONS = (
    Option("alphabet_references", None, "References", sets, help="Of these `alphabets NAME` has to be run first"),
)
COLUMNS = {
    "form": Column("numbers", is_pinned=True),
    "molecules": Column("molecules"),
    "rmsd_ang": Column("RMSD", "Å", "Mean over molecules"),
    "bond_ang": Column("bonds", "Å", "Mean change of a bond's length"),
    "lost": Column("lost", "%", "Right as it is, wrong as read back"),
    "low": Column("from", "%"),
    "high": Column("to", "%"),
    "doubled": Column("doubled places", help="Atoms that are where another one is"),
    "tails": Column("in tails", "%", "Atoms with a number of the first or last bin, or beyond"),
    **{f"tokens_{name}": Column(f"tokens per atom, {name}") for name in TOKENIZERS},
    **{f"forced_{name}": Column(f"forced, {name}", "%", "Of all tokens of an answer") for name in TOKENIZERS},
    "tokenizer": Column("tokenizer"),
    "tokens": Column("tokens per atom"),
    "loses": Column("loses", help=f"More than {percent(MOST_LOST)} of the molecules"),
    "token": Column("token"),
    "checks": Column("checks that fail"),
    "where": Column("lost by"),
    "share": Column("share of the molecules", "%"),
}
CHARTS = (
    Chart("points", "tokens", "rmsd_ang", "choices", colour="form", interval="y", text="loses", log="y",
          hover=("form", "tokenizer", "tokens", "rmsd_ang", "lost")),
    Chart("points", "lost", "form", colour="form", low="low", high="high"),
    Chart("heat", "form", "where", "atlas", size="share", text="molecules"),
)  # fmt: skip
TABLES = ("main", "choices", "atlas")


def depends(store: Store, entries: Sequence[Any], options: Options) -> str:
    name = options["alphabet_references"]
    return kept_alphabets(store.entry(name, REFERENCES)).version if name else ""


def tables(store: Store, given: Sequence[str], options: Options) -> Tables:
    name = options["alphabet_references"]
    if not name:
        make = "references make --label held-out --per-molecule 1 --smiles-file data/heldout.smi".split()
        raise NeedsWork("there is no set of references", make, ["alphabets", "held-out"])
    kept = kept_alphabets(store.entry(name, REFERENCES)).read()
    if kept is None:
        raise NeedsWork("the conformers of this set were not written in any alphabet", ["alphabets", name])
    by_form: dict[str, list[Mapping[str, Any]]] = {}
    for row in kept.to_pylist():
        by_form.setdefault(row["form"], []).append(row)
    main = [_of_form(form, rows) for form, rows in by_form.items()]
    atlas = [
        row for form, rows in by_form.items() for tokenizer in TOKENIZERS for row in _lost_by(form, tokenizer, rows)
    ]
    columns = ["form", "tokenizer", "token", "checks", "molecules", "share", "where"]
    return {"main": rows_table(main), "choices": rows_table(_choices(main)), "atlas": rows_table(atlas, columns)}


def _of_form(form: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    lost, atoms = sum(row["lost"] for row in rows), sum(row["atoms"] for row in rows)
    low, high = wilson(lost, len(rows))
    bonds = [row["bond_ang"] for row in rows if row["bond_ang"] is not None]
    of_tokens: dict[str, Any] = {}
    for name in TOKENIZERS:
        tokens, forced = (
            [row[f"{what}_{name}"] for row in rows if row[f"{what}_{name}"] is not None]
            for what in ("tokens", "forced")
        )
        of_tokens[f"tokens_{name}"] = sum(tokens) / atoms if tokens else None
        of_tokens[f"forced_{name}"] = fmean(forced) if forced else None
    return {
        "form": form,
        "molecules": len(rows),
        "rmsd_ang": fmean(row["rmsd_ang"] for row in rows),
        "bond_ang": fmean(bonds) if bonds else None,
        "lost": lost / len(rows),
        "low": low,
        "high": high,
        "doubled": sum(row["doubled"] for row in rows),
        "tails": sum(row["tails"] for row in rows) / atoms,
        **dict(sorted(of_tokens.items(), reverse=True)),
    }


def _choices(main: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each form with each tokenizer that writes it: what a group may train."""
    return [
        {
            **{name: row[name] for name in ("form", "rmsd_ang", "lost", "low", "high")},
            "tokenizer": tokenizer,
            "tokens": row[f"tokens_{tokenizer}"],
            "loses": f"{percent(row['lost'])} lost" if row["lost"] > MOST_LOST else None,
        }
        for row in main
        for tokenizer in TOKENIZERS
        if row[f"tokens_{tokenizer}"] is not None
    ]


def _lost_by(form: str, tokenizer: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of the lost molecules of a form, by the token that lost them; the checks that fail, the most frequent first."""
    checks: dict[str, Counter[str]] = {}
    for row in rows:
        if row["lost"] and row[f"token_{tokenizer}"]:
            checks.setdefault(row[f"token_{tokenizer}"], Counter())[row["check"]] += 1
    return [
        {
            "form": form,
            "tokenizer": tokenizer,
            "token": token,
            "checks": listed([check_words(check) for check, _ in of_token.most_common()]),
            "molecules": of_token.total(),
            "share": of_token.total() / len(rows),
            "where": f"{token} ({tokenizer})",
        }
        for token, of_token in sorted(checks.items(), key=lambda item: -item[1].total())
    ]


def answer(tables: Tables, options: Options) -> str:
    main, choices = tables["main"].to_pylist(), tables["choices"].to_pylist()
    few = percent(MOST_LOST)
    lines = []
    fit = [row for row in choices if row["lost"] <= MOST_LOST]
    if fit:
        best = min(fit, key=lambda row: (round(row["tokens"], 1), row["lost"], row["rmsd_ang"]))
        tokens = fixed(best["tokens"], 1)
        equal = [row for row in fit if row["form"] == best["form"] and fixed(row["tokens"], 1) == tokens]
        words = f"{best['form']} with {' or '.join(row['tokenizer'] for row in equal)}, {tokens} per atom"
        molecules = counted(main[0]["molecules"], "molecule")
        lines.append(f"Fewest tokens of the forms that lose at most {few} of {molecules}: {words}.")
        closest = min(fit, key=lambda row: (row["rmsd_ang"], row["tokens"]))
        words = f"{closest['form']} with {closest['tokenizer']}, RMSD {fixed(closest['rmsd_ang'], 4)} Å"
        lines.append(f"Closest: {words}, {fixed(closest['tokens'], 1)} tokens per atom.")
    worse = [row for row in main if row["lost"] > MOST_LOST]
    words = listed(
        [f"{row['form']} {percent(row['lost'])} ({span(row['low'], row['high'], percent)})" for row in worse]
    )
    lines.append(f"Others lose more: {words}." if worse else f"No form loses more than {few}.")
    lines.append("How well a model learns a form is not known here.")
    return answer_text(lines)
