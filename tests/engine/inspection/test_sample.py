"""One sample whole, of the demo store, of imported runs and of damaged ones."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from engine.chem.enriched import skeleton_of
from engine.chem.rmsd import least_rmsd
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import judge_answer
from engine.errors import StoreError
from engine.inspection import sample
from engine.inspection.conformers import GroupShape, conformer_of
from engine.inspection.lp_cost import known_cost
from engine.inspection.realign import with_kinds
from engine.inspection.runs import runs_with_samples
from engine.inspection.sample import estimates_of, inspect_sample
from engine.inspection.tries import ThrownText, checks_by_block
from engine.records import Kind
from engine.store.schema import RUN
from engine.store.store import Store
from engine.text.align import Alignment, align
from engine.text.check import answer_of
from engine.text.template import build_template
from engine.text.tokenizers import load_tokenizer
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, step_row, write_run
from tests.engine.store.reports.documents import CLEAN, PROMPT, document, imported, one_text, store_in
from tests.engine.store.stored_runs import folder_of

RUNS = [run.run_id for run in runs_with_samples(DEMO_STORE)]
TEXT = "[CONFORMER][C]<0.1,0.2,0.3>[O]<1.2345,-0.5,1.0>[/CONFORMER]"


@pytest.mark.parametrize("run_id", RUNS)
def test_the_alignment_says_what_is_stored(run_id: str) -> None:
    inspected = inspect_sample(DEMO_STORE, run_id, 5)
    assert inspected.alignment is not None and inspected.can_score
    assert [row["kinds"] for row in inspected.blocks] == [list(block.kinds) for block in inspected.alignment.blocks]
    for name in ("atom", "text", "junk_text", "junk_tokens"):
        assert [row[name] for row in inspected.blocks] == [getattr(block, name) for block in inspected.alignment.blocks]
    written = [row for row in inspected.alignment.rows if row.pos is not None]
    end = inspected.tokenizer.end_id if inspected.tokenizer else None
    assert [row.token_id for row in written] == [id_ for id_ in inspected.sample["token_ids"] if id_ != end]
    assert [row.forced for row in written] == inspected.sample["forced"][: len(written)]
    assert inspected.alignment.text == inspected.sample["text"]


def test_steps_stand_by_position_with_the_pieces_of_what_was_likely() -> None:
    inspected = inspect_sample(DEMO_STORE, demo_run("llama", "group-v2.1"), 3)
    assert list(inspected.steps) == list(range(len(inspected.sample["token_ids"])))
    assert inspected.tokenizer is not None and inspected.missing == ()
    for pos, row in inspected.steps.items():
        assert row["token_id"] == inspected.sample["token_ids"][pos]
        assert all(token["piece"] == inspected.tokenizer.piece(token["token_id"]) for token in row["top_k"])


@pytest.mark.parametrize("number", range(0, 64, 21))
def test_a_broken_answer_shows_the_atoms_that_it_has(number: int) -> None:
    inspected = inspect_sample(DEMO_STORE, demo_run("qwen", "group-v4.3"), number)
    whole = [row["atom"] for row in inspected.blocks if row["x"] is not None and row["z"] is not None]
    assert "strict reader refuses" in inspected.why_no_conformer
    assert list(inspected.conformer_atoms) == sorted(whole)
    if inspected.conformer is not None:
        assert inspected.conformer.GetNumAtoms() == len(whole)
        assert "M  END" in Chem.MolToMolBlock(inspected.conformer)


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
    shown = inspect_sample(store, "guarded", 0)
    assert shown.tries[0] == ThrownText(range(1, 2), "clash", "0.9>")
    assert shown.tries[1:] == (ThrownText(range(2), "bonds", "0.5>[O]<1.0"), ThrownText(range(1, 2), "weighed", "0.8>"))
    assert checks_by_block((text.blocks, text.check) for text in shown.tries) == {1: ["clash", "bonds"], 0: ["bonds"]}
    reasons = [" ".join(inspect_sample(store, "guarded", number).missing) for number in range(3)]
    assert "redrawn 3 times" in reasons[1] and "redrawn" not in reasons[0] + reasons[2]


# --- imported -----------------------------------------------------------------------------------------------------
def test_imported_text_is_cut_anew_and_says_so(tmp_path: Path) -> None:
    run_id = imported(tmp_path, document()).id
    inspected = inspect_sample(store_in(tmp_path), run_id, 1)
    assert not inspected.can_score and inspected.alignment is not None
    assert inspected.alignment.text == inspected.sample["text"]
    assert {row.forced for row in inspected.alignment.rows} == {None}
    assert [list(block.kinds) for block in inspected.alignment.blocks] == [row["kinds"] for row in inspected.blocks]
    assert "amen" in "".join(row.piece for row in inspected.alignment.rows if row.mark == "junk")
    assert len(inspected.missing) == 2
    assert inspected.conformer is not None and inspected.conformer_atoms == (0, 1)
    assert inspected.blocks[2]["kinds"] == ["trailing_mark", "missing_z", "cut"]  # which only the file tells
    inside = [row for row in inspected.alignment.rows if row.text_block == 2 and row.text_role == "FREE"]
    assert [row for row in inspected.alignment.rows if row.mark == "cut"] == inside[-1:]


@pytest.mark.parametrize("prompt", ["[SMILES]O=CC[/SMILES]", "", "[SMILES]CCN[/SMILES]"], ids=["own", "none", "other"])
def test_a_prompt_that_is_not_canonical_keeps_its_order(tmp_path: Path, prompt: str) -> None:
    """The bug: of a text without its prompt the molecule was in canonical order and the blocks in the file's; of one
    with the prompt of another molecule the blocks stood next to that."""
    text = "[CONFORMER][O]<0.1,0.2,0.3>=[C]<1.2345,-0.5,1.0>[C]<2.0,0.1,-0.4>[/CONFORMER]"
    run_id = imported(tmp_path, one_text(f"{prompt}{text}", "O=CC")).id
    inspected = inspect_sample(store_in(tmp_path), run_id, 0)
    assert inspected.sample["smiles"] == "CC=O"
    assert (inspected.molecule.smiles, inspected.molecule.elements) == ("O=CC", ("O", "C", "C"))
    assert [row["atom"] for row in inspected.blocks] == [0, 1, 2]
    assert inspected.alignment is not None and [block.atom for block in inspected.alignment.blocks] == [0, 1, 2]


def test_a_prompt_that_does_not_read_leaves_text_and_a_reason(tmp_path: Path) -> None:
    run_id = imported(tmp_path, one_text(f"[SMILES]C([/SMILES]{CLEAN}", "C(")).id
    inspected = inspect_sample(store_in(tmp_path), run_id, 0)
    assert inspected.alignment is None and inspected.molecule.atoms == 0 and inspected.missing
    assert inspected.conformer is not None and inspected.conformer_atoms == (-1, -1, -1)


def test_an_unknown_tokenizer_leaves_no_tokens(tmp_path: Path) -> None:
    further = "[SMILES]CO[/SMILES][CONFORMER][C]<1.0,2.0,3.0>[O]<2.0,0.1,-0.4>"
    content = one_text(f"[SMILES]CC=O[/SMILES]{CLEAN}{further}", tokenizer_name="theirs", tokenizer_path="/no/such")
    content["metadata"].update(model_alias="theirs", processor_type="theirs")
    run_id = imported(tmp_path, content).id
    inspected = inspect_sample(store_in(tmp_path), run_id, 0)
    assert inspected.tokenizer is None and inspected.alignment is None and inspected.conformer is not None
    assert "tokenizer" in inspected.missing[0]
    assert [(row["conformer"], row["atom"]) for row in inspected.blocks[-3:]] == [(1, 2), (0, -1), (0, -1)]


def test_what_has_no_text_has_no_blocks_that_may_have_been_cut(store: Store) -> None:
    write_run(store, "texts", [sample_row(0, text=TEXT)], lp="theirs")
    write_run(store, "none", [sample_row(0)], lp="theirs")
    with_text, without = (inspect_sample(store, run_id, 0).missing for run_id in ("texts", "none"))
    assert "may have been cut" in " ".join(with_text) and without == ("It has no text and no tokens.",)


# --- damaged and odd ----------------------------------------------------------------------------------------------
def test_of_many_atoms_the_first_that_lost_their_place_are_marked(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each mark of a large molecule takes long."""
    text = f"[CONFORMER]{'[C]<0.0,0.0,0.0>' * 12}[/CONFORMER]"
    write_run(store, "large", [sample_row(0, smiles="C" * 12, text=text, clean=False)], lp="none", tokenizer="qwen3")
    words = "Of so many atoms only the first 5 that lost their place are marked."
    for most, count in ((10_000, 11), (59, 5)):
        monkeypatch.setattr(sample, "MOST_MARKED", most)
        inspected = inspect_sample(store, "large", 0)
        assert len(inspected.lost) == count and (words in inspected.missing) == (count == 5)


