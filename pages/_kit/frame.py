"""What every page draws around its content: window title, heading, the app's few CSS rules, the version.

A page calls ``page`` first. It needs nothing from ``app.py``, so a page also runs alone.
"""

from __future__ import annotations

import re
from pathlib import Path

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from engine import __version__
from engine.lp_records import FORMER_NAMES, full_name, split_cleanup
from engine.paths import ROOT
from pages._kit import shown
from pages._kit.components.address import limit_steps
from pages._kit.theme import DARK, palette
from pages._kit.uploads import release_of_other_pages

NAME = "Driftscope"
FAVICON = str(Path(__file__).with_name("favicon.svg"))
_LOGO = str(Path(__file__).with_name("logo.svg"))
_CSS = Path(__file__).with_name("frame.css")
_GLOSSARY = ROOT / "docs" / "glossary.md"
SEVERAL_LPS = ("advice_lps", "run_lp")


def page(title: str, icon: str, lead: str, words: tuple[str, ...] = ()) -> None:
    """Open a page: its name, its symbol (``:material/...:``) and one line that says what the page is for.

    ``words`` of the glossary that the page uses are behind a question mark.
    """
    _leave_old_navigation()
    _rename_lps()
    shown.forget()
    release_of_other_pages(title)
    # The favicon is a file of ours: a Material symbol would be fetched from the web.
    st.set_page_config(page_title=f"{title} · {NAME}", page_icon=FAVICON, layout="wide")
    st.html(_CSS)
    # A dialog is outside of the element to which Streamlit gives the theme's colour scheme.
    scheme = "dark" if palette() is DARK else "light"
    st.html(f"<style>[data-testid='stDialog'] {{ color-scheme: {scheme}; }}</style>")
    limit_steps()
    st.logo(_LOGO, icon_image=FAVICON, size="large")
    st.title(f"{icon} {title}", anchor=False)
    glossary = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", _GLOSSARY.read_text(encoding="utf-8"))
    terms = dict(re.findall(r"^\*\*([^*]+)\*\*: ((?:.+\n)+)", glossary, re.MULTILINE))
    st.markdown(lead, help="\n\n".join(f"**{word}**: {terms[word]}" for word in words) or None)
    _footer(glossary)


def _leave_old_navigation() -> None:
    """Start over with ``app.py`` when Streamlit ran this page by itself.

    Where a folder is called ``pages``, Streamlit makes a navigation of its own from it until the server has run
    ``st.navigation`` once: who follows a link to a page as the server's first visitor would see that one.
    """
    if PagesManager.uses_pages_directory:
        PagesManager.uses_pages_directory = False
        st.rerun()


def _rename_lps() -> None:
    """Addresses of before the LPs had the group's names: ``lp1=position-blocklist``."""
    for key in list(st.query_params):
        values = st.query_params.get_all(key)
        named = [full_name(value) if split_cleanup(value)[0] in FORMER_NAMES else value for value in values]
        if named != values:
            del st.query_params[key]
            st.session_state[key] = named if key in SEVERAL_LPS else named[0]


def _footer(glossary: str) -> None:
    with st.sidebar.container(key="driftscope-footer"):
        if st.button("Glossary", icon=":material/dictionary:", type="tertiary"):
            st.dialog("Glossary", width="large")(st.markdown)(glossary.partition("\n")[2])
        st.caption(f"{NAME} {__version__} · runs on this machine, sends nothing anywhere")
