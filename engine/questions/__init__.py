"""Every question that is put to what is stored, by page, view and group, in the order that the page shows them.

A question is one file of this package (``question.py`` says what it is made of), and this list registers it:
the page draws it as a card, ``python -m engine ask`` prints it, and both give the same figures.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from importlib import import_module
from typing import Any

from engine.comparing.measures import has_samples, run_names
from engine.errors import DriftscopeError, nearest, one_line, shown
from engine.figures.words import agreeing, counted, listed
from engine.installed import modules_of
from engine.models.registry import load_registry
from engine.questions.question import Answered, Kind, NeedsTexts, Option, Question, SampleOf, with_note
from engine.store.entries import Entry, entry_names, is_pool, is_profiled, model_name
from engine.store.memo import Memo
from engine.store.schema import LOGIT_LOG, RUN, TRACE
from engine.store.store import Store

PAGES: dict[str, dict[tuple[str, str], list[str]]] = {
    "compare": {
        ("Side by side", ""): ["compare_matrix", "compare_figures"],
        ("Charts", "Speed and pass rate"): ["compare_speed"],
        ("Charts", "Where time goes"): ["compare_slowdown", "compare_time"],
        ("Charts", "Failures"): ["compare_failures", "compare_lost", "compare_lengths"],
        ("Charts", "Molecules"): ["compare_molecules"],
        ("Charts", "Masks"): ["compare_masks"],
        ("Charts", "Training"): ["compare_steps", "compare_rewards"],
        ("Coverage", ""): ["compare_coverage"],
        ("Log-probabilities", ""): ["compare_logprobs"],
        ("Advice", ""): ["compare_advice"],
    },
    "evidence": {
        ("In two minutes", ""): ["evidence_figures", "evidence_misread"],
        ("The lost third", ""): ["evidence_lost_third"],
        ("All claims", ""): ["evidence_claims", "evidence_reports"],
    },
    "tokenizer_lab": {
        ("One text", ""): ["lab_text"],
        ("A molecule set", ""): ["lab_set"],
        ("Alphabets", ""): ["lab_alphabets"],
        ("The reports' figures", ""): ["tokenizer_lab_reports"],
    },
    "drift": {
        ("Molecules", ""): ["drift_molecules", "drift_atoms", "drift_branches", "drift_belief"],
        ("Table", ""): ["drift_histogram", "drift_damage"],
        ("Junk lexicon", ""): ["drift_lexicon"],
        ("What the LP did", ""): ["drift_constrained", "drift_lp_cost", "drift_lp"],
        ("What the model believes", ""): ["drift_coverage", "drift_resolution"],
    },
    "profiles": {
        ("Families", ""): ["profiles_families", "profiles_places"],
        ("Launches", ""): ["profiles_phases", "profiles_launches"],
        ("Kernels", ""): ["profiles_kernels"],
        ("Timeline", ""): ["profiles_timeline"],
    },
    "logits": {("Models", ""): ["logits_models"], ("Health", ""): ["logits_health"], ("Parity", ""): ["logits_parity"]},
}
KEYS = list(dict.fromkeys(key for views in PAGES.values() for keys in views.values() for key in keys))
INSTALLED: dict[str, str] = {}
"""Questions of other packages: modules by key. The page that a key begins with shows it; others are for terminals."""
BROKEN: dict[str, str] = {}
"""Why one of these is left out."""
PARTS = {field.name: field for field in fields(Question)[2:]}
"""What a module may have; what has no default it must."""
KINDS = {"run": RUN, "trace": TRACE, "log": LOGIT_LOG}
MOST_DIGITS = 10  # of the number of a sample
_answers: Memo[Answered] = Memo(96)
log = logging.getLogger(__name__)


class QuestionError(DriftscopeError):
    """It cannot be asked of these, or so."""


def question_of(key: str) -> Question:
    if key in BROKEN:
        raise QuestionError(f"the question {key} of another package is left out: {BROKEN[key]}", "Repair its package")
    if key not in KEYS:
        raise QuestionError(f"there is no question {shown(key)}", nearest(key, KEYS))
    module = import_module(INSTALLED.get(key, f"engine.questions.{key}"))
    return Question(key, module.__doc__ or "", **{name: value for name, value in vars(module).items() if name in PARTS})


def ask(store: Store, key: str, ids: Sequence[str], chosen: Mapping[str, Any] | None = None) -> Answered:
    """The answer, computed once for the same entries and options. ``chosen`` has options by name, also as texts."""
    question = question_of(key)
    least, most = question.OF.least, question.OF.most
    entries = entries_of(store, question.OF.kind, ids) if most else []
    count = len(entries) if most else len(ids)
    if not least <= count <= most:
        expected = counted(most, question.OF.kind)
        expected = expected if least == most else f"{least} to {expected}"
        raise QuestionError(f"{question.TITLE!r} is asked of {expected}, not {count}", "")
    asked, note = entries, ""
    if question.NEEDS_TEXTS:
        entries, pools = with_texts(question, entries)
        names = names_of("run", asked) if pools else {}
        note = f"Left out, without texts: {listed([names[pool.id] for pool in pools])}." if pools else ""
    options = options_of(question, store, entries, chosen or {})
    entry_keys = tuple(map(key_of, entries))
    depends = question.depends(store, entries, options)

    def make() -> Answered:
        tables = question.tables(store, entries, options)
        names = names_of(question.OF.kind, asked)  # last: a table needs none of them
        return Answered(with_note(question.answer(tables, options), note), tables, options, names)

    return _answers.of((key, entry_keys, tuple(sorted(options.items(), key=lambda pair: pair[0])), depends, note), make)


def names_of(kind: Kind, entries: Sequence[Any]) -> dict[str, str]:
    """Of entries, by id; samples and texts have none."""
    if kind in ("sample", "text"):
        return {}
    return run_names(entries) if kind == "run" else entry_names(entries)


def with_texts(question: Question, entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """The runs that have texts, and those that have conformers alone; an error where there are only these."""
    texts, pools = [e for e in entries if not is_pool(e)], [e for e in entries if is_pool(e)]
    if pools and not texts:
        names = listed([entry.id for entry in pools])
        have = agreeing(len(pools), "has", "have")
        raise NeedsTexts(
            f"{question.TITLE!r} is asked of texts, and {names} {have} conformers alone", "Choose another run"
        )
    return texts, pools


def key_of(subject: Entry | SampleOf | str) -> Hashable:
    """An entry's files never change, but its owner may rename it, and a run may be judged or counted again."""
    if isinstance(subject, str):
        return subject
    if isinstance(subject, SampleOf):
        return key_of(subject.entry), subject.sample_id
    return subject.files.where, subject.key, json.dumps(dict(subject.row), sort_keys=True, default=str)


