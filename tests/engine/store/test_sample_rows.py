"""Samples as rows: what goes in comes out of the store, in the schema's types, whatever a model wrote."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.decode.samples import Reader
from engine.decode.steps import Candidate, Diagnosis
from engine.records import TRIMMED4, VERDICT_COLUMNS, Block, Check, FailedCheck, MoleculeVerdict
from engine.store.columns import Kind
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.sample_rows import StoredSample, step_rows, sums_of, tables_of
from engine.store.schema import BLOCKS, RUN, SAMPLES, STEPS
from engine.store.staging import Staging, totals
from engine.store.store import Store
from engine.store.views import connect
from engine.text.align import AlignedToken
from engine.text.tokenizers import load_tokenizer
from tests.strategies import ALPHABET, JUNK, Written, damaged, enriched_texts, molecule, seeds, small_molecules
from tests.support import sized

COUNTS = st.integers(0, 2**31 - 1)
REALS = st.floats(0, 2.0**63)
TEXTS = st.one_of(st.text(), st.text(alphabet=ALPHABET), st.sampled_from(JUNK))
KINDS = ("exact", "letters", "punctuation", "missing_z", "cut", "unverified")


def maybe(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


BLOCK = st.builds(
    Block,
    block=COUNTS,
    atom=COUNTS,
    element=TEXTS,
    text=TEXTS,
    x=maybe(REALS),
    y=maybe(REALS),
    z=maybe(REALS),
    template_free=COUNTS,
    needed=maybe(COUNTS),
    drift=maybe(st.integers(-1000, 1000)),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1).map(tuple),
    junk_text=TEXTS,
    junk_tokens=COUNTS,
    continued_text=maybe(TEXTS),
)
CHECK = st.builds(
    Check,
    passed=st.booleans(),
    decodes=st.booleans(),
    clean=st.booleans(),
    issues=st.lists(TEXTS).map(tuple),
    parsed=st.booleans(),
    parse_error=maybe(TEXTS),
    same_graph=st.booleans(),
    exact_match=st.booleans(),
    extracted_smiles=TEXTS,
    generated_smiles=maybe(TEXTS),
    has_real_coordinates=st.booleans(),
    blocks=COUNTS,
    unverified_blocks=COUNTS,
)
VERDICT = st.builds(
    MoleculeVerdict,
    stereo_sites=COUNTS,
    stereo_sites_right=COUNTS,
    stereo_right=maybe(st.booleans()),
    geometry_right=maybe(st.booleans()),
    failed=st.lists(
        st.builds(FailedCheck, check=TEXTS, atoms=st.lists(COUNTS, max_size=3).map(tuple), detail=TEXTS), max_size=2
    ).map(tuple),
    strain_kcal=maybe(REALS),
    strain_moved_ang=maybe(REALS),
    strain_field=maybe(TEXTS),
)
SAMPLE = st.builds(
    StoredSample,
    sample_id=COUNTS,
    generation=COUNTS,
    smiles=TEXTS,
    heavy_atoms=maybe(COUNTS),
    atoms=maybe(COUNTS),
    text=TEXTS,
    check=CHECK,
    blocks=st.lists(BLOCK, max_size=4, unique_by=lambda block: block.block).map(tuple),
    token_ids=maybe(st.lists(COUNTS, max_size=5).map(tuple)),
    forced=maybe(st.lists(st.booleans(), max_size=5).map(tuple)),
    stop_reason=maybe(st.sampled_from(["end", "length", "desync"])),
    decode_s=maybe(REALS),
    rmsd_ang=maybe(REALS),
    raw_chars=maybe(COUNTS),
    extra=st.dictionaries(TEXTS, st.none() | TEXTS | st.integers(-5, 5) | st.lists(TEXTS, max_size=2), max_size=3),
    continued=st.dictionaries(COUNTS, TEXTS, max_size=2),
    verdict=maybe(VERDICT),
    has_template=st.booleans(),
)


def sample(sample_id: int = 0, **more: Any) -> StoredSample:
    check = Check(True, True, True, (), True, None, True, True, "CC=O", "CC=O", True, 1, 0)
    given: dict[str, Any] = {"heavy_atoms": 3, "atoms": 3, "text": "[CONFORMER]", "check": check, "blocks": ()}
    return StoredSample(sample_id, 0, "CC=O", **(given | more))


def block(number: int = 0, text: str = "1.0,2.0,3.0", kinds: tuple = ("exact",), **more: Any) -> Block:
    given: dict[str, Any] = {"template_free": 16, "needed": 16, "drift": 0, "junk_text": "", "junk_tokens": 0}
    return Block(number, number, "C", text, 1.0, 2.0, 3.0, kinds=kinds, **(given | more))


# --- there and back -----------------------------------------------------------------------------------------------


def stored(place: Path, samples: list[StoredSample], steps: pa.Table | None = None) -> Store:
    """Through a group, a merged file, and the view that a query sees."""
    store = Store(Files(place))
    if "run_id=one" in store.home.folders(RUN.folder):
        store.remove("one")
    tables = tables_of("one", samples) | ({} if steps is None else {STEPS.name: steps})
    with mock.patch.object(os, "fsync"):  # of what is read at once and then removed
        staging = Staging.create(store.home, RUN, "one", {"origin": "measured"})
        staging.add(tables, [one.sample_id for one in samples], sums=sums_of(samples))
        staging.publish(totals(staging.groups()))
    return store


def answers(store: Store, *asked: str) -> list[list[dict[str, Any]]]:
    """Of one connection: making one takes longer than all of its questions."""

    def ask(found: Sequence[tuple[Kind, Sequence[Entry]]]) -> list[list[dict[str, Any]]]:
        with connect(found) as connection:
            return [connection.sql(sql).to_arrow_table().to_pylist() for sql in asked]

    return store.reading(ask)


def expected(one: StoredSample) -> dict[str, Any]:
    check, drifts = one.check, [each.drift for each in one.blocks if each.drift is not None]
    bad = sum(any(kind not in ("exact", "unverified") for kind in each.kinds) for each in one.blocks)
    verdict: dict[str, Any] = dict.fromkeys((*VERDICT_COLUMNS, "usable"))
    if one.verdict is not None:
        failed = [
            {"check": each.check, "atoms": list(each.atoms), "detail": each.detail} for each in one.verdict.failed
        ]
        verdict = {name: getattr(one.verdict, name) for name in VERDICT_COLUMNS} | {"failed": failed}
        has_stereo = one.verdict.stereo_right is True or one.verdict.stereo_sites == 0
        verdict["usable"] = check.clean and has_stereo and one.verdict.geometry_right is True
    return {
        **dict.fromkeys(name for name in SAMPLES.names if name != "extra"),
        "run_id": "one",
        **verdict,
        "decodes": None,
        **{name: getattr(one, name) for name in ("sample_id", "generation", "smiles", "text", "stop_reason")},
        **{name: getattr(one, name) for name in ("heavy_atoms", "atoms", "decode_s", "rmsd_ang")},
        "token_ids": None if one.token_ids is None else list(one.token_ids),
        "forced": None if one.forced is None else list(one.forced),
        **{
            name: getattr(check, name) for name in ("passed", "decodes", "clean", "parsed", "parse_error", "same_graph")
        },
        **{name: getattr(check, name) for name in ("exact_match", "generated_smiles", "extracted_smiles")},
        "has_real_coordinates": check.has_real_coordinates,
        "issues": list(check.issues),
        "tokens": None if one.token_ids is None else len(one.token_ids),
        "forced_tokens": None if one.forced is None else one.forced.count(True),
        "blocks": len(one.blocks),
        "bad_blocks": bad,
        "cut_blocks": sum("cut" in each.kinds for each in one.blocks),
        "drift": sum(drifts) if drifts else None,
    }


def expected_block(one: StoredSample, each: Block) -> dict[str, Any]:
    plain = ("block", "atom", "element", "text", "x", "y", "z", "needed", "drift", "junk_text")
    return {
        "run_id": "one",
        "sample_id": one.sample_id,
        **{name: getattr(each, name) for name in plain},
        "template_free": each.template_free if one.has_template else None,
        "kinds": list(each.kinds),
        "junk_tokens": None if one.token_ids is None else each.junk_tokens,
        "continued_text": one.continued.get(each.block, each.continued_text),
    }


@pytest.mark.soak
@settings(max_examples=sized(10, 150))
@given(samples=st.lists(SAMPLE, min_size=1, max_size=3, unique_by=lambda one: one.sample_id))
@example([sample(text="a\0b\r\n\u202e的🙂\ufffd\U0010ffff", stop_reason="end")])
@example([sample(decode_s=-0.0, rmsd_ang=2.0**63, blocks=(block(text="\0"),))])
def test_what_goes_in_comes_out(tmp_path_factory: pytest.TempPathFactory, samples: list[StoredSample]) -> None:
    store = stored(tmp_path_factory.getbasetemp() / "rows", samples)
    ordered = "SELECT * FROM blocks ORDER BY sample_id, block"
    rows, blocks = answers(store, "SELECT * FROM samples ORDER BY sample_id", ordered)
    extras = [row.pop("extra") for row in rows]
    in_order = sorted(samples, key=lambda one: one.sample_id)
    assert rows == [expected(one) for one in in_order]
    assert [json.loads(extra or "{}") for extra in extras] == [one.extra for one in in_order]
    pairs = [(one, each) for one in in_order for each in sorted(one.blocks, key=lambda each: each.block)]
    assert blocks == [expected_block(one, each) for one, each in pairs]


def test_the_types_are_those_of_the_schema() -> None:
    tables = tables_of("one", [sample(blocks=(block(), block(1)))])
    assert tables[SAMPLES.name].schema.equals(SAMPLES.schema)
    assert tables[BLOCKS.name].schema.equals(BLOCKS.schema)
    assert {name: rows.num_rows for name, rows in tables_of("one", []).items()} == {"samples": 0, "blocks": 0}


@pytest.mark.soak
@settings(max_examples=sized(10, 100))
@given(written=enriched_texts(small_molecules(), TRIMMED4), seed=seeds(), data=st.data())
def test_what_a_model_wrote_comes_out_as_it_was_read(
    tmp_path_factory: pytest.TempPathFactory, written: Written, seed: int, data: st.DataObject
) -> None:
    """Damaged answers, read and checked as those of a run are."""
    lp, name = (
        data.draw(st.sampled_from(["none", "exact", "group-v2.1"])),
        data.draw(st.sampled_from(["qwen3", "llama3"])),
    )
    tokenizer = load_tokenizer(name)
    ids = tokenizer.encode("[CONFORMER]" + damaged(written.text, seed))
    read = Reader(tokenizer, lp, "000", TRIMMED4).read(written.molecule, ids, [False] * len(ids), "end", sample_id=3)
    store = stored(tmp_path_factory.getbasetemp() / "read", [StoredSample.of(read, written.molecule.heavy_atoms)])
    (row,), blocks, (run,) = answers(
        store, "SELECT * FROM samples", "SELECT text, kinds, x, drift FROM blocks ORDER BY block", "SELECT * FROM runs"
    )
    assert (row["text"], row["token_ids"], row["issues"]) == (read.text, list(read.token_ids), list(read.check.issues))
    assert (row["passed"], row["clean"], row["smiles"]) == (
        read.check.passed,
        read.check.clean,
        written.molecule.smiles,
    )
    assert blocks == [
        {"text": one.text, "kinds": list(one.kinds), "x": one.x, "drift": one.drift} for one in read.blocks
    ]
    assert run["samples"] == 1 and run["tokens"] == len(read.token_ids)
    assert (run["blocks"], run["bad_blocks"]) == (row["blocks"], row["bad_blocks"])


# --- text that is none --------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 128_255), max_size=20), st.sampled_from(["qwen3", "llama3"]))
def test_tokens_never_make_half_a_character(ids: list[int], name: str) -> None:
    """Bytes that are no text come as U+FFFD, so that everything a model writes can be stored."""
    load_tokenizer(name).decode(ids).encode()


def test_half_a_character_is_refused_and_not_changed() -> None:
    with pytest.raises(UnicodeEncodeError):
        tables_of("one", [sample(text="a\ud800")])


def test_the_cleaned_text_is_kept_beside_the_raw_one() -> None:
    tokenizer = load_tokenizer("qwen3")
    ids = tokenizer.encode("[CONFORMER][C]<1.0,2.0,3.0amen>[/CONFORMER]")
    reader = Reader(tokenizer, "none", "000", TRIMMED4, cleanup=True)
    one = StoredSample.of(reader.read(molecule("C"), ids, [False] * len(ids), "end"), 1)
    assert "amen" not in one.text
    assert one.extra == {"raw_text": tokenizer.decode(ids)}
    assert sums_of([one])["chars_raw"] - sums_of([one])["chars_clean"] == len("amen")


# --- sums ---------------------------------------------------------------------------------------------------------


def test_what_samples_add_up_to() -> None:
    failed = Check(False, False, False, ("a", "b"), False, "no", False, False, "", None, False, 3, 1)
    samples = [
        sample(
            0, token_ids=(1, 2, 3), forced=(True, True, False), text="abc", raw_chars=10, blocks=(block(), block(1))
        ),
        sample(
            1,
            check=failed,
            token_ids=(4,),
            text="de",
            blocks=(
                block(0, "1.0,2.0,3.0amen", ("letters",)),
                block(1, "1.0,2.0,3.0}", ("punctuation",)),
                block(2, "1.0,2", ("cut", "missing_z")),
                block(3, kinds=("unverified",)),
            ),
        ),
    ]
    assert sums_of(samples) == {
        "samples": 2, "passes": 1, "decodes": 1, "clean": 1, "blocks": 6, "junk_letters": 1, "junk_nonnumeric": 2,
        "bad_blocks": 3, "cut_blocks": 1, "unverified_blocks": 1, "chars_raw": 12, "chars_clean": 5, "tokens": 4,
        "forced_tokens": 2, "misread_blocks": 0,
    }  # fmt: skip
    assert set(sums_of(samples)) <= set(RUN.main.names)


def test_the_farthest_misread_block_is_a_peak() -> None:
    far = block(0, "1.0,2.0,3.0(cc6", ("letters",))
    infinite = block(1, "1.0,2.0,3.0 1e999", ("letters",))
    nowhere = replace(block(2, "1.0,2.0,abra9", ("letters",)), z=None)
    samples = [sample(0, blocks=(block(), far)), sample(1, blocks=(infinite, nowhere))]
    assert (sums_of(samples)["misread_blocks"], sums_of(samples)["misread_most_ang"]) == (3, 3.0)
    assert "misread_most_ang" not in sums_of([sample(blocks=(block(), infinite, nowhere))])


def test_tokens_are_not_added_up_where_some_are_not_known() -> None:
    assert {"tokens", "forced_tokens"}.isdisjoint(sums_of([sample(0, token_ids=(1,)), sample(1)]))
    assert sums_of([])["samples"] == 0


# --- steps --------------------------------------------------------------------------------------------------------


def aligned(pos: int | None, **more: Any) -> AlignedToken:
    given: dict[str, Any] = {
        "pos": pos, "token_id": None if pos is None else 7, "piece": "\\xe7", "start": 0, "end": 1, "text_role": "FREE",
        "text_block": 0, "template_pos": 0, "template_id": 9, "template_piece": "0", "role": "COPY", "block": 0,
        "forced": False, "mark": "", "running_drift": 0,
    }  # fmt: skip
    return AlignedToken(**(given | more))


def test_steps_come_out_as_they_went_in(tmp_path: Path) -> None:
    told = Diagnosis(0.1, 0.5, 0.2, 3, 1.5, (Candidate(7, 0.1, True), Candidate(2**31 - 1, 1e-30, False)), 4, "close")
    told = replace(told, ln_p=-2.5, ln_q=-math.inf)
    rows = list(step_rows(0, [aligned(0), aligned(None), aligned(1, role=None, template_id=None)], [told]))
    assert [row["pos"] for row in rows] == [0, 1]
    assert (rows[1]["role"], rows[1]["template_id"]) == ("FREE", None)
    store = stored(tmp_path, [sample()], STEPS.rows([row | {"run_id": "one"} for row in rows]))
    first, second = store.rows("SELECT * FROM steps ORDER BY pos")
    assert first == {
        "run_id": "one", "sample_id": 0, "pos": 0, "token_id": 7, "piece": "\\xe7", "role": "COPY", "forced": False,
        "template_id": 9, "block": 4, "rule": "close", "p_raw": 0.1, "p_lp": 0.5, "allowed_mass": 0.2, "rank_raw": 3,
        "entropy_nat": 1.5,
        "top_k": [
            {"token_id": 7, "p_raw": 0.1, "allowed": True},
            {"token_id": 2**31 - 1, "p_raw": 1e-30, "allowed": False},
        ],
        "ln_p": -2.5, "ln_p_tempered": None, "ln_mass": None, "ln_q": -math.inf,
    }  # fmt: skip
    assert (second["block"], second["p_raw"], second["top_k"]) == (0, None, None)
