"""The advice's probe: a command that writes some held-out molecules under each LP, to copy or to start from here."""

from __future__ import annotations

import re
import shlex

import streamlit as st

from engine.evidence.advice.commands import PROBED
from engine.evidence.advisor import Advice
from engine.runner.background import desk, threads_beside
from engine.store.store import Store
from pages._shared.errors import escape_markdown
from pages._shared.managing import tasks

PYTHON = ("python", "-m", "engine")
LEAST, MOST = 4, 2_000
_SIZE = re.compile(r"(--(?:probe|sample-size) )\d+")


def offer(store: Store, advice: Advice) -> None:
    """What to run for what is missing, and the probe with a button that starts it."""
    with st.container(border=True, key="advice-probe"):
        st.markdown("**Measure now**")
        missing = ", ".join(advice.missing)
        st.markdown(
            f"Not measured under this setting: {escape_markdown(missing)}."
            if missing
            else "A probe writes the same held-out molecules under each LP, one LP after the other, into the store."
        )
        size = st.number_input(
            "Molecules of a probe", LEAST, MOST, PROBED, key="advice_probe", bind="query-params", width=180,
            help="Of the held-out ones that ship. Fewer than 35 leave open whether nine in ten are usable.",
        )  # fmt: skip
        probe = of_size(advice.probe, int(size or PROBED))
        for command in (*advice.commands[:-1], probe):
            st.code(f".venv/bin/{command}", language="bash", wrap_lines=True)
        words = words_of(probe)
        about = shlex.join(words)
        if words and st.button(
            "Probe now",
            icon=":material/play_arrow:",
            key="advice-start",
            disabled=desk().is_at(about),
            help=f"The last of these commands, beside the app. Its runs go to {escape_markdown(store.home.where)}.",
        ):
            own = [words[0], f"--threads={threads_beside()}", *words[1:]]
            if tasks.submit(f"Probe of {advice.model}", own, about=about):
                st.rerun()


def of_size(command: str, molecules: int) -> str:
    """The same probe of so many molecules."""
    return _SIZE.sub(rf"\g<1>{molecules}", command)


def show_tasks(store: Store) -> None:
    """What was started, and how far it is."""
    tasks.show(store)


def words_of(command: str) -> list[str]:
    """The command's words behind the program's; none where it cannot be started without the reader's help."""
    words = shlex.split(command)
    return words[len(PYTHON) :] if tuple(words[: len(PYTHON)]) == PYTHON and "--model-path" not in words else []
