"""The contract of all questions: of whatever entry, an answer, or one line and exit 2; never an unforeseen error."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from engine.questions import KEYS, KINDS, PAGES, models_of, question_of
from engine.store.store import DEMO, VARIABLE, Store
from tests.cli import run, run_json
from tests.engine.inspection.made import demo_run
from tests.pages.apps import opened

TRACE, LOG, REPORTED_TRACE = "demo-qwen-final-exact", "llama.cpp-demo-qwen-final-f32", "reported-003-qwen"
IMPORTED, BINNED, CODED = "an import", "an import of bins", "an import of codes"
NOTHING = "no entry has this name"
RUNS = {
    "measured": demo_run("llama", "group-v4.3"),  # none of its conformers reads
    "guarded": demo_run("qwen", "guarded"),
    "imported": IMPORTED,
    "binned": BINNED,
    "coded": CODED,
    "reported": "reported-002-qwen-lp-1000",
}
NAMED = {
    **{("compare", kind): {"control": id_} for kind, id_ in RUNS.items()},
    **{("drift", kind): {"run": id_} for kind, id_ in RUNS.items()},
    ("profiles", "measured"): {"control": TRACE},
    ("profiles", "reported"): {"control": REPORTED_TRACE},
    ("logits", "imported"): {"log": LOG},
    ("evidence", ""): {},
    ("tokenizer_lab", ""): {},
}
"""A page's address, by page and kind of entry."""
TEXT = (
    "[SMILES]CC=O[/SMILES][CONFORMER][C]<0.0000,1.0000,0.0000>[C]<1.5000,0.0000,0.0000>=[O]<2.1,-1.0amen>[/CONFORMER]"
)
REPORT = {
    "metadata": {"processor_type": "generic", "tokenizer_name": "qwen3", "model_alias": "m600"},
    "passes": [{"prompt_smiles": "CC=O", "decoded_text": TEXT}],
    "failures": [],
}


def without_lp(tokenizer: str, alias: str, unfinished: str, *answers: tuple[str, str]) -> dict[str, Any]:
    """A report of answers that no LP wrote, each a SMILES and a text, and of one that did not end."""
    passes = [
        {"prompt_smiles": smiles, "decoded_text": f"[SMILES]{smiles}[/SMILES][CONFORMER]{text}[/CONFORMER]"}
        for smiles, text in answers
    ]
    return {
        "metadata": {"logit_processor_enabled": False, "tokenizer_name": tokenizer, "model_alias": alias},
        "passes": passes,
        "failures": [{"prompt_smiles": "CCO", "decoded_text": f"[SMILES]CCO[/SMILES][CONFORMER]{unfinished}"}],
    }


BINS = {"mode": "uniform", "L": -10.5748, "H": 10.5102, "n_bins": 256}
OF_BINS = without_lp(
    "qwen3",
    "m600",
    "[C][C]143128136;[O]1151",
    ("CC=O", "[C]144127129;[C]127134129;=[O]115126129;"),
    ("c1ccoc1", "[c]142123129;1[c]139139129;[c]122141129;[o]115126129[c]127115129;1"),
    ("CC=O", "[C]144127129;[C]127134000;=[O]115126amen129;"),
)
CODES = {"mode": "fsq", "levels": [2] * 12}
OF_CODES = without_lp(
    "qwen3-codes",
    "m1700",
    "[C]<4>[C]<143>[O",
    ("CC=O", "[C]<144>[C]<1129>=<36>[O]<4095>"),
    ("c1ccoc1", "[c]<142>1<3>[c]<139>[c]<1>[o]<900>[c]<77>1<5>"),
    ("CC=O", "[C]<144><3>[C]=<36>[O]<4096>"),
)


@dataclass(frozen=True)
class Asked:
    """A question of a terminal with any entries, or one view of a page with an entry of one kind."""

    key: str = ""
    page: str = ""
    kind: str = ""
    view: str = ""

    def __str__(self) -> str:
        return self.key or "-".join(filter(None, (self.page, self.view.replace(" ", "_"), self.kind)))


def of_pages() -> Iterator[Asked]:
    for page, kind in NAMED:
        yield from (Asked(page=page, kind=kind, view=view) for view in dict.fromkeys(view for view, _ in PAGES[page]))


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo store, and an imported run."""
    folder = tmp_path_factory.mktemp("every") / "store"
    shutil.copytree(DEMO, folder)
    report = folder.parent / "report.json"
    report.write_text(json.dumps(REPORT))
    run_json("import", str(report), "--label", IMPORTED, "--store", str(folder))
    binned, bins = folder.parent / "binned.json", folder.parent / "bins.json"
    binned.write_text(json.dumps(OF_BINS))
    bins.write_text(json.dumps(BINS))
    run_json("import", str(binned), "--bins", str(bins), "--label", BINNED, "--store", str(folder))
    coded, codes = folder.parent / "coded.json", folder.parent / "codes.json"
    coded.write_text(json.dumps(OF_CODES))
    codes.write_text(json.dumps(CODES))
    run_json("import", str(coded), "--bins", str(codes), "--label", CODED, "--store", str(folder))
    return folder


def entries_to_ask(key: str, store: Store) -> Iterator[Sequence[str]]:
    """None, one that there is not, one of another kind, and every entry alone; one of each kind also as a test."""
    of = question_of(key).OF
    ids = {kind: [entry.id for entry in store.listing(stored).entries] for kind, stored in KINDS.items()}
    ids["sample"] = [f"{id_}/{number}" for id_ in RUNS.values() for number in (0, 10**6)]
    ids["model"] = list(models_of(store.listing().entries))
    yield []
    yield [NOTHING]
    yield [LOG if of.kind == "run" else demo_run("qwen", "exact")]
    yield from ([id_] for id_ in ids.get(of.kind, ()) if of.most)
    if of.kind == "run" and of.most > 1:
        yield from ([demo_run("qwen", "none"), id_] for id_ in RUNS.values())
    if of.kind in ("trace", "log") and of.most > 1:
        yield from ([ids[of.kind][0], id_] for id_ in ids[of.kind][1:])


@pytest.mark.parametrize("asked", [*map(Asked, KEYS), *of_pages()], ids=str)
def test_an_answer_or_one_line_and_exit_2(asked: Asked, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is unforeseen raises here (``DRIFTSCOPE_DEBUG``), on a page too. What a button computes is not computed."""
    monkeypatch.setenv(VARIABLE, str(filled))
    if asked.page:
        assert opened(asked.page, view=asked.view, **NAMED[asked.page, asked.kind]).main.children
        return
    for ids in entries_to_ask(asked.key, Store.open()):
        text, as_json = run("ask", asked.key, *ids), run("ask", asked.key, *ids, "--json")
        if text.code == 0:
            assert text.out.strip() and {"answer", "rows"} <= as_json.document.keys(), ids
        else:
            assert text.error == as_json.error and len(text.error) > 20, ids
