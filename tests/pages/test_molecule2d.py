"""The Python side of the 2D drawing: what travels, when, and how a pick is handed on."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages._kit.components import molecule2d
from tests.pages.apps import picked_atom
from tests.pages.component_tests import messages_of, run


def drawing_page() -> None:
    import streamlit as st

    from pages._kit.components.molecule2d import molecule2d

    def pick(atom: int | None) -> None:
        st.session_state["told"] = [*st.session_state.get("told", []), atom]
        st.session_state["atom"] = atom

    molecule2d(
        st.session_state.get("svg", "<svg/>"),
        key="flat",
        label="Molecule",
        atoms=st.session_state.get("atoms", ["atom 0, C", "\ud800", "atom 2"]),
        selected=st.session_state.get("atom"),
        lit=st.session_state.get("lit"),
        on_pick=None if st.session_state.get("look") else pick,
    )
    st.text(f"told {st.session_state.get('told', [])}")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The data of every message."""
    return messages_of(molecule2d._component, monkeypatch)


def test_only_what_is_new_travels(sent: list[dict[str, Any]]) -> None:
    page = AppTest.from_function(drawing_page)
    run(page, svg="<svg>" + "x" * 5000 + "</svg>", atom=3, lit=-1)  # atoms that are not there are not marked
    run(page, lit=1)
    run(page, lit=2)
    run(page, svg="<svg><g/></svg>")
    run(page, atoms=["junk: amen", "b", "c"])
    run(page)
    assert ["large" in message for message in sent] == [True, False, False, True, True, False]
    assert ["code" in message for message in sent] == [True, *[False] * 5]
    assert [message["lit"] for message in sent[:3]] == [None, 1, 2] and sent[0]["selected"] is None
    assert len({message["holds"] for message in sent[:3]}) == 1 and len(str(sent[1])) < 300
    assert sent[0]["large"]["atoms"][1] == "\\ud800" and sent[4]["large"]["atoms"] == ["junk: amen", "b", "c"]


def test_a_pick_is_handed_on_once_and_confirmed(sent: list[dict[str, Any]]) -> None:
    page = AppTest.from_function(drawing_page)
    assert run(page) == "told []"
    for pick, text, selected in (
        ({"flat": picked_atom(2)}, "told [2]", 2),
        ({}, "told [2]", 2),
        ({"flat": picked_atom(2)}, "told [2, 2]", 2),
        ({"flat": picked_atom(None)}, "told [2, 2, None]", None),
        ({"flat": picked_atom(0)}, "told [2, 2, None, 0]", 0),
    ):
        assert (run(page, **pick), sent[-1]["selected"]) == (text, selected)
    assert sent[1]["heard"] != sent[0]["heard"]


@pytest.mark.parametrize(
    "state", [None, 3, {"picked": 2}, {"picked": {"atom": "2", "stamp": "x"}}, {"picked": {"atom": 2}}, picked_atom(9)]
)
def test_a_pick_that_no_drawing_of_ours_made_is_none(state: object) -> None:
    page = AppTest.from_function(drawing_page)
    run(page)
    assert run(page, flat=state) == "told []"


def test_without_on_pick_nothing_is_picked(sent: list[dict[str, Any]]) -> None:
    page = AppTest.from_function(drawing_page)
    assert run(page, look=True, flat=picked_atom(1)) == "told []"
    assert sent[-1]["pickable"] is False
