"""A text atom by atom: what is damaged, by how many Å, and the sentence that says why."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.inspection.atoms import AtomRow, atom_rows, lost_places, token_rows, tokens_of_sample, worst_first
from engine.inspection.sample import BlockEstimate, Inspected, inspect_sample
from engine.records import BinFormat
from engine.text.align import align
from engine.text.template import build_template
from pages._kit.components.atom_view import view_rows
from tests.engine.inspection.made import DEMO_STORE, demo_run
from tests.engine.inspection.test_sample import TOKENIZER


def rows_of(text: str, smiles: str = "CO", lp: str = "none", **more: Any) -> list[AtomRow]:
    template = build_template(skeleton_of(parse_smiles(smiles)), TOKENIZER, tags=True)
    alignment = align(template, TOKENIZER.encode(text), TOKENIZER, lp=lp)
    return atom_rows(alignment, smiles, list(map(asdict, alignment.blocks)), **more)


def demo(sample: int = 0, lp: str = "group-v2.1", model: str = "qwen") -> tuple[Inspected, list[AtomRow]]:
    result = inspect_sample(DEMO_STORE, demo_run(model, lp), sample)
    return result, atom_rows(result.alignment, result.molecule.elements, result.blocks, result.steps, result.estimates)


def test_the_worst_atom_comes_first_with_its_sentence() -> None:
    inspected, rows = demo()
    worst = worst_first(rows)
    assert [(row.atom, row.damage, row.needed, row.given) for row in worst[:2]] == [
        (3, "junk", 11, 20),
        (4, "junk", 14, 20),
    ]
    assert [row.off_ang for row in worst[:2]] == pytest.approx([1.48, 0.5])
    assert worst[0].words == (
        "C, atom 3: the number was complete after 11 of 20 tokens. The model wanted `>[` (>99.9 %), which the LP "
        "forbids, so it wrote `)[C@H+1.48`: 1.48 Å off by the group's reader."
    )
    assert inspected.alignment is not None
    assert "".join(inspected.alignment.rows[column].piece for column in worst[0].columns) == "]<0.0,0.0,0.0)[C@H+1.48>["
    assert not [row for row in rows if row.damage == "cut"], "the model would have ended atoms 0 and 2 as the LP did"
    assert [row.name for row in rows if row.damage == "unlikely"] == ["NH"]


@pytest.mark.parametrize("lp", ["none", "exact"])
def test_a_sound_text_has_a_row_an_atom_and_no_damage(lp: str) -> None:
    inspected, rows = demo(lp=lp)
    assert [row.atom for row in rows] == list(range(inspected.molecule.atoms))
    assert {(row.damage, row.words, row.off_ang) for row in rows} == {("", "", None)}


def test_a_cut_says_what_the_model_would_have_written() -> None:
    inspected, _ = demo()
    estimates = {0: BlockEstimate("-0.4533,-3.6358,0.6294", 21, 1, 0.0004)}
    blocks = [{**block, "kinds": ["cut"]} for block in inspected.blocks]
    rows = atom_rows(inspected.alignment, inspected.molecule.elements, blocks, {}, estimates)
    assert (rows[0].off_ang, rows[0].is_estimate) == (0.0004, True)
    assert "would have written `-0.4533,-3.6358,0.6294`: ≈ 0.0004 Å off." in rows[0].words


@pytest.mark.parametrize(
    ("block", "lp", "damage", "words"),
    [
        ("2.5467,-0.213,", "unknown", "cut", "z is missing; no reader takes it."),
        ("2.5467,-0.213,", "none", "junk", "z is missing, which no reader takes."),
        ("2.5467,-0.213", "none", "missing", "z is missing; no reader takes it."),
        ("2.5467", "unknown", "cut", "y and z are missing; no reader takes it."),
        ("2.5467,-0.213,1.", "unknown", "cut", "its last number ends before its last digits."),
        ("2.5467,-0.213abc,1.5", "none", "junk", "its numbers take 16 of 20 tokens. `abc` stands between them: 0.00 Å"),
        ("x2.5467,-0.213,1.5", "none", "junk", "its numbers take 16 of 20 tokens. `x` stands before them: 0.00 Å"),
        ("2.5467,-0.213,1.5abc", "none", "junk", "the number was complete after 16 of 20 tokens. `abc` is too much"),
        ("2.5467-0.213,1.5", "none", "junk", "a comma is missing, which no reader takes."),
        ("2.5467,-0.213ab", "unknown", "junk",
         "z is missing. `ab` is too much; its last number ends before its last digits; no reader takes it."),
    ],
)  # fmt: skip
def test_a_sentence_names_what_is_wrong_and_where(block: str, lp: str, damage: str, words: str) -> None:
    (row, _) = rows_of(f"[CONFORMER][C]<{block}>[O]<1.0,2.0,3.0>[/CONFORMER]", lp=lp)
    assert (row.damage, row.words.startswith(f"C, atom 0: {words}")) == (damage, True), row.words


def test_a_cut_of_a_position_lp_names_the_axis_or_that_nothing_is_lost() -> None:
    inspected, _ = demo()
    (block,) = [block for block in inspected.blocks if block["block"] == 0]
    of = lambda estimates={}, **other: atom_rows(  # noqa: E731
        None, inspected.molecule.elements, [{**block, **other}], {}, estimates
    )[0]
    missing = of(text="-0.4533,-3.6358,", kinds=["trailing_mark", "missing_z", "cut"], z=None)
    assert (missing.damage, missing.words) == ("cut", "C, atom 0: z is missing; no reader takes it.")
    same = of({0: BlockEstimate(block["text"], 20, 0, 0.0)}, kinds=["cut"])
    assert same.words.endswith("so would the model have: nothing is lost.") and same.is_quiet


def test_a_cut_axis_is_named_with_the_template_that_ended() -> None:
    _, rows = demo(9, "group-v4.3", "llama")
    (first, *_) = [row.words for row in rows if row.damage == "cut"]
    assert first == "O, atom 0: z is missing, since the template ended after 11 tokens; no reader takes it."


def test_damage_of_next_to_nothing_is_quieter_than_what_moves_an_atom() -> None:
    _, rows = demo()
    junk = [row for row in rows if row.damage == "junk"]
    assert {row.is_quiet for row in junk if row.off_ang is not None and row.off_ang >= 0.01} == {False}
    assert {row.is_quiet for row in junk if row.off_ang is not None and row.off_ang < 0.01} == {True}
    assert not any(row.is_quiet for row in rows if row.off_ang is None)


def test_what_no_reader_takes_comes_before_all() -> None:
    rows = rows_of("[CONFORMER][C]<0.1234,0.2345,0.3456>[O]<1.2345;0.5678>[/CONFORMER]")
    (first, second) = worst_first(rows)
    assert (first.atom, first.off_ang, second.damage) == (1, None, "")
    assert first.words.endswith("`;0.5678` is too much, which no reader takes.")


def test_atoms_that_the_molecule_lacks_and_text_that_is_not_its() -> None:
    rows = rows_of("[CONFORMER][C]<0.1,0.2,0.3>purchases[O]<1.0,2.0,3.0>[Br]<1.0,2.0,3.0>[/CONFORMER]")
    assert [(row.atom, row.name) for row in rows if row.damage != "outside"] == [
        (0, "C, atom 0"),
        (1, "O, atom 1"),
        (None, "no such atom"),
    ]
    (outside, *_) = [row for row in rows if row.damage == "outside"]
    assert "urchases" in outside.words and outside.atom is None


def test_what_the_molecules_checks_and_the_guard_say() -> None:
    text = "[CONFORMER][C]<0.1,0.2,0.3>[O]<1.0,2.0,3.0>[/CONFORMER]"
    rows = rows_of(text, wrong={(1, 0): "clash: too near"}, redrawn={0: "drawn 2 times", 1: "drawn 3 times"})
    assert [(row.damage, row.words) for row in rows] == [
        ("wrong", "C, atom 0: clash: too near."),
        ("redrawn", "O, atom 1: drawn 3 times."),
    ]


def test_without_tokens_the_blocks_are_left() -> None:
    inspected, _ = demo()
    bare = atom_rows(None, inspected.molecule.elements, inspected.blocks)
    assert [row.atom for row in bare] == [block["atom"] for block in inspected.blocks]
    assert [row.text for row in bare] == [block["text"] for block in inspected.blocks]
    assert {row.columns for row in bare} == {()}
    assert bare[3].off_ang == pytest.approx(1.48)


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=80), st.sampled_from(["none", "group-v2.1"]))
def test_any_tokens_have_rows(ids: list[int], lp: str) -> None:
    template = build_template(skeleton_of(parse_smiles("CC(=O)N")), TOKENIZER, tags=True)
    alignment = align(template, [*template.ids[:20].tolist(), *ids], TOKENIZER, lp=lp)
    rows = atom_rows(alignment, "CCON", list(map(asdict, alignment.blocks)))
    columns = [column for row in rows for column in row.columns]
    assert len(columns) == len(set(columns)) and set(columns) <= set(range(len(alignment.rows)))
    assert {row.atom for row in rows} <= {None, 0, 1, 2, 3}
    assert len(view_rows(rows, token_rows(alignment))) == len(rows)


def test_the_token_that_lost_an_atom_is_marked_and_its_row_says_how() -> None:
    run_id = demo_run("qwen", "exact")
    inspected = next(
        one
        for one in (inspect_sample(DEMO_STORE, run_id, sample) for sample in range(64))
        if one.lost and not one.lost[0].is_before
    )
    mark, alignment = inspected.lost[0], inspected.alignment
    assert alignment is not None
    words = lost_places(inspected, {(1, mark.atom): "bond lengths: too long"})
    assert words[1, mark.atom].startswith("bond lengths: too long. Lost at ")
    rows = atom_rows(alignment, inspected.molecule.elements, inspected.blocks, {}, {}, lost_places(inspected, {}))
    row = next(row for row in rows if row.atom == mark.atom)
    assert row.damage == "wrong" and "Lost at the " in row.words and f"`{mark.piece}`" in row.words
    shown = view_rows(rows, tokens_of_sample(inspected, {}))
    marked = [token for view in shown for token in view.tokens if "l" in token.marks]
    firsts = [other for other in inspected.lost if not other.is_before]
    assert sorted(token.piece for token in marked) == sorted(other.piece for other in firsts)
    assert all(token.lost.startswith("Lost at ") for token in marked)


BINS = BinFormat(edges=tuple(np.linspace(-10.5748, 10.5102, 257).tolist()), mode="uniform")


@pytest.mark.parametrize(
    ("text", "atom", "words"),
    [
        ("[C]128130125[O]128130131;", 0, "C, atom 0: its semicolon is missing, but the group's reader takes it."),
        ("[C]000130125;[O]128130131;", 0, "a number says only that it is outside the range, but the group's reader"),
        ("[C]999130125;[O]128130131;", 0, "C, atom 0: a number is that of no bin; no reader takes it."),
        ("[C]128130;[O]128130131;", 0, "C, atom 0: z is missing; no reader takes it."),
        ("[C]12813012;[O]128130131;", 0, "C, atom 0: a number has too few digits; no reader takes it."),
        ("[C][O]128130131;", 1, "O, atom 1: two atoms share its numbers; no reader takes it."),
        ("[C]128amen130125;[O]128130131;", 0, "C, atom 0: its numbers take 9 of 9 tokens. `amen` stands between them"),
    ],
)
def test_damage_of_bins_has_a_sentence(text: str, atom: int, words: str) -> None:
    molecule = parse_smiles("CO")
    template = build_template(skeleton_of(molecule, form=BINS), TOKENIZER, "128128128", tags=True, form=BINS)
    alignment = align(template, TOKENIZER.encode(f"[CONFORMER]{text}[/CONFORMER]"), TOKENIZER, form=BINS)
    rows = atom_rows(alignment, molecule.elements, list(map(asdict, alignment.blocks)))
    damaged = [row for row in rows if row.damage and row.atom is not None and "nothing was written" not in row.words]
    assert [row.atom for row in damaged] == [atom] and words in damaged[0].words, damaged
