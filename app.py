"""Driftscope: ``streamlit run app.py``. Registers every page of ``pages/``; a page inherits nothing else from here."""

from functools import partial

import streamlit as st

from pages._shared.frame import FAVICON, NAME
from pages._shared.listing import PageFile, page_files


def _entry(page: PageFile) -> partial[st.Page]:
    return partial(st.Page, page.path, title=page.title, icon=page.icon, help=page.lead or None)


# Before the navigation: without a favicon of ours the browser would ask a font server on the web for the page's symbol.
st.set_page_config(page_title=NAME, page_icon=FAVICON, layout="wide")
landing, *others = [(page.path.stem, _entry(page)) for page in page_files()]
st.navigation(
    [
        # The landing page answers at the root; a link to it by its own name must keep working once another page lands.
        landing[1](url_path="home", default=True),
        *(entry(url_path=name) for name, entry in others),
        landing[1](url_path=landing[0], visibility="hidden"),
    ]
).run()
