"""Driftscope: ``streamlit run app.py``. Registers every page of ``pages/``; a page inherits nothing else from here.

Streamlit loads this file twice: once as the server's ``app``, and as ``__main__`` for each visitor.
"""

import atexit
import ctypes
import logging
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import streamlit as st
from starlette.middleware import Middleware
from streamlit import cli_util
from streamlit.web.server import server_util

from engine.processes import raise_open_files
from engine.user_files import keep_private
from pages._app.chart_module import ChartModule
from pages._app.listing import PageFile, page_files
from pages._app.origins import OwnOrigin, SeldomRefused
from pages._kit.frame import FAVICON, NAME

_ENDING = threading.Event()
MOST_ENDING_S = 5.0


def _entry(page: PageFile) -> partial[st.Page]:
    return partial(st.Page, page.path, title=page.title, icon=page.icon, help=page.lead or None)


def _show() -> None:
    # Before the navigation: without a favicon of ours the browser would ask a font server on the web for the page's
    # symbol.
    st.set_page_config(page_title=NAME, page_icon=FAVICON, layout="wide")
    landing, *others = [(page.path.stem, _entry(page)) for page in page_files()]
    st.navigation(
        [
            # The landing page answers at the root; a link to it by its own name must keep working once another page
            # lands.
            landing[1](url_path="home", default=True),
            *(entry(url_path=name) for name, entry in others),
            landing[1](url_path=landing[0], visibility="hidden"),
        ]
    ).run()


def _warm() -> None:
    from pages._app.warming import warm  # imports what the server can start without

    # Cached functions are called without a session here, and each call would be warned of in the terminal.
    logging.getLogger("streamlit.runtime.scriptrunner_utils.script_run_context").setLevel(logging.ERROR)
    for _ in warm():
        if _ENDING.is_set():
            return


def _end(warming: threading.Thread) -> None:
    """A thread that Python ends inside of a library written in C++ aborts the process."""
    _ENDING.set()
    warming.join(MOST_ENDING_S)


@asynccontextmanager
async def _opened(_: st.App) -> AsyncIterator[None]:
    """The browser opens with the app, as ``streamlit run`` does it for a script alone; meanwhile the pages' parts
    become ready."""
    warming = threading.Thread(target=_warm, name="driftscope-warm", daemon=True)
    warming.start()
    atexit.register(_end, warming)
    if not st.get_option("server.headless"):
        cli_util.open_browser(server_util.get_url(st.get_option("server.address") or "localhost"))
    yield


if __name__ == "__main__":
    _show()
else:
    keep_private()
    raise_open_files()
    logging.getLogger("asyncio").addFilter(SeldomRefused())
    # glibc gives threads heaps of their own, eight a core, and each keeps what a page or a lane once took: with two
    # cores 200 MB more after a few minutes of generating. -8 is M_ARENA_MAX.
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        ctypes.CDLL(None).mallopt(-8, 2)
    app = st.App(__file__, lifespan=_opened, middleware=[Middleware(OwnOrigin), Middleware(ChartModule)])
