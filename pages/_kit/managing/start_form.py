"""What is started from a page, runs or imports: a form, and the command that it becomes.

It generates nothing: what cannot be used is said before, and the command line carries it out. Anybody may copy it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from engine.chem.molecule_sets import load_run_set
from engine.decode.plan import PRESETS, Plan, Sampling
from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.file_forms import COMMANDS, Becomes, endings_of, forms_of, words_of
from engine.jobs.commands import Input
from engine.jobs.plan import sampling_name
from engine.models.devices import spare_cores
from engine.models.registry import bin_words, bins_of, load_registry
from engine.paths import user_path
from engine.text.examples import read_examples
from pages._kit.choices import one_of
from pages._kit.errors import error_markdown
from pages._kit.generation_inputs import (
    FILTERS,
    FIRST_MODEL,
    bins_input,
    first_words,
    quick_inputs,
    read_smiles,
    sampling_input,
    show_problems,
)
from pages._kit.managing import tasks
from pages._kit.uploads import release, uploads

MOST_TEXT, MOST_TYPED, MOST_PATHS, MOST_NAMED = 200, 2_000, 4_000, 5
MOST_WORDS = 20  # typed molecules that the command names itself; more of them go with it as a file
SHIPPED, TYPED, FILE = "Held-out", "SMILES", "A file"
UPLOAD, HERE = "Upload", "On this machine"


@dataclass(frozen=True, slots=True)
class Molecules:
    """``words`` and ``inputs`` are for the command; ``positional`` words come last. ``count`` is None where unknown."""

    words: tuple[str, ...] = ()
    positional: tuple[str, ...] = ()
    inputs: tuple[Input, ...] = ()
    count: int | None = None
    problem: str = ""  # why nothing can be started, as Markdown


@dataclass(frozen=True, slots=True)
class StartForm:
    """What the form of one page offers. Keys are those of the widgets, and of the address."""

    key: str  # of the button
    button: str
    title: str  # of the task
    lps: Sequence[str]
    first_lps: tuple[str, ...]
    lp_help: str
    model_key: str
    lp_key: str
    first_molecules: int = 64
    most_runs: int = 1
    several_models: bool = False
    lead: str = ""
    options: Callable[[], tuple[list[str], str]] = lambda: ([], "")  # own words of the command, and a problem
    plan_options: Callable[[], tuple[list[str], Plan]] = lambda: ([], Plan())  # folded away

    def show(self) -> None:
        if self.lead:
            st.markdown(self.lead)
        left, right = st.columns([3, 2], gap="large")
        with left:
            names = [entry.name for entry in load_registry().entries]
            help_ = "Alias and step: the embedded models, and those that you added (Live, *Add a checkpoint*)."
            first = [FIRST_MODEL] if FIRST_MODEL in names else names[:1]
            models = _choices("Model", names, first, self.several_models, self.model_key, help_)
            lps = _choices("LP", self.lps, self.first_lps, self.most_runs > 1, self.lp_key, self.lp_help)
            words, problem = self.options()
            molecules = molecule_inputs(self.first_molecules)
        with right:
            seed, each, conformers = quick_inputs()
            with st.expander("Sampling, batch and device", icon=":material/tune:"):
                sampling, limit, device = sampling_input()
                prompt = prompt_inputs()
                more_words, plan = self.plan_options()
            label = st.text_input(
                "Label", key="run_label", bind="query-params", max_chars=MOST_TEXT, placeholder="a name of your own"
            )
        if problem := molecules.problem or problem or self._problem(models, lps):
            st.info(problem, icon=":material/edit:")
            return
        try:
            plan = replace(plan, sampling=sampling, generations=each, seed=seed, limit=limit, conformers=conformers)
            for lp in lps:
                replace(plan, lp=lp, **prompt.read())  # which checks it
        except DriftscopeError as error:
            st.error(error_markdown(error), icon=":material/error:")
            return
        label = " ".join((label or "").split())
        words = ["run", *words, *more_words, *prompt.words, *repeated("--model", models), *repeated("--lp", lps)]
        words += [*molecules.words, *plan_words(plan), *([] if device == "auto" else ["--device", device])]
        words += [*([f"--label={label}"] if label else []), *molecules.positional]
        count = counted(len(models) * len(lps), self.title)
        title = f"{count} “{label}”" if label else f"{count} of {', '.join(models)}"
        self._start(words, title, molecules, effect_words(len(models) * len(lps), molecules.count, each))

    def _problem(self, models: Sequence[str], lps: Sequence[str]) -> str:
        runs = len(models) * len(lps)
        if not runs:
            return f"Choose at least one {'LP' if models else 'model'}."
        return f"Limit: {self.most_runs} runs at once. These are {runs}." if runs > self.most_runs else ""

    def _start(self, words: list[str], title: str, molecules: Molecules, effect: str) -> None:
        """The button with what it does, and the same command for a terminal."""
        with st.container(horizontal=True, vertical_alignment="center", key="start"):
            is_pressed = st.button(self.button, type="primary", icon=":material/play_arrow:", key=self.key)
            st.markdown(effect, width="stretch")
        st.caption("The same from a terminal:")
        files = ["--smiles-file", *(name for name, _ in molecules.inputs)] if molecules.inputs else []
        st.code(shlex.join([".venv/bin/python", "-m", "engine", *words, *files]), language=None, wrap_lines=True)
        command = [words[0], f"--threads={spare_cores()}", *words[1:], *files[:1]]
        if is_pressed and tasks.submit(title, command, molecules.inputs):
            st.rerun()


def effect_words(runs: int, molecules: int | None, each: int) -> str:
    """``**2 runs** of 64 molecules × 2 samples: 256 samples in all.``; None: all of a file."""
    of, total = "all molecules of the file", ""
    if molecules is not None:
        of, total = counted(molecules, "molecule"), f": {runs * molecules * each:,} samples in all"
    return f"**{counted(runs, 'run')}** of {of}{f' × {each} samples' if each > 1 else ''}{total}."


PLAN_OPTIONS = {
    "--n": "generations", "--conformers": "conformers", "--seed": "seed", "--batch-size": "batch_size",
    "--backend": "backend", "--max-new-tokens": "limit",
}  # fmt: skip


def plan_words(plan: Plan) -> list[str]:
    """Options of the command; what is usual is left out."""
    values = {option: getattr(plan, name) for option, name in PLAN_OPTIONS.items()}
    changed = {option: value for option, value in values.items() if value != getattr(Plan(), PLAN_OPTIONS[option])}
    return [*sampling_words(plan.sampling), *(word for item in changed.items() for word in map(str, item))]


def repeated(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def _choices(
    label: str, names: Sequence[str], first: Sequence[str], is_several: bool, key: str, help_: str
) -> list[str]:
    if is_several:
        return st.multiselect(f"{label}s", names, list(first), key=key, bind="query-params", help=help_)
    index = names.index(first[0]) if first else 0
    chosen = st.selectbox(label, names, index, key=key, bind="query-params", help=help_)
    return [chosen] if chosen else list(first)


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """What the model's entry does not say: bins, and examples before each prompt, as they are typed."""

    bins: str = ""
    examples: str = ""

    @property
    def words(self) -> list[str]:
        words = ["--bins", *bin_words(self.bins)] if self.bins else []
        return words + (["--examples", self.examples] if self.examples else [])

    def read(self) -> dict[str, Any]:
        """As a plan has them; a ``DriftscopeError`` where they are none."""
        plan: dict[str, Any] = {"form": bins_of(self.bins)} if self.bins else {}
        return plan | ({"examples": read_examples(user_path(self.examples, "Examples"))} if self.examples else {})