def entries_of(store: Store, kind: Kind, ids: Sequence[str]) -> list[Any]:
    """Each once, in their order; the first is the control. Of a model its measured runs, the newest first; a sample is
    named ``RUN/SAMPLE``; a text is itself."""
    if kind == "text":
        return list(dict.fromkeys(ids))
    if kind == "sample":
        return [sample_of(store, id_) for id_ in ids]
    if kind == "model":
        return list({entry.id: entry for id_ in ids for entry in runs_of_model(store, id_)}.values())
    return list({entry.id: entry for entry in (store.entry(id_, KINDS[kind]) for id_ in ids)}.values())


def sample_of(store: Store, name: str) -> SampleOf:
    run_id, _, sample = name.rpartition("/")
    if not run_id or not (sample.isascii() and sample.isdecimal() and len(sample) < MOST_DIGITS):
        raise QuestionError(f"{shown(name)} names no sample", "Give RUN/SAMPLE, such as the id of a run and /0")
    return SampleOf(store.entry(run_id, RUN), int(sample))


def models_of(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Measured runs by model, ``alias:step``, the newest first. Answers that were kept going for equal work are no
    evidence of time, nor are a profiled run and a branch."""
    models: dict[str, list[Entry]] = {}
    for entry in reversed(list(entries)):
        row, name = entry.row, model_name(entry.row)
        is_timed = row["origin"] == "measured" and has_samples(entry) and row.get("wall_s") and not is_profiled(entry)
        if name and is_timed and not row.get("equal_work") and not row.get("branch_of"):
            models.setdefault(name, []).append(entry)
    return models


def runs_of_model(store: Store, model: str) -> list[Entry]:
    """An alias alone means the step with runs, else its last one. A run's id means that run of its model."""
    entries = store.listing().entries
    if runs := [entry for entry in entries if entry.id == model]:
        return runs
    models, registered = models_of(entries), load_registry().entries
    names = [name for name in models if model in (name, name.partition(":")[0])]
    last = [entry.name for entry in registered if model in (entry.name, entry.alias)][-1:]
    matches = names if len(names) == 1 else [name for name in last if name in models] or names
    if matches:
        return models[matches[0]]
    if not last:
        candidates = [*models, *(entry.name for entry in registered)]
        raise QuestionError(f"there is no model {shown(model)}", nearest(model, candidates))
    fix = f"Measure it: `python -m engine advise --model {last[0]} --probe 64`"
    raise QuestionError(f"no run of {last[0]} was measured here", fix)


def options_of(question: Question, store: Store, entries: Sequence[Entry], chosen: Mapping[str, Any]) -> dict[str, Any]:
    by_name = {option.name: option for option in question.OPTIONS}
    for name in chosen:
        if name not in by_name:
            raise QuestionError(f"{question.TITLE!r} has no option {shown(name)}", nearest(name, by_name))
    return {name: value_of(option, store, entries, chosen.get(name)) for name, option in by_name.items()}


def choices_of(option: Option, store: Store, entries: Sequence[Entry]) -> dict[Any, str]:
    """What may be chosen, each with its words."""
    choices = option.choices(store, entries) if callable(option.choices) else option.choices
    return dict(choices) if isinstance(choices, Mapping) else {choice: str(choice) for choice in choices}


def parts_of(option: Option, value: Any) -> Sequence[Any]:
    """Of an option with any number of values."""
    if value is None:
        return option.default or ()
    return [part for part in value.split(option.separator) if part] if isinstance(value, str) else value


def value_of(option: Option, store: Store, entries: Sequence[Entry], value: Any) -> Any:
    if option.is_many:
        one = replace(option, is_many=False)
        return tuple(value_of(one, store, entries, part) for part in parts_of(option, value))
    choices = choices_of(option, store, entries)
    if value is None:
        return next(iter(choices), None) if option.default is None else option.default
    if (choices or callable(option.choices)) and not option.is_open:
        return choice_of(option, choices, value)
    if isinstance(option.default, bool):
        return value if isinstance(value, bool) else str(value).lower() in ("true", "1", "yes")
    if option.bounds or isinstance(option.default, int | float):
        return number_of(option, value)
    return str(value)


def choice_of(option: Option, choices: Iterable[Any], value: Any) -> Any:
    by_text = {str(choice): choice for choice in choices}
    if str(value) not in by_text:
        raise QuestionError(f"{shown(value)} is no {option.label or option.name}", nearest(str(value), by_text))
    return by_text[str(value)]


def number_of(option: Option, value: Any) -> int | float:
    kind = type(option.bounds[0] if option.bounds else option.default)
    try:
        number: int | float = kind(value)
    except (ValueError, OverflowError):
        raise QuestionError(f"{option.name} is a number, not {shown(value)}", "") from None
    low, high = option.bounds or (number, number)
    if not low <= number <= high:
        raise QuestionError(f"{option.name} is between {low:g} and {high:g}, not {number:g}", "")
    return number


def _add_installed() -> None:
    """The questions of other packages, whose modules import this package: when all above is there. One that is no
    question is left out with a warning, as is one whose key is taken."""
    for key, module in modules_of("driftscope.questions").items():
        if key in KEYS:
            log.warning("the question %s of another package is left out: its key is taken", key)
            continue
        try:
            question = import_module(module)
        except Exception as error:  # noqa: BLE001 - code of others
            BROKEN[key] = one_line(f"{type(error).__name__}: {error}")
        else:
            missing = [name for name, of in PARTS.items() if of.default is MISSING and not hasattr(question, name)]
            if missing:
                BROKEN[key] = f"{module} has no {listed(missing)}"
        if key in BROKEN:
            log.warning("the question %s of another package is left out: %s", key, BROKEN[key])
            continue
        INSTALLED[key] = module
        KEYS.append(key)
        page = key.partition("_")[0]
        if page == "compare":
            PAGES[page].setdefault(("Charts", "Installed"), []).append(key)
        elif page in ("drift", "evidence", "profiles"):
            [*PAGES[page].values()][-1].append(key)


_add_installed()