def test_a_damaged_part_costs_only_what_it_held(store: Store) -> None:
    ids = load_tokenizer("qwen3").encode(TEXT)
    samples = [sample_row(0, text=TEXT, token_ids=ids, forced=[False] * len(ids), tokens=len(ids))]
    write_run(store, "one", samples, [block_row(0, 0), block_row(0, 1)], [step_row(0, 0)], tokenizer="qwen3", lp="none")
    assert inspect_sample(store, "one", 0).missing == ()
    steps = folder_of(store) / "steps.parquet"
    steps.write_bytes(b"x" * steps.stat().st_size)
    inspected = inspect_sample(store, "one", 0)
    assert inspected.steps == {} and len(inspected.blocks) == 2 and inspected.alignment is not None
    assert "not stored" in " ".join(inspected.missing)
    (folder_of(store) / "samples.parquet").write_bytes(b"")
    assert known_cost(store, store.listing().get("one", RUN)) == (None, "")


def test_what_the_group_reader_makes_of_a_damaged_text(tmp_path: Path) -> None:
    def read(text: str) -> GroupShape | None:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        imported(folder, one_text(f"{PROMPT}{text}", "CC=O"))
        return inspect_sample(store_in(folder), "imported", 0).by_group

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


# --- what a cut cost, and shapes ------------------------------------------------------------------------------------
MOLECULE = parse_smiles("CO")
QWEN = load_tokenizer("qwen3")
BROKEN = "[CONFORMER][C]<1.0,2.0,3.0>[O]<1.0>[/CONFORMER]"


