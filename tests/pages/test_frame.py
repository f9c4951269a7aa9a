"""The frame around a page, and errors and untrusted text on it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from engine import __version__
from engine.errors import DEBUG
from engine.store.schema import LOGIT_LOG
from pages._kit.errors import escaped
from pages._kit.words import glossed, help_with_words
from tests.crafted import copied, craft, craft_sheet, filled
from tests.pages.apps import opened


def framed_page() -> None:
    import streamlit as st

    from engine.errors import SmilesError
    from pages._kit.errors import shown_errors
    from pages._kit.frame import page

    page("Some page", "What it is for.")
    with shown_errors():
        if st.session_state.get("smiles"):
            raise SmilesError(st.session_state["smiles"], "unclosed ring", 2, "Close ring `1` of 'a `b`'")
        st.text("all is well")
    st.text("after")


def test_a_page_runs_alone_and_an_engine_error_is_one_message_and_its_end() -> None:
    page = AppTest.from_function(framed_page).run()
    assert not page.exception and page.title[0].value == "Some page"
    assert __version__ in page.sidebar.caption[0].value
    assert [text.value for text in page.text] == ["all is well", "after"]
    page.session_state["smiles"] = "C1[link](http://x.y) `verify`\ud800"
    page.run()
    (error,) = page.error
    assert not page.exception and not page.text
    assert "unclosed ring" in error.value and "](" not in error.value
    assert re.findall(r"(?<!\\)`.*?`", error.value) == ["`1`"], "of our advice alone"


def folded_page() -> None:
    import streamlit as st

    from pages._kit.sections import fold, put_unfolded

    st.button("Ask for it", on_click=lambda: put_unfolded("rest", is_open=True))
    fold("The rest", "rest", is_open=True, icon=":material/edit:")  # as a link asks


def test_a_fold_stays_as_its_reader_left_it_until_it_is_asked_for() -> None:
    page = AppTest.from_function(folded_page).run()
    assert page.expander[0].proto.expanded
    page.session_state["rest"] = page.session_state["kept rest"] = False  # as a click closes it
    for _ in range(2):
        assert not page.run().expander[0].proto.expanded
    page.button[0].click().run()
    assert not page.exception and page.expander[0].proto.expanded


def test_what_another_page_had_under_the_same_key_is_left_on_arrival_alone() -> None:
    """The bug: words that filter Compare's runs filtered Drift's molecules too."""
    imports = "import streamlit as st\nfrom pages._kit.frame import page\n"
    app = AppTest.from_string(f"{imports}page('Here', 'One')\nst.text_input('A', key='contains')")
    app.session_state["contains"] = "of another page"
    assert not app.run().text_input(key="contains").value
    assert app.text_input(key="contains").set_value("ours").run().text_input(key="contains").value == "ours"


VIEWS = {
    "drift": ["Molecules", "Table"],
    "compare": ["Side by side", "Manage"],
    "logits": ["Health", "Logs"],
    "profiles": ["Families", "Traces"],
    "tokenizer_lab": ["Text"],
    "evidence": ["In two minutes"],
}


@pytest.mark.parametrize(("page", "view"), [(page, view) for page, views in VIEWS.items() for view in views])
def test_a_sentence_and_a_head_of_a_table_have_the_meaning_of_their_words(
    demo_store: None, page: str, view: str
) -> None:
    app = opened(page, view=view, **({"manage": "Several runs"} if view == "Manage" else {}))
    texts = [str(part.value) for part in (*app.markdown, *app.caption)]
    bare = [text for text in texts if "<abbr" in glossed(text) and "<abbr" not in text and "-badge[" not in text]
    assert bare == [] and any("<abbr" in text for text in texts) >= (page in ("drift", "tokenizer_lab"))
    for frame in app.dataframe:
        configs = json.loads(frame.proto.columns or "{}")
        for name in frame.value:
            config = configs.get(name, {})
            words = (help_with_words(str(config.get("label") or name)) or "").split("\n\n")
            assert all(word in (config.get("help") or "") for word in words), name


def test_what_others_wrote_between_backticks_of_two_lines_is_no_html() -> None:
    """The bug: a line that begins with a tag is HTML, though it is inside of what was taken for code."""
    marked = escaped("one ` two\n<h3>three</h3> ` four", has_code=True)
    assert r"\<h3\>" in marked and r"\`" in marked


def test_a_word_of_the_glossary_has_its_meaning_where_it_first_occurs() -> None:
    text = escaped(
        "COV-R of an LP's cut blocks: `LP`, <cut>, two LPs, lp, junk-prone, FREE. Use after free.", has_code=True
    )
    marked = re.findall(r'<abbr title="([^"]*)">([^<]*)</abbr>', glossed(text))
    assert [re.sub(r"\\(.)", r"\1", word) for _, word in marked] == ["COV-R", "LP", "cut", "blocks", "FREE"]
    assert marked[1][0].startswith("a logits processor.")
    assert re.sub(r"</?abbr[^>]*>", "", glossed(text)) == text
    assert glossed("[the cut](drift) :material/cut: :green-badge[cut]").count("<abbr") == 1
    about = help_with_words("Usable under an LP", "Of all answers")
    assert [part.split(":")[0] for part in (about or "").split("\n\n")] == ["Of all answers", "**Usable**", "**LP**"]
    assert help_with_words("Seconds") is None


@given(st.text(st.characters(codec=None)))
def test_every_mark_is_escaped_and_the_text_is_kept(text: str) -> None:
    marked = escaped(text)
    marked.encode()
    assert not re.search(r"(?<!\\)(?:\\\\)*[!-/:-@\[^-`{-~]", re.sub(r"\\[!-/:-@\[-`{-~]", "", marked))
    if text.isascii() and text.isprintable() and not text.startswith(" "):
        assert re.sub(r"\\(.)|\u2060", r"\1", marked) == (text or "\u00a0")


@pytest.mark.parametrize(
    ("view", "table", "column", "value"),
    [("Models", "logit_entries", "middle", 1e308), ("Health", "logit_values", "flags", ["constant", "constant"])],
)
def test_a_crafted_log_breaks_no_section(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str, table: str, column: str, value: object
) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    _, entry = copied(tmp_path, LOGIT_LOG, "driftscope-demo-qwen")
    craft(entry, table, filled(column, value))
    craft_sheet(entry, lambda sheet: sheet["row"].update(entries=0))
    opened("logits", view=view)


@pytest.mark.parametrize(
    ("page", "address", "words"),
    [
        ("compare", {"view": "Nonsense"}, "There is no view 'Nonsense' here. Side by side is chosen instead."),
        ("drift", {"view": "<img src=x>"}, "There is no view '<img src=x>' here. Molecules is chosen instead."),
        ("logits", {"view": "Logs", "manage": "All"}, "There is no part 'All' here. Import is chosen instead."),
    ],
)
def test_a_view_that_an_address_names_wrongly_is_told(
    demo_store: None, page: str, address: dict[str, str], words: str
) -> None:
    app = opened(page, **address)
    assert [re.sub(r"\\(.)", r"\1", error.value) for error in app.error] == [words]
    assert not opened(page).error


def test_a_section_that_breaks_says_so_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*given: object) -> None:
        raise ZeroDivisionError

    copied(tmp_path, LOGIT_LOG, "driftscope-demo-qwen")
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path))
    monkeypatch.setenv(DEBUG, "0")
    monkeypatch.setattr("engine.questions.logits_models.tables", broken)
    (error,) = opened("logits", view="Models").error
    assert "ZeroDivisionError" in error.value
