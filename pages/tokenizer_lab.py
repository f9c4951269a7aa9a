"""The Tokenizer lab: one text under both tokenizers, drift against a placeholder, and the reports' token figures."""

from collections.abc import Callable
from functools import partial

from engine.questions import PAGES
from engine.store.store import Store
from pages._kit.card import cards
from pages._kit.components.charts_ready import charts_ready
from pages._kit.frame import page
from pages._kit.sections import show_open
from pages._kit.shown import put_shown
from pages._tokenizer_lab import molecule_set
from pages._tokenizer_lab import text as lab_text

TITLE = "Tokenizer lab"
ICON = ":material/token:"
LEAD = (
    "How tokenizers split coordinates, and what it does to an LP that counts positions: **junk** and **cut** numbers."
)


SECTIONS: dict[str, Callable[..., None]] = {
    "One text": lab_text.show,
    "A molecule set": molecule_set.show,
    **{
        view: partial(cards, PAGES["tokenizer_lab"][view, ""], Store.open(), [])
        for view in ("Alphabets", "The reports' figures")
    },
}

page(TITLE, LEAD)
show_open(SECTIONS)
charts_ready()
put_shown(page="tokenizer_lab")
