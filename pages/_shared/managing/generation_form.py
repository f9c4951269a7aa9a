"""Runs that are started from a page: models, LPs, molecules and sampling in one form, and the command that it becomes.

It generates nothing: the input is checked here, and the command line carries it out. Anybody may copy the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from engine.decode.plan import Plan
from engine.decode.presets import PRESETS, Sampling
from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.models.devices import spare_cores
from engine.models.registry import load_registry
from engine.runner.plan import sampling_name
from pages._shared.errors import escape_markdown
from pages._shared.generation_inputs import FILTERS, FIRST_MODEL, quick_inputs, sampling_input
from pages._shared.managing import molecules, tasks

MOST_LABEL = 200
MODEL_HELP = "Alias and step: the embedded models, and those of the file that DRIFTSCOPE_MODELS names."


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What one command is to do: a run for each model under each LP."""

    models: tuple[str, ...]
    lps: tuple[str, ...]
    plan: Plan
    device: str
    label: str
    molecules: molecules.MoleculeChoice
    options: tuple[str, ...] = ()  # a page's own words of the command

    @property
    def runs(self) -> int:
        return len(self.models) * len(self.lps)

    def words(self) -> list[str]:
        """For the command line. Defaults are left out."""
        plan, default = self.plan, Plan()
        words = ["run", *self.options]
        words += [word for name in self.models for word in ("--model", name)]
        words += [word for name in self.lps for word in ("--lp", name)]
        words += [*self.molecules.words, *sampling_words(plan.sampling)]
        for option, value, usual in (
            ("--n", plan.generations, default.generations),
            ("--seed", plan.seed, default.seed),
            ("--batch-size", plan.batch_size, default.batch_size),
            ("--backend", plan.backend, default.backend),
            ("--max-new-tokens", plan.limit, default.limit),
            ("--device", self.device, "auto"),
        ):
            words += [] if value == usual else [option, str(value)]
        words += [f"--label={self.label}"] if self.label else []
        return [*words, *self.molecules.positional]

    def title(self, what: str) -> str:
        return f"{what} “{self.label}”" if self.label else f"{what} of {', '.join(self.models)}"

    def over_molecules(self) -> str:
        count = self.molecules.count
        return "all molecules of the file" if count is None else counted(count, "molecule")


def sampling_words(sampling: Sampling) -> list[str]:
    """A preset's name, or the first one with what is otherwise."""
    name = sampling_name(sampling)
    if name in PRESETS:
        return ["--sampling", name]
    usual = PRESETS["qwen3"]
    changed = [name for name in FILTERS if getattr(sampling, name) != getattr(usual, name)]
    return ["--sampling", "qwen3", *(f"--{name.replace('_', '-')}={getattr(sampling, name):g}" for name in changed)]


@dataclass(frozen=True, slots=True)
class GenerationForm:
    """What the form of one page offers. Keys are those of the widgets, and of the address."""

    key: str  # of the button
    button: str
    lps: Sequence[str]
    first_lps: tuple[str, ...]
    lp_help: str
    title: Callable[[RunRequest], str]  # of the task
    effect: Callable[[RunRequest], str]  # what a click starts, as Markdown
    model_key: str
    lp_key: str
    first_molecules: int = molecules.FIRST
    most_runs: int = 1
    several_models: bool = False
    lead: str = ""
    hint: str = ""
    options: Callable[[], tuple[tuple[str, ...], str]] = lambda: ((), "")  # own words of the command, or a problem
    plan_options: Callable[[], tuple[dict[str, Any], tuple[str, ...]]] = lambda: ({}, ())  # folded away

    def show(self) -> None:
        if self.lead:
            st.markdown(self.lead)
        left, right = st.columns([3, 2], gap="large")
        with left:
            names = [entry.name for entry in load_registry().entries]
            first = [FIRST_MODEL] if FIRST_MODEL in names else names[:1]
            models = _choices("Model", names, first, self.several_models, self.model_key, MODEL_HELP)
            lps = _choices("LP", self.lps, self.first_lps, self.most_runs > 1, self.lp_key, self.lp_help)
            words, problem = self.options()
            chosen = molecules.molecule_inputs(self.first_molecules)
        with right:
            seed, samples = quick_inputs()
            with st.expander("Sampling, batch and device", icon=":material/tune:"):
                sampling, limit, device = sampling_input()
                plan_options, more_words = self.plan_options()
            label = st.text_input(
                "Label", key="run_label", bind="query-params", max_chars=MOST_LABEL, placeholder="a name of your own"
            )
        if problem := chosen.problem or problem or self._problem(models, lps):
            st.info(problem, icon=":material/edit:")
            return
        try:
            plan = Plan(sampling=sampling, generations=samples, seed=seed, limit=limit, **plan_options)
        except DriftscopeError as error:
            st.error(escape_markdown(str(error)), icon=":material/error:")
            return
        label = " ".join((label or "").split())
        self._offer(RunRequest(tuple(models), tuple(lps), plan, device, label, chosen, (*words, *more_words)))

    def _problem(self, models: Sequence[str], lps: Sequence[str]) -> str:
        if not models or not lps:
            return f"Choose at least one {'model' if not models else 'LP'}."
        runs = len(models) * len(lps)
        return f"Limit: {self.most_runs} runs at once. These are {runs}." if runs > self.most_runs else ""

    def _offer(self, request: RunRequest) -> None:
        words, inputs = request.words(), request.molecules.inputs
        with st.container(horizontal=True, vertical_alignment="center", key="start"):
            is_pressed = st.button(self.button, type="primary", icon=":material/play_arrow:", key=self.key)
            st.markdown(self.effect(request), width="stretch")
        st.caption(f"The same from a terminal{self.hint}:")
        files = ["--smiles-file", *(name for name, _ in inputs)] if inputs else []
        st.code(shlex.join([".venv/bin/python", "-m", "engine", *words, *files]), language=None, wrap_lines=True)
        if is_pressed:
            command = [words[0], f"--threads={spare_cores()}", *words[1:], *files[:1]]
            if tasks.submit(self.title(request), command, inputs):
                st.rerun()


def _choices(
    label: str, names: Sequence[str], first: Sequence[str], is_several: bool, key: str, help_: str
) -> list[str]:
    if is_several:
        return st.multiselect(f"{label}s", names, list(first), key=key, bind="query-params", help=help_)
    index = names.index(first[0]) if first else 0
    chosen = st.selectbox(label, names, index, key=key, bind="query-params", help=help_)
    return [chosen] if chosen else list(first)