def block_of(number: int, text: str, continued: str | None = None, **more: Any) -> dict[str, Any]:
    return {"block": number, "atom": number, "text": text, "continued_text": continued, **more}


@pytest.mark.parametrize(
    ("written", "continued", "digits_lost", "displacement_ang", "needed"),
    [
        ("1.2345,-0.5,3.1", "1.2345,-0.5,3.1415", 3, 0.0415, 17),  # 6 for x, 4 for ",-" and 0.5, a comma and 6
        ("1.2345,-0.5,", "1.2345,-0.5,3.1", 2, None, 14),  # a number that was cut off has no place
        ("1.0,2.0,3.0", "9.0,2.0,3.0", None, 8.0, 11),  # of another text
        ("0.0,0.0,0.0", "0.01,0.02,0.03", None, math.sqrt(0.0014), 14),
        ("1.0,2.0,3.0", "的", None, None, None),  # junk is no continuation
    ],
)
def test_what_a_cut_lost(
    written: str, continued: str, digits_lost: int | None, displacement_ang: float | None, needed: int | None
) -> None:
    estimate = estimates_of([block_of(0, written, continued)], MOLECULE, QWEN)[0]
    assert (estimate.digits_lost, estimate.needed if needed else None) == (digits_lost, needed)
    assert estimate.displacement_ang == (displacement_ang and pytest.approx(displacement_ang))