def prompt_inputs() -> PromptInputs:
    left, right = st.columns(2)
    with left:
        bins = bins_input("run_bins")
    examples = right.text_input(
        "Examples",
        key="run_examples",
        bind="query-params",
        max_chars=MOST_PATHS,
        placeholder="none",
        help="Molecules with conformers, which the model reads before each prompt: a text file on the machine that the "
        "app runs on.",
    )
    return PromptInputs(bins, (examples or "").strip())


def sampling_words(sampling: Sampling) -> list[str]:
    """A preset's name, or the first one with what is otherwise."""
    name, usual = sampling_name(sampling), PRESETS["qwen3"]
    if name in PRESETS:
        return ["--sampling", name]
    changed = [name for name in FILTERS if getattr(sampling, name) != getattr(usual, name)]
    return ["--sampling", "qwen3", *(f"--{name.replace('_', '-')}={getattr(sampling, name):g}" for name in changed)]


# --- molecules --------------------------------------------------------------------------------------------------------


def molecule_inputs(first: int) -> Molecules:
    """Of those that ship, typed in, or from a file; with what is wrong. ``first`` of those that ship to begin with."""
    about = "Held-out molecules ship with the project; no embedded model was trained on their skeletons."
    source = one_of("Molecules", (SHIPPED, TYPED, FILE), "run_from", help=about)
    if source == TYPED:
        return _typed()
    if source == FILE:
        return _file()
    most = len(load_run_set())
    count = st.number_input(
        f"Number of molecules (of {most:,})",
        1,
        most,
        first,
        key="run_first",
        bind="query-params",
        width=220,
        help="Their file is shuffled: its start is a sample of the whole, and the same for all runs.",
    )
    return Molecules(words=("--sample-size", str(int(count or first))), count=int(count or first))


