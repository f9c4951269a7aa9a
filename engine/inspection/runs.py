"""The runs that can be looked into: those with samples, what is known of each without opening them, and what of it is
available here: its tokenizer, its number format, its placeholder.

Nothing is judged here: the figures are the sheet's own. Reported runs (a text states them) have no samples and are left
out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime

from engine.errors import DriftscopeError, TokenizerError, shown
from engine.lp_records import UNKNOWN_LP, LpRecord, split_cleanup, stored_lp, stored_name, usual_placeholder
from engine.models.registry import ModelEntry, load_registry
from engine.models.tags import tokenizer_of, tokenizer_place
from engine.records import Descriptors, NumberFormat
from engine.store.entries import (
    FORMER_COUNTS,
    Entry,
    constrained_words,
    has_former_counts,
    label_words,
    model_name,
    number_format_of,
    rmsd_references,
    run_value,
    without_samples,
)
from engine.store.schema import BLOCKS, RUNS, SAMPLES, STEPS
from engine.store.store import Store
from engine.text.blocks import READ_FORMAT
from engine.text.tokenizer_build import RECIPES
from engine.text.tokenizers import TextTokenizer, load_tokenizer


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run. Texts are empty and counts None where its maker did not say."""

    run_id: str
    label: str  # of an imported run without one: its file's name
    origin: str  # measured or imported
    model: str  # alias:step
    model_family: str
    tokenizer: str
    lp: str  # with +cleanup where texts were cleaned after
    placeholder: str
    descriptors: Descriptors  # that its text or template is written with
    constrained: str  # whether its LP acted on every token
    is_former: bool  # stored before the LPs here were the group's own
    has_former_counts: bool  # its kinds were found by former rules
    samples: int
    passes: int | None
    bad_blocks: int | None
    junk_letters: int | None
    judged: int | None  # samples with a verdict on their molecule
    judged_with: str  # what judged their geometry
    conformers_per_answer: int | None  # as asked for; None: one, or not known
    created_at: datetime | None
    form: NumberFormat | None  # of the numbers that its model might write, or that an import found in its texts
    rmsd_to: str  # what RMSD is to the nearest of, in words
    has_blocks: bool
    has_steps: bool  # of some samples at least
    key: tuple[str, ...]  # the run and its files' checksums: what is computed of it holds as long as this does

    @property
    def constraint(self) -> str:
        """The LP without its cleanup, as the run names it; empty where it names none."""
        return split_cleanup(self.lp)[0]

    @property
    def lp_record(self) -> LpRecord:
        """``UNKNOWN_LP`` where the run names no LP, or none of ours."""
        return stored_lp(self.lp, is_former=self.is_former)

    @property
    def lp_words(self) -> str:
        name = stored_name(self.lp, is_former=self.is_former)
        return f"{name} {FORMER_COUNTS}".lstrip() if self.has_former_counts else name

    @property
    def is_hypothetical(self) -> bool:
        """Whether no template wrote its texts, so that drift is what a template would have met, and did nothing."""
        return self.lp_record is not UNKNOWN_LP and not self.lp_record.placeholder

    @property
    def name(self) -> str:
        """What a person calls it: model and LP, and the label where there is one."""
        parts = (self.model or self.model_family, self.lp_words, self.label)
        return " · ".join(part for part in parts if part) or self.run_id


def runs_with_samples(store: Store) -> list[RunFacts]:
    """Newest first."""
    return [facts_of(entry) for entry in reversed(store.listing().entries) if SAMPLES.name in entry.parts]


def run_facts(store: Store, run_id: str) -> RunFacts:
    """One run by its id, its label or any part of its id that no other has."""
    return facts_of(store.entry(run_id))


def facts_of(entry: Entry) -> RunFacts:
    if SAMPLES.name not in entry.parts:
        raise without_samples(entry, "look into")
    columns = {field.name: run_value(entry, field.name) for field in fields(RunFacts) if field.name in RUNS.names}
    facts = {
        "model": model_name(entry.row),
        "label": label_words(entry),
        "samples": entry.parts[SAMPLES.name].rows,
        "has_blocks": BLOCKS.name in entry.parts,
        "has_steps": STEPS.name in entry.parts,
        "form": number_format_of(entry),
        "rmsd_to": rmsd_references(entry),
        "key": entry.key,
        "descriptors": entry.row.get("descriptors") or "plain",
        "constrained": constrained_words(entry) or "",
        "is_former": not entry.row.get("descriptors"),
        "has_former_counts": has_former_counts(entry),
    }
    return RunFacts(**{**columns, **facts})


# --- what is here of it ---------------------------------------------------------------------------------------------


def run_tokenizer(run: RunFacts) -> tuple[TextTokenizer | None, str]:
    """The run's tokenizer, or None and why."""
    if not run.tokenizer:
        return None, "The run does not name its tokenizer."
    entry = model_entry(run)
    try:
        if entry is not None and (run.tokenizer not in RECIPES or entry.tokenizer == run.tokenizer):
            return tokenizer_of(entry), ""
        return load_tokenizer(tokenizer_location(run)), ""
    except DriftscopeError as error:
        return None, f"Its tokenizer is not available here: {error}."


def number_format(run: RunFacts) -> NumberFormat:
    """As the run says; else its model's registry entry; else any number of up to four decimals."""
    if run.form is not None:
        return run.form
    entry = model_entry(run)
    return READ_FORMAT if entry is None or entry.problem else entry.numbers


def placeholder_of(run: RunFacts) -> str:
    """What drift is counted against: the run's own, or the default where its LP has none."""
    return run.placeholder or usual_placeholder(number_format(run))


def model_entry(run: RunFacts) -> ModelEntry | None:
    """The registry's entry of this very model and step; None where it has none, or does not read."""
    alias, _, step = run.model.partition(":")
    try:
        return load_registry().find(alias, step) if step else None
    except DriftscopeError:
        return None


def tokenizer_location(run: RunFacts) -> str:
    """A run tells a name only; where the folder is, the registry knows."""
    if run.tokenizer in RECIPES:
        return run.tokenizer
    entry = model_entry(run)
    if entry is None:
        fix = "Register its model, or remove the run and import its file with `--tokenizer`"
        raise TokenizerError(f"no model here has the tokenizer {shown(run.tokenizer)}", fix)
    return tokenizer_place(entry)
