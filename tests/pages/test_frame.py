"""The frame around a page, and errors and untrusted text on it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from engine import __version__
from pages._shared.errors import escape_markdown


def framed_page() -> None:
    import streamlit as st

    from engine.errors import SmilesError
    from pages._shared.errors import shown_errors
    from pages._shared.frame import page

    page("Some page", ":material/science:", "What it is for.")
    with shown_errors():
        if st.session_state.get("smiles"):
            raise SmilesError(st.session_state["smiles"], "unclosed ring", 2, "Close ring `1` of 'a `b`'")
        st.text("all is well")
    st.text("after")


def test_a_page_runs_alone_with_its_heading_lead_and_version() -> None:
    page = AppTest.from_function(framed_page).run()
    assert not page.exception
    assert page.title[0].value == ":material/science: Some page"
    assert page.markdown[0].value == "What it is for."
    assert __version__ in page.sidebar.caption[0].value
    assert [text.value for text in page.text] == ["all is well", "after"]


def test_an_engine_error_is_one_message_and_the_end_of_the_page() -> None:
    page = AppTest.from_function(framed_page)
    page.session_state["smiles"] = "C1[link](http://x.y) `verify`\ud800"
    page.run()
    assert not page.exception
    assert len(page.error) == 1
    assert "unclosed ring" in page.error[0].value
    assert "](" not in page.error[0].value
    assert re.findall(r"(?<!\\)`.*?`", page.error[0].value) == ["`1`"], "of our advice alone"
    assert not page.text


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain words", "plain words"),
        ("**a** [b](c) `d` <e> $f$", r"\*\*a\*\* \[b\]\(c\) \`d\` \<e\> \$f\$"),
        ("1. C#N", r"1\. C\#N"),
        ("a\nb", "a\\\nb"),
        ("    code", "\u00a0" * 4 + "code"),
        ("\u202eabc\ud800", r"\\u202eabc\\ud800"),
        ("Pt <- N", "Pt \\<\u2060\\- N"),
        ("C->[Pt]", r"C\-\>\[Pt\]"),
        (":material_home: :streamlit:", "\\:\u2060material\\_home\\: \\:\u2060streamlit\\:"),
        ("www.x.org", "www\u2060\\.x\\.org"),
    ],
)
def test_escape_markdown(text: str, markdown: str) -> None:
    assert escape_markdown(text) == markdown


@given(st.text(st.characters(codec=None)))
def test_every_mark_is_escaped_and_the_text_is_kept(text: str) -> None:
    escaped = escape_markdown(text)
    escaped.encode()
    assert not re.search(r"(?<!\\)(?:\\\\)*[!-/:-@\[^-`{-~]", re.sub(r"\\[!-/:-@\[-`{-~]", "", escaped))
    if text.isascii() and text.isprintable() and not text.startswith(" "):
        assert re.sub(r"\\(.)|\u2060", r"\1", escaped) == (text or "\u00a0")
