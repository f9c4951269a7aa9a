"""Answers as users have them, in six forms, with what each is to be told: none is accused of more than its text says.

A form is a file of twenty answers, written by hand, each with some of ``KEYS``. Its ``report`` is what is said of
all of them as a report file.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from engine.inspection.atoms import atom_rows, worst_first
from engine.inspection.faults import wrong_places
from engine.inspection.sample import inspect_sample
from engine.store.store import Store
from tests import cli

FORMS = {path.stem: tomllib.loads(path.read_text()) for path in sorted(Path(__file__).parent.glob("*.toml"))}
ANSWERS = [(name, number) for name, form in FORMS.items() for number in range(len(form["answer"]))]
OF_JUDGE = ("clean", "decodes", "issues")
KEYS = {"text", "smiles", "lp", *OF_JUDGE, "kinds", "words", "not_words", "recognised", "damaged"}
SOUND = {"exact", "unverified"}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_twenty_answers_of_known_keys(name: str) -> None:
    answers = FORMS[name]["answer"]
    assert len(answers) == 20
    assert {key for answer in answers for key in answer} <= KEYS
    assert len({answer["text"] + answer.get("smiles", "") for answer in answers}) == 20


@pytest.mark.parametrize(("name", "number"), ANSWERS)
def test_an_answer_is_told_what_its_text_says_and_no_more(name: str, number: int) -> None:
    answer = FORMS[name]["answer"][number]
    judge = ["judge", "--text", answer["text"], *(["--smiles", answer["smiles"]] if "smiles" in answer else ())]
    judged = json.loads(cli.run(*judge, "--json").out)
    assert {key: judged[key] for key in OF_JUDGE if key in answer} == {
        key: answer[key] for key in OF_JUDGE if key in answer
    }
    assert not (judged["clean"] and judged["why_not_clean"]), "what is clean has no reason not to be"
    assert judged["clean"] or judged["issues"] or judged["why_not_clean"], "what is not has one"
    junk = json.loads(cli.run("junk", "--lp", answer.get("lp", "none"), "--json", "--", answer["text"]).out)
    if "kinds" in answer:
        assert {kind: count for kind, count in junk["kinds"].items() if kind not in SOUND} == answer["kinds"]
    if "recognised" in answer:
        assert junk["recognised"] is answer["recognised"]
    if "words" in answer or "not_words" in answer:
        shown = cli.run(*judge)
        seen = shown.out + shown.err
        assert [words for words in answer.get("words", ()) if words not in seen] == [], seen
        assert [words for words in answer.get("not_words", ()) if words in seen] == [], seen


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if "report" in form])
def test_imported_as_a_report_it_is_clean_where_it_is_and_drift_marks_what_is_damaged(
    name: str, tmp_path: Path
) -> None:
    form = FORMS[name]
    report, answers = form["report"], form["answer"]
    items = [
        {"decoded_text": answer["text"], **({"prompt_smiles": answer["smiles"]} if "smiles" in answer else {})}
        for answer in answers
    ]
    file = tmp_path / f"{name}.json"
    file.write_text(json.dumps({"metadata": report["metadata"], "passes": items, "failures": []}))
    imported = cli.run("import", str(file), "--store", str(tmp_path / "store"), "--json")
    (row,) = imported.document
    assert row["clean"] == report["clean"] == sum(answer["clean"] for answer in answers)
    if "descriptors" in report:
        assert row["descriptors"] == report["descriptors"]
        assert ("each text is compared with its own" in imported.err) == report["contradicts"]
        assert ("each text is compared with its own" in row["notes"]) == report["contradicts"]
    store = Store.open(str(tmp_path / "store"))
    cli.run("judge", row["run_id"], "--store", str(tmp_path / "store"), "--json")
    for number, answer in enumerate(answers):
        if "damaged" in answer:
            assert damaged_rows(store, row["run_id"], number) == answer["damaged"], answer["text"]


def damaged_rows(store: Store, run_id: str, number: int) -> list[str]:
    """The atoms that Drift marks, the worst first, by name."""
    inspected = inspect_sample(store, run_id, number)
    rows: list[Any] = atom_rows(
        inspected.alignment,
        inspected.molecule.elements,
        inspected.blocks,
        inspected.steps,
        inspected.estimates,
        wrong_places(inspected.sample),
    )
    return [row.name for row in worst_first(rows) if row.damage]
