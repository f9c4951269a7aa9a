"""Drift of known coordinates, by tokenizer and placeholder: how many blocks fit, are junk-prone or cut.

Of SMILES the coordinates are those of a reference conformer (ETKDGv3, seed 0, principal axes), written in the chosen
format; an enriched text has its own. Without either the molecules are of the shipped set. Positive drift leaves
positions over, which only happens where zeros are dropped; of a negative one a position LP cuts off the number's last
digits. Numbers of bins are all of one width and cannot drift. The fitted placeholder of a tokenizer is the one of the
lowest cost here: per block, *junk weight* times the tokens left over plus *cut weight* times the tokens missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from engine.chem.bin_files import BARE_BINS, OLDER_BINS
from engine.chem.enriched import decode, encode
from engine.chem.molecule_sets import load_molecule_set
from engine.errors import DriftscopeError
from engine.figures.words import counted, listed, percent
from engine.lp_records import DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, usual_placeholder
from engine.questions.question import Chart, Column, Of, Option, Options, Tables, answer_text, rows_table
from engine.records import FIXED4, SHORTEST4, TRIMMED4, BinFormat, NumberFormat
from engine.store.store import Store
from engine.text.placeholder import fit_placeholder, reference_text
from engine.text.template import GUESSED_PLACEHOLDER, PLACEHOLDERS, drift_sign, drift_summary
from engine.text.tokenizers import TextTokenizer, tokenizers_with

TITLE = "How far do coordinates drift from a placeholder?"
MOST_MOLECULES = 400
OF = Of("text", least=0, most=MOST_MOLECULES)
FORMS: dict[str, NumberFormat] = {
    "Trailing zeros dropped": TRIMMED4,
    "Four decimals": FIXED4,
    "Trailing zeros and point dropped": SHORTEST4,
    **OLDER_BINS,
    **{name: form for name, form in BARE_BINS.items() if "212" not in name},
}
MOST_ERRORS = 3
NO_JUNK = (
    f"All decimals are written here, so no number is shorter than {DEFAULT_PLACEHOLDER}. A model that drops trailing "
    "zeros, as demo-qwen and demo-llama do, leaves positions over, and so writes junk: choose “Trailing zeros dropped”."
)
FORM_HELP = (
    "Some models write 0.5, not 0.5000; some write 2, not 2.0; some write the number of a bin. "
    "Only if zeros are dropped is drift positive."
)
OPTIONS = (
    Option("decimals", "Trailing zeros dropped", "Number format", tuple(FORMS), help=FORM_HELP),
    Option("count", 40, "Number of molecules", bounds=(1, MOST_MOLECULES), help="Of the shipped set"),
    Option(
        "tag", "", "Category", lambda *_: ["", *sorted({tag for entry in load_molecule_set() for tag in entry.tags})]
    ),
    Option(
        "placeholders",
        (DEFAULT_PLACEHOLDER, SHORT_PLACEHOLDER, GUESSED_PLACEHOLDER),
        "Placeholders",
        PLACEHOLDERS,
        is_many=True,
        is_open=True,
        separator=" ",
        help="Any texts without brackets; in a terminal with blanks between them",
    ),
    Option("junk_weight", 1.0, "Junk weight", bounds=(0.0, 5.0)),
    Option("cut_weight", 1.0, "Cut weight", bounds=(0.5, 5.0)),
    Option("tokenizer_folder", "", "Another tokenizer", help="Path of a Hugging Face tokenizer folder on this machine"),
)
COLUMNS = {
    "name": Column("tokenizer"),
    "exact": Column("exact", "%", "Drift 0"),
    "junk_prone": Column("junk-prone", "%", "Positions left over"),
    "cut": Column("cut", "%", "A position LP would cut off the number's last digits"),
    "drift": Column("drift in tokens"),
    "share": Column("share of blocks", "%"),
    "mean_drift": Column("drift per block, in tokens"),
    "tokens_per_atom": Column("tokens per atom"),
}
CHARTS = (Chart("bars", "drift", "share", "bars", "sign", split="title", across=4,
          hover=("title", "drift", "blocks", "share")),)  # fmt: skip


def tables(store: Store, given: Sequence[str], options: Options) -> Tables:
    form = FORMS[options["decimals"]]
    shipped = load_molecule_set(limit=options["count"], tag=options["tag"] or None) if not given else []
    texts, errors = list[str](), list[str]()
    for molecule in given or [entry.smiles for entry in shipped]:
        try:
            texts.append(as_text(molecule, form))
        except DriftscopeError as error:
            errors.append(str(error))
    if not texts:
        problem = errors[0] if errors else "the shipped set has none of this category"
        raise DriftscopeError(f"no molecule has coordinates: {problem}", "Choose others")
    weights = (options["junk_weight"], options["cut_weight"])
    measured = set_tables(texts, tokenizers_with(options["tokenizer_folder"]), options["placeholders"], weights, form)
    own = Counter(map(is_enriched, given))
    return measured | {"notes": rows_table([{"note": note} for note in notes(measured, form, errors, own)], ["note"])}


def is_enriched(text: str) -> bool:
    return "<" in text  # which is in no SMILES


def as_text(molecule: str, form: NumberFormat) -> str:
    if not is_enriched(molecule):
        return reference_text(molecule, form)
    decoded = decode(molecule).mol  # what no reader takes is left out
    return molecule if form is FIXED4 else encode(decoded, form).text


def notes(measured: Tables, form: NumberFormat, errors: Sequence[str], own: Counter[bool]) -> Iterator[str]:
    source = "reference conformers (ETKDGv3, seed 0, principal axes)"
    if own[True]:
        source = f"the texts' own coordinates, of SMILES on {source}" if own[False] else "the texts' own coordinates"
    yield f"Measured on {source}. This format alone puts a conformer {form.floor_ang:g} Å (RMSD) from itself."
    if isinstance(form, BinFormat):
        yield "Numbers of bins are all of one width and cannot drift: the fitted placeholder fits every block."
    elif form is FIXED4 and not any(measured["main"]["junk_prone"].to_pylist()):
        yield NO_JUNK
    if errors:
        yield f"{counted(len(errors), 'molecule')} left out: {'; '.join(errors[:MOST_ERRORS])}."


def set_tables(
    texts: Sequence[str],
    tokenizers: Sequence[TextTokenizer],
    placeholders: Sequence[str],
    weights: tuple[float, float],
    form: NumberFormat,
) -> Tables:
    """A row for each tokenizer with each placeholder, the fitted one last; and a row for each drift of these."""
    rows, bars = list[dict[str, Any]](), list[dict[str, Any]]()
    if isinstance(form, BinFormat):  # placeholders of decimals have no meaning there
        placeholders = [usual_placeholder(form)]
    for tokenizer in tokenizers:
        fitted = fit_placeholder(texts, tokenizer, form, junk_weight=weights[0], cut_weight=weights[1]).placeholder
        for index, placeholder in enumerate((*placeholders, fitted)):
            is_fitted = index == len(placeholders)
            summary = drift_summary(texts, tokenizer, placeholder, form)
            shown = f"fitted: {placeholder}" if is_fitted else placeholder
            rows.append(
                {
                    "name": tokenizer.title,
                    "placeholder": shown,
                    "blocks": summary.blocks,
                    "exact": summary.share(summary.exact),
                    "junk_prone": summary.share(summary.junk_prone),
                    "cut": summary.share(summary.cut),
                    "mean_drift": summary.mean_drift,
                    "tokens_per_atom": summary.tokens_per_atom,
                }
            )
            bars += [
                {
                    "tokenizer": tokenizer.name,
                    "placeholder": placeholder,
                    "fitted": is_fitted,
                    "drift": drift,
                    "blocks": blocks,
                    "share": summary.share(blocks),
                    "title": f"{tokenizer.title} · {shown}",
                    "sign": drift_sign(drift),
                }
                for drift, blocks in summary.histogram.items()
            ]
    return {"main": rows_table(rows), "bars": rows_table(bars)}


def set_words(tables: Tables) -> str:
    """The figures in words, tokenizers of equal ones together."""
    by_words: dict[str, list[str]] = {}
    for row in tables["main"].to_pylist():
        name = row["placeholder"].removeprefix("fitted: ")
        is_fitted = name != row["placeholder"]
        if is_fitted or name == DEFAULT_PLACEHOLDER:
            words = f"{name}{' (fitted)' if is_fitted else ''}: {percent(row['cut'])} cut, "
            by_words.setdefault(f"{words}{percent(row['junk_prone'])} junk-prone", []).append(row["name"])
    return " ".join(f"{listed(names)} with {words}." for words, names in by_words.items())


def answer(tables: Tables, options: Options) -> str:
    return answer_text([set_words(tables)], tables["notes"]["note"].to_pylist())
