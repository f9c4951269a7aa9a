"""Untrusted text in a message: what the browser tests look at. Not a page of the app."""

from __future__ import annotations

import streamlit as st

from pages._kit.errors import escaped
from pages._kit.frame import page

TEXTS = (
    "**bold** _it_ `code` ~~gone~~ # heading",
    "# heading",
    "1. list",
    "- list",
    "> quote",
    "| a | b |\n|---|---|",
    "<img src=x onerror=alert(1)> <b>bold</b> &lt; &amp;",
    "[link](https://example.org) ![picture](https://example.org/x.png)",
    "https://example.org www.example.org mail@example.org <https://example.org>",
    "$x^2$ $$y$$ \\(z\\)",
    ":red[red] :blue-background[b] :material/home: :material_home: :streamlit: :smile: :+1:",
    "a -> b <- c <-> d -- e >= f <= g ~= h",
    "CC->[Pt]<-N [C@@H](F).Cl C/C=C\\C %12",
    "    four spaces",
    "one\ntwo\n\nfour",
    "[^1] [ref] [ref]: x ::: {.note}",
    "C:\\\\path\\n ends in a backslash \\",
)

page("Messages", "Text as it was written.")
for number, text in enumerate(TEXTS):
    with st.container(key=f"text-{number}"):
        st.error(escaped(text))
