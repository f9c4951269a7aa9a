"""The Drift inspector: runs, their molecules, and one molecule token by token against its template."""

from collections.abc import Callable, Sequence

from engine.inspection.runs import RunFacts
from engine.questions import PAGES
from engine.store.store import Store
from pages._drift import molecules as drift_molecules
from pages._drift.runs import choose_one, chosen_runs
from pages._kit.card import cards
from pages._kit.errors import shown_errors
from pages._kit.frame import page
from pages._kit.inspected import open_store
from pages._kit.sections import show_open
from pages._kit.shown import put_shown

TITLE = "Drift inspector"
ICON = ":material/troubleshoot:"
LEAD = "The worst molecules first. A *block* is an atom's coordinates. An LP may leave **junk** in it, or **cut** it."


def of_one_run(view: str) -> Callable[[Store, Sequence[RunFacts]], None]:
    def show(store: Store, runs: Sequence[RunFacts]) -> None:
        cards(PAGES["drift"][view, ""], store, [choose_one(runs).run_id])

    return show


SECTIONS = {
    "Molecules": drift_molecules.show,
    "Table": drift_molecules.show_all,
    "Junk lexicon": of_one_run("Junk lexicon"),
    "What the LP did": of_one_run("What the LP did"),
}

page(TITLE, LEAD)
with shown_errors():
    store = open_store()
    runs = chosen_runs(store)
if runs:
    show_open(SECTIONS, store, runs)
put_shown(page="drift", runs=[run.run_id for run in runs])
