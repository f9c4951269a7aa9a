"""What every page draws around its content: window title, heading, the app's few CSS rules, jobs, the version.

A page calls ``page`` first. It needs nothing from ``app.py``, so a page also runs alone.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.runtime.pages_manager import PagesManager

from engine import __version__
from engine.lp_records import FORMER_NAMES, full_name, split_cleanup
from engine.models.server import ADDRESS, is_server_set
from pages._kit import shown
from pages._kit.choices import leave_other_pages
from pages._kit.components.address import limit_steps
from pages._kit.errors import shown_errors
from pages._kit.managing import tasks
from pages._kit.theme import DARK, palette
from pages._kit.uploads import release_of_other_pages
from pages._kit.words import glossary, glossed

NAME = "Driftscope"
FAVICON = str(Path(__file__).with_name("favicon.svg"))
_LOGO = str(Path(__file__).with_name("logo.svg"))
_CSS = Path(__file__).with_name("frame.css")
OPEN_PAGE = "page that is open"
OF_SEVERAL_PAGES = ("contains", "model")  # keys of widgets that mean something else on another page
SEVERAL_LPS = ("advice_lps", "run_lp")


def page(title: str, lead: str) -> None:
    """Open a page: its name, and one line that says what the page is for."""
    _leave_old_navigation()
    _rename_lps()
    shown.forget()
    if st.session_state.get(OPEN_PAGE) != title:
        leave_other_pages(*OF_SEVERAL_PAGES)
    st.session_state[OPEN_PAGE] = title
    release_of_other_pages(title)
    # The favicon is a file of ours: a Material symbol would be fetched from the web.
    st.set_page_config(page_title=f"{title} · {NAME}", page_icon=FAVICON, layout="wide")
    st.html(_CSS)
    # A dialog is outside of the element to which Streamlit gives the theme's colour scheme.
    scheme = "dark" if palette() is DARK else "light"
    ground = f":root {{ --ground: {palette().background}; }}"
    st.html(f"<style>{ground} [data-testid='stDialog'] {{ color-scheme: {scheme}; }}</style>")
    st.logo(_LOGO, icon_image=FAVICON, size="large")
    # In one row: a component shows a grey bar until the browser has its module, and above the title it would move it.
    with st.container(horizontal=True, gap=None, key="heading"):
        st.title(title, anchor=False)
        limit_steps()
    st.markdown(glossed(lead), unsafe_allow_html=True)
    with shown_errors("The list of jobs", stops=False):
        tasks.tray()
    _footer()


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


def _footer() -> None:
    with st.sidebar.container(key="driftscope-footer"):
        if st.button("Glossary", icon=":material/dictionary:", type="tertiary"):
            st.dialog("Glossary", width="large")(st.markdown)(glossary().partition("\n")[2])
        sends = f"asks the server of {ADDRESS} alone" if is_server_set() else "sends nothing anywhere"
        st.caption(f"{NAME} {__version__} · runs on this machine, {sends}")
