"""Where flags stand: a text's tokens in bins, and a window of tokens and positions in which every value is a cell."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from engine.errors import one_line
from engine.figures.words import shortened
from engine.logits import windows
from engine.logits.windows import LoggedText, TokenBin
from engine.store.entries import Entry
from engine.store.store import Store
from pages._logits import health_map_figure as figures
from pages._shared.charts.card import Card, card

MOST_SOURCE = 40
QUESTION = "Where are the flags?"
HELP = """
Above, a text's tokens in bins: click a bar to show its tokens. Below, a cell is one value: its letter and colour show
its most important flag, hover for the value and the reason. Positions are those that were logged.
"""
TOKENS, POSITIONS = (30, 60, 120), (12, 24, 48, 96)
FIELD_WIDTH = 130


@dataclass(frozen=True, slots=True)
class LogWindow:
    """What is looked at: a text, and which tokens and positions of it, ends among them."""

    text: LoggedText
    first_token: int
    last_token: int
    first: int
    last: int


@st.fragment
def show(store: Store, log: Entry) -> None:
    with card("logit-map", QUESTION, HELP) as frame:
        texts = {_label(text): text for text in windows.texts(store, log)}
        controls = st.container(horizontal=True, vertical_alignment="bottom", key="map-controls")
        with controls:
            usual = next((place for place, one in enumerate(texts.values()) if one.damaged), 0)
            named = st.selectbox("Text", list(texts), index=usual, key="text", bind="query-params", width=240)
        text = texts.get(named, next(iter(texts.values())))
        frame.tell(_sentence(text, len(texts)))
        with controls:
            view = _view(store, log, text)
        _overview(store, log, text, view, frame)
        _cells(store, log, view, frame)


def _label(text: LoggedText) -> str:
    """Whole: names of layers may differ at their ends alone."""
    return f"{one_line(text.checkpoint)} · text {text.sequence}"


def _sentence(text: LoggedText, texts: int) -> str:
    named = f", from {shortened(one_line(text.source), MOST_SOURCE)}" if text.source else ""
    of = f" This is one of {texts:,} texts{named}." if texts > 1 else ""
    if not text.flagged:
        return f"No value of this text's {text.entries:,} entries has a flag.{of}"
    if not text.damaged:
        return f"{text.flagged:,} values of its {text.entries:,} entries are flagged, all of them on purpose.{of}"
    first = f", the first at token {text.first_damaged:,}" if text.first_damaged is not None else ""
    return f"{text.damaged:,} values of its {text.entries:,} entries are damaged{first}.{of}"


# --- what is looked at ----------------------------------------------------------------------------------------------


def _view(store: Store, log: Entry, text: LoggedText) -> LogWindow:
    """Where no token is asked for, the window of the first damage."""
    tokens, first_token = _size("Tokens", TOKENS, 60), text.first_token
    if text.last_token - text.first_token >= tokens:
        usual = _window_of(text, text.first_token if text.first_damaged is None else text.first_damaged, tokens)
        first_token = _start("From token", "token", text.first_token, text.last_token, usual, tokens)
    positions = windows.positions_of(store, log, text.checkpoint).tolist()
    shown = _size("Positions", POSITIONS, 24) if len(positions) > POSITIONS[0] else POSITIONS[-1]
    place = 0
    if len(positions) > shown:
        asked = _start("From position", "position", positions[0], positions[-1], positions[0], shown)
        place = min(bisect_left(positions, asked), len(positions) - 1)
    last = positions[min(place + shown, len(positions)) - 1]
    return LogWindow(text, first_token, first_token + tokens - 1, positions[place], last)


def _size(label: str, sizes: Sequence[int], usual: int) -> int:
    picked = st.selectbox(
        label,
        [str(size) for size in sizes],
        index=sizes.index(usual),
        key=label.lower(),
        bind="query-params",
        width=FIELD_WIDTH,
    )
    return int(picked)


def _start(label: str, key: str, first: int, last: int, usual: int, step: int) -> int:
    asked = st.session_state.get(key)
    if asked is not None and not first <= asked <= last:  # another text or log may not have it
        del st.session_state[key]
    return st.number_input(label, first, last, usual, step, key=key, bind="query-params", width=FIELD_WIDTH)


def _window_of(text: LoggedText, token: int, tokens: int) -> int:
    """Where the window begins that has this token, if windows stand end to end."""
    return text.first_token + (token - text.first_token) // tokens * tokens


# --- figures --------------------------------------------------------------------------------------------------------


def _overview(store: Store, log: Entry, text: LoggedText, view: LogWindow, frame: Card) -> None:
    """Only where a window does not show all, and there is something to find."""
    if not text.flagged or (view.first_token == text.first_token and view.last_token >= text.last_token):
        return
    bins, tokens = windows.token_bins(store, log, text), view.last_token - view.first_token + 1
    key = f"tokens-{log.id}-{text.sequence}-{view.first_token}-{view.last_token}"
    frame.draw(
        figures.overview(bins, view.first_token, view.last_token, f"Entries with flags by token. {_sentence(text, 1)}"),
        key=key,
        on_select=lambda: _look_at(key, [_window_of(text, _worth_seeing(bin_), tokens) for bin_ in bins]),
        selection_mode="points",
    )


def _worth_seeing(bin_: TokenBin) -> int:
    return bin_.first if bin_.first_damaged is None else bin_.first_damaged


def _look_at(key: str, tokens: Sequence[int]) -> None:
    if bars := [point["point_index"] for point in st.session_state[key]["selection"]["points"]]:
        st.session_state["token"] = tokens[min(bars)]


def _cells(store: Store, log: Entry, view: LogWindow, frame: Card) -> None:
    ends = {"first": view.first, "last": view.last, "first_token": view.first_token, "last_token": view.last_token}
    window = windows.window(store, log, view.text, **ends)
    if not window.kinds.size:
        frame.leave_out("No token was logged there.")
        return
    st.html(figures.legend(window))
    frame.draw(figures.cells(window))
    frame.data(lambda: figures.rows(window))
