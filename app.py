"""Driftscope: ``streamlit run app.py``. Registers every page of ``pages/``; a page inherits nothing else from here."""

import streamlit as st

from pages._shared.frame import FAVICON, NAME
from pages._shared.listing import page_files

# Before the navigation: without a favicon of ours the browser would ask a font server on the web for the page's symbol.
st.set_page_config(page_title=NAME, page_icon=FAVICON, layout="wide")
st.navigation(
    [
        st.Page(page.path, title=page.title, icon=page.icon, help=page.lead or None, default=number == 0)
        for number, page in enumerate(page_files())
    ]
).run()
