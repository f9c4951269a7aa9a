"""Starting runs from the page: models x LPs over the same molecules, as one command that anybody may copy.

It computes nothing: what is asked for is checked here, and carried out by the command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.decode.plan import BACKENDS, BackendName, Plan
from engine.decode.presets import PRESETS, Sampling
from engine.errors import DriftscopeError
from engine.lp.catalogue import LPS
from engine.models.registry import load_registry
from engine.runner.background import threads_beside
from engine.runner.plan import sampling_name
from pages._shared.errors import escape_markdown
from pages._shared.live.inputs import CLEANED, FILTERS, FIRST_MODEL, quick_inputs, sampling_input
from pages._shared.managing import molecules, tasks

FIRST_LPS = ("none", "position-blocklist", "exact")
MOST_RUNS = 24
MOST_BATCH, MOST_STEPS, MOST_REFERENCES, MOST_LABEL = 4_096, 100_000, 1_000, 200
KEPT_STEPS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """What one command is to do."""

    models: tuple[str, ...]
    lps: tuple[str, ...]
    plan: Plan
    device: str
    keep_steps: int
    rmsd: int
    label: str
    molecules: molecules.Chosen

    @property
    def runs(self) -> int:
        return len(self.models) * len(self.lps)

    def words(self) -> list[str]:
        """For the command line. What is its default is left out."""
        plan = self.plan
        found = ["run"]
        found += [word for name in self.models for word in ("--model", name)]
        found += [word for name in self.lps for word in ("--lp", name)]
        found += self.molecules.words
        found += sampling_words(plan.sampling)
        default = Plan()
        for option, value, usual in (
            ("--n", plan.generations, default.generations),
            ("--seed", plan.seed, default.seed),
            ("--batch-size", plan.batch_size, default.batch_size),
            ("--backend", plan.backend, default.backend),
            ("--max-new-tokens", plan.limit, default.limit),
            ("--device", self.device, "auto"),
            ("--keep-steps", self.keep_steps, 0),
            ("--rmsd", self.rmsd, 0),
        ):
            found += [] if value == usual else [option, str(value)]
        found += [f"--label={self.label}"] if self.label else []
        return [*found, *self.molecules.positional]


def sampling_words(sampling: Sampling) -> list[str]:
    """A preset's name, or the first one with what is otherwise."""
    name = sampling_name(sampling)
    if name in PRESETS:
        return ["--sampling", name]
    usual = PRESETS["qwen3"]
    changed = [one for one in FILTERS if getattr(sampling, one) != getattr(usual, one)]
    return ["--sampling", "qwen3", *(f"--{one.replace('_', '-')}={getattr(sampling, one):g}" for one in changed)]


def show() -> None:
    """Draw the form, what it would start, and the button."""
    left, right = st.columns([3, 2], gap="large")
    with left:
        models, lps = _what()
        chosen = molecules.molecule_inputs()
    with right:
        seed, samples = quick_inputs()
        with st.expander("Sampling, batch and what is kept", icon=":material/tune:"):
            sampling, limit, device = sampling_input()
            backend, batch = _how()
            keep_steps, rmsd = _kept()
        label = st.text_input(
            "Label", key="run_label", bind="query-params", max_chars=MOST_LABEL, placeholder="a name of your own"
        )
    problem = chosen.problem or _problem(models, lps)
    if problem:
        st.info(problem, icon=":material/edit:")
        return
    try:
        plan = Plan(
            backend=backend, sampling=sampling, generations=samples, seed=seed, batch_size=batch, limit=limit
        )  # fmt: skip
    except DriftscopeError as error:
        st.error(escape_markdown(str(error)), icon=":material/error:")
        return
    _offer(Asked(tuple(models), tuple(lps), plan, device, keep_steps, rmsd, " ".join(label.split()), chosen))