def spot(atom: int | None, x: float | None, y: float | None = 0.0, z: float | None = 0.0) -> dict[str, Any]:
    return {"atom": atom, "x": x, "y": y, "z": z}


def test_atoms_without_coordinates_are_left_out() -> None:
    conformer = conformer_of({"text": BROKEN}, [spot(0, 1.0, 2.0, 3.0), spot(1, 1.0, None, None)], MOLECULE)
    assert conformer.mol is not None and conformer.atoms == (0,)
    assert conformer.mol.GetConformer().GetPositions().tolist() == [[1, 2, 3]]
    assert "1 numbers instead of three" in conformer.why_not


def test_the_place_of_an_error_is_that_of_the_verdict() -> None:
    """One page has the verdict's place, another the shape's: they were 11 characters apart, the opening tag's."""
    text = "[CONFORMER][C]<1.0,2.0,3.0>[O]<4.0,5.0amen>[/CONFORMER]"
    (failed,) = judge_answer(answer_of(text), None).failed
    assert failed.detail in conformer_of({"text": text}, [spot(0, 1)], MOLECULE).why_not


@pytest.mark.parametrize("kept", [(0, 1, 2), (3, 4, 5, 6), tuple(range(7))])
def test_part_of_a_ring_is_a_molecule_that_can_be_written(kept: tuple[int, ...]) -> None:
    toluene = parse_smiles("Cc1ccccc1")
    conformer = conformer_of({"text": "[C]<>"}, [spot(atom, float(atom)) for atom in kept], toluene)
    assert conformer.mol is not None and conformer.atoms == kept
    assert [point[0] for point in conformer.mol.GetConformer().GetPositions().tolist()] == list(kept)
    again = Chem.MolFromMolBlock(Chem.MolToMolBlock(conformer.mol))
    assert again is not None and again.GetNumAtoms() == len(kept)
    if len(kept) == 7:  # the molecule itself, so that it can be laid on a reference conformer of the same graph
        assert Chem.MolToSmiles(conformer.mol) == toluene.smiles
        assert least_rmsd(conformer.mol, conformer.mol) == pytest.approx(0)


# --- stored kinds over the alignment's own --------------------------------------------------------------------------
TOKENIZER = load_tokenizer("qwen3")
QWEN_TOKENS = TOKENIZER.vocab_size
STORED: list[tuple[Kind, ...]] = [("cut",), ("exact",), ("unverified",), ()]


def kinds(alignment: Alignment) -> list[tuple[Kind, ...]]:
    return [block.kinds for block in alignment.blocks]


@given(st.lists(st.integers(0, QWEN_TOKENS - 1), max_size=80), st.sampled_from(["none", "group-v2.1"]), st.data())
def test_any_tokens_have_columns(ids: list[int], lp: str, data: st.DataObject) -> None:
    template = build_template(skeleton_of(parse_smiles("CC(=O)N")), TOKENIZER, tags=True)
    before = align(template, [*template.ids[:20].tolist(), *ids], TOKENIZER, lp=lp)
    stored = [data.draw(st.sampled_from(STORED)) for _ in before.blocks]
    after = with_kinds(before, stored)
    assert kinds(after) == [new or old for new, old in zip(stored, kinds(before), strict=True)]
    assert [row.pos for row in after.rows] == [row.pos for row in before.rows]
    is_cut = [block for block, row in enumerate(stored) if row == ("cut",)]
    assert all(row.text_block in is_cut or not stored[row.text_block] for row in after.rows if row.mark == "cut")
