"""One sample whole, of the demo store, of imported runs and of damaged ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rdkit import Chem

from engine.chem.enriched import decode
from engine.errors import StoreError
from engine.inspection.conformers import GroupShape
from engine.inspection.runs import runs_with_samples
from engine.inspection.sample import inspect_sample, molecule_asked
from engine.inspection.tries import ThrownText, checks_by_block
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, step_row, write_run
from tests.engine.store.reports.documents import CLEAN, PROMPT, document, imported, one_text, store_in
from tests.engine.store.stored_runs import folder_of

RUNS = [run.run_id for run in runs_with_samples(DEMO_STORE)]
TEXT = "[CONFORMER][C]<0.1,0.2,0.3>[O]<1.2345,-0.5,1.0>[/CONFORMER]"


def said(store: Store, run_id: str, number: int = 0) -> str:
    return " ".join(inspect_sample(store, run_id, number).missing)


@pytest.mark.parametrize("run_id", RUNS)
@pytest.mark.parametrize("number", [0, 5, 63])
def test_the_alignment_says_what_is_stored(run_id: str, number: int) -> None:
    found = inspect_sample(DEMO_STORE, run_id, number)
    assert found.alignment is not None
    assert [row["kinds"] for row in found.blocks] == [list(block.kinds) for block in found.alignment.blocks]
    for name in ("atom", "text", "junk_text", "junk_tokens"):
        assert [row[name] for row in found.blocks] == [getattr(block, name) for block in found.alignment.blocks]
    written = [row for row in found.alignment.rows if row.pos is not None]
    end = found.tokenizer.end_id if found.tokenizer else None
    assert [row.token_id for row in written] == [id_ for id_ in found.sample["token_ids"] if id_ != end]
    assert [row.forced for row in written] == found.sample["forced"][: len(written)]
    assert found.alignment.text == found.sample["text"]
    assert found.can_score


def test_steps_stand_by_position_with_the_pieces_of_what_was_likely() -> None:
    found = inspect_sample(DEMO_STORE, demo_run("llama", "group-v2.1"), 3)
    assert list(found.steps) == list(range(len(found.sample["token_ids"])))
    assert found.tokenizer is not None
    for pos, row in found.steps.items():
        assert row["token_id"] == found.sample["token_ids"][pos]
        assert [one["piece"] for one in row["top_k"]] == [
            found.tokenizer.piece(one["token_id"]) for one in row["top_k"]
        ]
    assert found.missing == ()


def test_a_sample_whose_steps_were_not_kept_says_so() -> None:
    found = inspect_sample(DEMO_STORE, demo_run("qwen", "exact"), 40)
    assert found.steps == {}
    assert "stored the steps of other samples" in " ".join(found.missing)
    assert found.can_score


def test_a_whole_answer_is_its_conformer() -> None:
    found = inspect_sample(DEMO_STORE, demo_run("qwen", "exact"), 2)
    assert found.conformer is not None and found.why_no_conformer == ""
    assert found.conformer_atoms == tuple(range(found.molecule.atoms))
    expected = decode(found.sample["text"]).mol.GetConformer().GetPositions()
    assert (found.conformer.GetConformer().GetPositions() == expected).all()
    symbols = [atom.GetSymbol() for atom in found.conformer.GetAtoms()]
    assert symbols == [found.molecule.elements[atom] for atom in found.conformer_atoms]


@pytest.mark.parametrize("number", range(0, 64, 9))
def test_a_broken_answer_shows_the_atoms_that_it_has(number: int) -> None:
    found = inspect_sample(DEMO_STORE, demo_run("qwen", "group-v4.3"), number)
    whole = [row["atom"] for row in found.blocks if row["x"] is not None and row["z"] is not None]
    assert "strict reader refuses" in found.why_no_conformer
    assert list(found.conformer_atoms) == sorted(whole)
    if found.conformer is not None:
        assert found.conformer.GetNumAtoms() == len(whole)
        assert "M  END" in Chem.MolToMolBlock(found.conformer)


def test_a_run_is_named_by_a_part_and_a_sample_by_its_number() -> None:
    assert inspect_sample(DEMO_STORE, RUNS[0][-6:], 0).run.run_id == RUNS[0]
    with pytest.raises(StoreError, match=r"has no sample 64. It has 64; they count from 0"):
        inspect_sample(DEMO_STORE, RUNS[0], 64)
    with pytest.raises(StoreError, match="reported-000-qwen-lp-64 has no samples"):
        inspect_sample(DEMO_STORE, "reported-000-qwen-lp-64", 0)


def test_tries_of_a_guard_are_read_where_they_were_kept(store: Store) -> None:
    tries = [
        {"sample_id": 0, "number": 1, "pos": 6, "block": 0, "check": "bonds", "atoms": [1, 0], "text": "0.5>[O]<1.0"},
        {"sample_id": 0, "number": 0, "pos": 14, "block": 1, "check": "clash", "atoms": [0, 1], "text": "0.9>"},
        {"sample_id": 0, "number": 2, "pos": 14, "block": 1, "check": "weighed", "atoms": None, "text": "0.8>"},
    ]
    rows = [sample_row(number, text=TEXT, redrawn_blocks=redrawn) for number, redrawn in enumerate((2, 3, 0))]
    write_run(store, "guarded", rows, [block_row(0, 0)], tries=tries, lp="guarded", tokenizer="qwen3")
    found = inspect_sample(store, "guarded", 0)
    assert found.tries[0] == ThrownText(range(1, 2), "clash", "0.9>")
    assert found.tries[1:] == (ThrownText(range(2), "bonds", "0.5>[O]<1.0"), ThrownText(range(1, 2), "weighed", "0.8>"))
    assert checks_by_block((one.blocks, one.check) for one in found.tries) == {1: ["clash", "bonds"], 0: ["bonds"]}
    not_kept = "The guard had blocks drawn anew 3 times. Tries are stored only of samples that keep their steps."
    assert not_kept in said(store, "guarded", 1)
    assert "drawn anew" not in said(store, "guarded") + said(store, "guarded", 2)


# --- imported -----------------------------------------------------------------------------------------------------


def test_imported_text_is_cut_anew_and_says_so(tmp_path: Path) -> None:
    run_id = imported(tmp_path, document()).id
    found = inspect_sample(store_in(tmp_path), run_id, 1)
    assert not found.can_score
    assert found.alignment is not None
    assert found.alignment.text == found.sample["text"]
    assert {row.forced for row in found.alignment.rows} == {None}
    assert [list(block.kinds) for block in found.alignment.blocks] == [row["kinds"] for row in found.blocks]
    marks = "".join(row.piece for row in found.alignment.rows if row.mark == "junk")
    assert "amen" in marks
    assert found.missing[0].startswith("Only the text is stored")
    assert "cannot be computed" in found.missing[1]
    assert found.conformer is not None and found.conformer_atoms == (0, 1)


def test_a_cut_that_only_the_file_tells_is_marked_at_its_last_token(tmp_path: Path) -> None:
    run_id = imported(tmp_path, document()).id
    found = inspect_sample(store_in(tmp_path), run_id, 1)
    assert found.alignment is not None
    assert found.blocks[2]["kinds"] == ["trailing_mark", "missing_z", "cut"]
    cut = [row for row in found.alignment.rows if row.mark == "cut"]
    assert [row.text_block for row in cut] == [2]
    inside = [row.pos for row in found.alignment.rows if row.text_block == 2 and row.text_role == "FREE"]
    assert cut[0].pos == inside[-1]


def test_a_prompt_that_is_not_canonical_keeps_its_order(tmp_path: Path) -> None:
    text = "[CONFORMER][O]<0.1,0.2,0.3>=[C]<1.2345,-0.5,1.0>[C]<2.0,0.1,-0.4>[/CONFORMER]"
    run_id = imported(tmp_path, one_text(f"[SMILES]O=CC[/SMILES]{text}", "O=CC")).id
    found = inspect_sample(store_in(tmp_path), run_id, 0)
    assert found.sample["smiles"] == "CC=O"
    assert (found.molecule.smiles, found.molecule.elements) == ("O=CC", ("O", "C", "C"))
    assert [row["atom"] for row in found.blocks] == [0, 1, 2]
    assert found.alignment is not None
    assert [block.atom for block in found.alignment.blocks] == [0, 1, 2]


def test_a_prompt_that_does_not_read_leaves_text_and_a_reason(tmp_path: Path) -> None:
    run_id = imported(tmp_path, one_text(f"[SMILES]C([/SMILES]{CLEAN}", "C(")).id
    found = inspect_sample(store_in(tmp_path), run_id, 0)
    assert found.alignment is None and found.molecule.atoms == 0
    assert found.missing[0].startswith("There is no molecule to compare with")
    assert found.conformer is not None and found.conformer_atoms == (-1, -1, -1)


def test_an_unknown_tokenizer_leaves_no_tokens(tmp_path: Path) -> None:
    content = one_text(f"[SMILES]CC=O[/SMILES]{CLEAN}", tokenizer_name="theirs", tokenizer_path="/no/such")
    content["metadata"].update(model_alias="theirs", processor_type="theirs")
    run_id = imported(tmp_path, content).id
    found = inspect_sample(store_in(tmp_path), run_id, 0)
    assert found.tokenizer is None and found.alignment is None
    assert "tokenizer" in found.missing[0]
    assert "no tokens to show" in " ".join(found.missing)
    assert found.conformer is not None


# --- damaged and odd ----------------------------------------------------------------------------------------------


def test_hostile_text_and_prompts_are_shown_as_they_are(store: Store) -> None:
    text = "[CONFORMER][C]<1.0,2.0,3.0<img src=x onerror=alert(1)>\u202e[O]<\ufffd>[/CONFORMER]"
    write_run(store, "one", [sample_row(0, text=text)], tokenizer="qwen3", lp="none")
    found = inspect_sample(store, "one", 0)
    assert found.alignment is not None and found.alignment.text == text
    assert found.conformer is None and "strict reader refuses" in found.why_no_conformer
    assert "no blocks for this sample" in " ".join(found.missing)


def test_a_damaged_part_costs_only_what_it_held(store: Store) -> None:
    ids = load_tokenizer("qwen3").encode(TEXT)
    samples = [sample_row(0, text=TEXT, token_ids=ids, forced=[False] * len(ids), tokens=len(ids))]
    write_run(store, "one", samples, [block_row(0, 0), block_row(0, 1)], [step_row(0, 0)], tokenizer="qwen3", lp="none")
    assert inspect_sample(store, "one", 0).missing == ()
    steps = folder_of(store) / "steps.parquet"
    steps.write_bytes(b"x" * steps.stat().st_size)
    found = inspect_sample(store, "one", 0)
    assert found.steps == {} and len(found.blocks) == 2 and found.alignment is not None
    assert "not stored" in " ".join(found.missing)


@pytest.mark.parametrize(
    ("reason", "word"), [("length", "token limit"), ("empty_mask", "allowed no token"), ("cancelled", "cancelled")]
)
def test_an_answer_that_ended_early_says_so(store: Store, reason: str, word: str) -> None:
    write_run(store, "one", [sample_row(0, text=TEXT[:30], stop_reason=reason)], tokenizer="qwen3", lp="exact")
    assert word in said(store, "one")
    assert inspect_sample(store, "one", 0).alignment is not None


def test_an_answer_without_a_word(store: Store) -> None:
    write_run(store, "one", [sample_row(0, token_ids=[], forced=[], tokens=0)], tokenizer="qwen3", lp="none")
    found = inspect_sample(store, "one", 0)
    assert found.conformer is None and found.why_no_conformer == "There is no text to read a conformer from."
    assert "It has no text and no tokens." in found.missing
    assert not found.can_score


def test_ids_that_no_tokenizer_has_do_not_stop_it(store: Store) -> None:
    samples = [sample_row(0, text="x", token_ids=[10**9, 5, 7], forced=None, tokens=3)]
    write_run(store, "one", samples, tokenizer="llama3", lp="group-v2.1")
    found = inspect_sample(store, "one", 0)
    assert found.alignment is not None
    assert [row.forced for row in found.alignment.rows[:3]] == [None] * 3


def test_ids_with_a_gap_leave_the_text_and_no_model_is_asked(store: Store) -> None:
    samples = [sample_row(0, text=TEXT, token_ids=[5, None, 7], forced=None, tokens=3)]
    write_run(store, "one", samples, tokenizer="qwen3", lp="none")
    found = inspect_sample(store, "one", 0)
    assert found.alignment is None and found.conformer is not None and not found.can_score
    assert "one of them has no id" in " ".join(found.missing)


def test_extra_of_any_kind_is_no_prompt() -> None:
    for extra in (None, "", "[]", "{", '{"text_before": 7}', json.dumps({"text_before": "[SMILES]"})):
        molecule, why = molecule_asked({"smiles": "CO", "extra": extra})
        assert (molecule.smiles, why) == ("CO", "")


def test_what_the_group_reader_makes_of_a_damaged_text(tmp_path: Path) -> None:
    def read(text: str) -> GroupShape | None:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        imported(place, one_text(f"{PROMPT}{text}", "CC=O"))
        return inspect_sample(store_in(place), "imported", 0).by_group

    assert read(CLEAN) is None
    taken = read(CLEAN.replace(">[/", "(cc6>[/"))
    assert taken is not None and taken.mol is not None
    assert taken.farthest == 2 and taken.misread == pytest.approx({2: 6.4})
    assert list(taken.mol.GetConformer().GetAtomPosition(2)) == [2.0, 0.1, 6.0]
    refused = read(CLEAN.replace("0.3>", "0.3,>").replace(">[/", "(cc6>[/"))
    assert refused is not None and refused.mol is None and "Bad coord triplet" in refused.why_not
    infinite = read(CLEAN.replace(">[/", " 1e999>[/"))
    assert infinite is not None and infinite.mol is None and "not finite" in infinite.why_not
    assert infinite.farthest is None and list(infinite.misread) == [2]