def _what() -> tuple[list[str], list[str]]:
    names = [entry.name for entry in load_registry().entries]
    models = st.multiselect(
        "Models",
        names,
        default=[FIRST_MODEL if FIRST_MODEL in names else names[0]] if names else [],
        key="run_model",
        bind="query-params",
        help="Alias and step: the embedded models, and those of the file that DRIFTSCOPE_MODELS names.",
    )
    lps = st.multiselect(
        "LPs",
        [*LPS, *(f"{name}+cleanup" for name in CLEANED), "cleanup"],
        default=list(FIRST_LPS),
        key="run_lp",
        bind="query-params",
        help="Each model writes the molecules under each logits processor (LP): a run each. `none` is the control.",
    )
    return models, lps


def _how() -> tuple[BackendName, int]:
    left, right = st.columns(2)
    backend = left.segmented_control(
        "Backend",
        list(BACKENDS),
        default=BACKENDS[0],
        required=True,
        key="run_backend",
        bind="query-params",
        help="fast is the loop of this project, hf is the plain `generate` of transformers.",
    )
    batch = right.number_input("Batch size", 1, MOST_BATCH, Plan().batch_size, key="run_batch", bind="query-params")
    return backend, int(batch or Plan().batch_size)


def _kept() -> tuple[int, int]:
    left, right = st.columns(2)
    steps = left.number_input(
        "Samples with their steps", 0, MOST_STEPS, KEPT_STEPS, key="run_steps", bind="query-params",
        help="What the model thought at each token, for the first so many samples: the Drift inspector shows it.",
    )  # fmt: skip
    rmsd = right.number_input(
        "Reference conformers", 0, MOST_REFERENCES, 0, key="run_rmsd", bind="query-params",
        help="Each answer is compared with so many conformers made by RDKit: the RMSD to the nearest. 0 leaves it out.",
    )  # fmt: skip
    return int(steps or 0), int(rmsd or 0)


def _problem(models: Sequence[str], lps: Sequence[str]) -> str:
    if not models or not lps:
        return f"Choose one {'model' if not models else 'LP'} or more."
    if len(models) * len(lps) > MOST_RUNS:
        return f"{len(models) * len(lps)} runs at once are more than {MOST_RUNS}. Start them in several goes."
    return ""


def _offer(asked: Asked) -> None:
    title = f"{asked.runs} {'run' if asked.runs == 1 else 'runs'}"
    title += f" “{asked.label}”" if asked.label else f" of {', '.join(asked.models)}"
    offer(asked, what_it_starts(asked), title, button="Start", key="start_runs")


def offer(
    asked: Asked, what: str, title: str, *, button: str, key: str, more: Sequence[str] = (), hint: str = ""
) -> None:
    """Say what it does, as Markdown, and the command; a click starts it. ``more`` stands behind the command's name."""
    words, inputs = asked.words(), asked.molecules.inputs
    names = [name for name, _ in inputs]
    with st.container(horizontal=True, vertical_alignment="center", key="start"):
        is_pressed = st.button(button, type="primary", icon=":material/play_arrow:", key=key)
        st.markdown(what, width="stretch")
    st.caption(f"The same from a terminal{hint}:")
    shown = [words[0], *more, *words[1:], *(["--smiles-file", *names] if names else [])]
    st.code(shlex.join(["python", "-m", "engine", *shown]), language="bash", wrap_lines=True)
    if is_pressed:
        own = [words[0], f"--threads={threads_beside()}", *more, *words[1:], *(["--smiles-file"] if inputs else [])]
        if tasks.submit(title, own, inputs):
            st.rerun()


def what_it_starts(asked: Asked) -> str:
    """As Markdown."""
    runs, count, each = asked.runs, asked.molecules.count, asked.plan.generations
    words = f"**{runs} {'run' if runs == 1 else 'runs'}**"
    if len(asked.models) > 1 and len(asked.lps) > 1:
        words += f" ({len(asked.models)} models × {len(asked.lps)} LPs)"
    if count is None:
        return f"{words} of all molecules of the file, one after the other."
    samples = f"{count:,} {'molecule' if count == 1 else 'molecules'}" + (f" × {each} samples" if each > 1 else "")
    return f"{words} of {samples}: {runs * count * each:,} samples in all, one run after the other."