def _typed() -> Molecules:
    text = st.text_area(
        "SMILES, one per line",
        "CC=O\nCCO\nc1ccccc1",
        key="run_smiles",
        height=130,
        bind="query-params",
        help=f"Up to {MOST_TYPED:,}. Text after a SMILES is ignored. Runs over the same molecules can be paired.",
    )
    lines = first_words(text or "")
    if len(lines) > MOST_TYPED:
        return Molecules(problem=f"Limit: {MOST_TYPED:,} typed molecules. Use a file for more.")
    smiles, problems = [smiles for _, smiles in lines], _problems(lines)
    show_problems(problems)
    if problems or not smiles:
        return Molecules(problem="Correct or remove the lines above." if problems else "Type at least one SMILES.")
    if len(smiles) <= MOST_WORDS:
        return Molecules(positional=("--", *smiles), count=len(smiles))
    return Molecules(inputs=(("typed.smi", "".join(f"{line}\n" for line in smiles).encode()),), count=len(smiles))


@st.cache_data(max_entries=50, show_spinner="Reading molecules …")
def _problems(lines: list[tuple[int, str]]) -> list[str]:
    results = [(number, read_smiles(smiles)) for number, smiles in lines]
    return [f"Line {number}: {result}" for number, result in results if isinstance(result, str)]


def _file() -> Molecules:
    files = uploads(
        "A file of molecules",
        endings_of("molecules"),
        key="run_file",
        help=f"{words_of('molecules')}. It stays on this machine, and is deleted when the command has ended.",
    )
    left, right = st.columns(2)
    column = left.text_input(
        "Column of the SMILES", key="run_column", bind="query-params", max_chars=200, placeholder="found by its name"
    ).strip()
    limit = right.number_input(
        "Number of molecules", 1, 10_000_000, None, key="run_limit", bind="query-params", placeholder="all of them"
    )
    if not files:
        return Molecules(problem="Choose a file of molecules.")
    words: tuple[str, ...] = () if limit is None else ("--sample-size", str(int(limit)))
    words += (f"--smiles-column={column}",) if column else ()
    count = None if limit is None else int(limit)
    return Molecules(words=words, inputs=tuple((file.name, file.getvalue()) for file in files), count=count)


# --- files ------------------------------------------------------------------------------------------------------------


def show_import(
    key: str,
    becomes: Becomes,
    about: str,
    fields: Sequence[tuple[str, str, str, str]],
    options: Callable[[], list[str]] = list,
) -> None:
    """``key`` begins the names of the widgets. ``fields`` are texts: label, key, the command's option, placeholder;
    ``options`` draws more, and gives its words."""
    st.markdown(f"Reads {words_of(becomes)}. {about}")
    example = f"/data/**/*{forms_of(becomes)[0].endings[0]}"
    inputs: list[Input] = []
    paths: list[str] = []
    field = f"{key}_{st.session_state.setdefault(f'{key} so far', 0)}"
    if one_of("Source", (UPLOAD, HERE), f"{key}_from") == HERE:
        text = st.text_area(
            "Files or patterns, one per line",
            key=f"{key}_paths",
            height=90,
            bind="query-params",
            max_chars=MOST_PATHS,
            placeholder=example,
            help="On the machine that the app runs on. \\*\\* matches folders.",
        )
        paths = [line.strip() for line in (text or "").splitlines() if line.strip()]
    else:
        limits = (
            f"At most {st.get_option('server.maxUploadSize'):,} MB each, as `server.maxUploadSize` in "
            "`.streamlit/config.toml` says. Larger files can be read where they lie. An upload is deleted afterwards."
        )
        files = uploads("Files", endings_of(becomes), key=field, several=True, help=limits)
        inputs = [(file.name, file.getvalue()) for file in files]
    names = [*paths, *(name for name, _ in inputs)]
    words = COMMANDS[becomes].split()
    for column, (label, name, option, placeholder) in zip(st.columns(2) * len(fields), fields, strict=False):
        text = column.text_input(label, key=name, bind="query-params", max_chars=MOST_TEXT, placeholder=placeholder)
        words += [f"{option}={value}"] if (value := " ".join((text or "").split())) else []
    words += [*options(), "--"]
    of = counted(len(names), "pattern" if paths else "file")
    if len(names) == 1:
        of = names[0]
    is_pressed = st.button("Import", type="primary", icon=":material/upload_file:", key=f"{key}_go", disabled=not names)
    if is_pressed and tasks.submit(f"Import of {of}", [*words, *paths], inputs):
        release(field)
        st.session_state[f"{key} so far"] += 1  # a field without the files
        st.rerun()
    st.caption("The same from a terminal:")
    shown = [".venv/bin/python", "-m", "engine", *words, *(names[:MOST_NAMED] or [example])]
    st.code(shlex.join(shown), language=None, wrap_lines=True)
