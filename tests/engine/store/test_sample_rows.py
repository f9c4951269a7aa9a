"""Samples as rows: what goes in comes out of the store, in the schema's types, whatever a model wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.decode.samples import Reader
from engine.decode.steps import Candidate, Diagnosis
from engine.records import CHECK_COLUMNS, TRIMMED4, Block, Check, FailedCheck, MoleculeVerdict
from engine.store.entries import Entry
from engine.store.files import Files
from engine.store.sample_rows import (
    Row,
    block_rows,
    run_columns,
    sample_row,
    step_rows,
    sums_of,
    tables_of,
    verdict_row,
    written_row,
)
from engine.store.schema import RUN, SAMPLES, STEPS
from engine.store.staging import write_entry
from engine.store.store import DEMO, Store
from engine.text.align import AlignedToken
from engine.text.tokenizers import load_tokenizer
from tests.strategies import ALPHABET, JUNK, molecule
from tests.support import sized

COUNTS = st.integers(0, 2**31 - 1)
REALS = st.floats(0, 2.0**63)
TEXTS = st.one_of(st.text(), st.text(alphabet=ALPHABET), st.sampled_from(JUNK))


def maybe(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


BLOCK = st.builds(
    Block,
    **dict.fromkeys(("block", "atom", "template_free", "junk_tokens"), COUNTS),
    **dict.fromkeys(("x", "y", "z"), maybe(REALS)),
    **dict.fromkeys(("text", "junk_text"), TEXTS),
    needed=maybe(COUNTS),
    drift=maybe(st.integers(-1000, 1000)),
    continued_text=maybe(TEXTS),
)
CHECK = st.builds(Check, blocks=COUNTS, unverified_blocks=COUNTS, extracted_smiles=TEXTS)
FAILED = st.builds(FailedCheck, atoms=st.lists(COUNTS, max_size=3).map(tuple), detail=TEXTS)
VERDICT = st.builds(
    MoleculeVerdict,
    **dict.fromkeys(("stereo_sites", "stereo_sites_right"), COUNTS),
    **dict.fromkeys(("strain_kcal", "strain_moved_ang"), maybe(REALS)),
    failed=st.lists(FAILED, max_size=2).map(tuple),
    strain_field=maybe(TEXTS),
)
RIGHT = MoleculeVerdict(1, 1, True, True, ())
EXTRAS = st.dictionaries(TEXTS, st.none() | TEXTS | st.integers(-5, 5) | st.lists(TEXTS, max_size=2), max_size=3)
ORDERED = "SELECT * FROM samples ORDER BY sample_id", "SELECT * FROM blocks ORDER BY sample_id, block"


def check(*, passed: bool = True, decodes: bool = True, clean: bool = True) -> Check:
    return Check(passed, decodes, clean, (), True, None, True, True, "CC=O", "CC=O", True, 1, 0, 1, (passed,), (clean,))


def row_of(sample_id: int = 0, blocks: Sequence[Block] = (), **more: Any) -> Row:
    own: Row = {"sample_id": sample_id, "smiles": "CC=O", "text": "[CONFORMER]"} | more
    return sample_row(own.pop("check", check()), blocks, {}, own)


def block(number: int = 0, text: str = "1.0,2.0,3.0", kinds: tuple = ("exact",), **more: Any) -> Block:
    given: dict[str, Any] = {"template_free": 16, "needed": 16, "drift": 0, "junk_text": "", "junk_tokens": 0}
    return Block(number, number, "C", text, 1.0, 2.0, 3.0, kinds=kinds, **(given | more))


# --- there and back -----------------------------------------------------------------------------------------------


def stored(folder: Path, samples: list[Row], blocks: list[Row], steps: pa.Table | None = None) -> Store:
    """Through a group, a merged file, and the view that a query sees."""
    store = Store(Files(folder))
    if "run_id=one" in store.home.folders(RUN.folder):
        store.remove("one")
    tables = tables_of("one", samples, blocks) | ({} if steps is None else {STEPS.name: steps})
    write_entry(store.home, RUN, "one", {"origin": "measured"}, [tables])
    return store


def listed(value: Any) -> Any:
    """As Parquet gives it back: tuples as lists."""
    return json.loads(json.dumps(value))


@pytest.mark.soak
@settings(max_examples=sized(10, 100))
@given(
    checks=st.lists(CHECK, min_size=1, max_size=3),
    blocks=st.lists(BLOCK, max_size=4, unique_by=lambda block: block.block),
    verdict=VERDICT,
    extra=EXTRAS,
    text=TEXTS,
    real=REALS,
)
@example(
    [check()], [block(text="\0")], MoleculeVerdict(1, 1, True, True, ()), {}, "a\0b\r\n\u202e的🙂\ufffd\U0010ffff", -0.0
)
def test_what_goes_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory,
    checks: list[Check],
    blocks: list[Block],
    verdict: MoleculeVerdict,
    extra: Row,
    text: str,
    real: float,
) -> None:
    own = {"smiles": "C", "text": text, "decode_s": real, **verdict_row(True, verdict)}
    rows = [sample_row(check, blocks, extra, own | {"sample_id": number}) for number, check in enumerate(checks)]
    of_blocks = [row for number in range(len(rows)) for row in block_rows(number, blocks)]
    store = stored(tmp_path_factory.getbasetemp() / "rows", rows, of_blocks)
    samples, stored_blocks = map(store.rows, ORDERED)
    assert samples == [dict.fromkeys(SAMPLES.names) | {"run_id": "one"} | listed(row) for row in rows]
    in_order = sorted(of_blocks, key=lambda row: (row["sample_id"], row["block"]))
    assert stored_blocks == [{"run_id": "one"} | listed(row) for row in in_order]
    for row, check in zip(samples, checks, strict=True):
        assert {name: row[name] for name in CHECK_COLUMNS} == listed({n: getattr(check, n) for n in CHECK_COLUMNS})
        assert listed({n: v for n, v in asdict(verdict).items() if n != "right_each"}).items() <= row.items()
        assert json.loads(row["extra"] or "{}") == extra


# --- text that is none --------------------------------------------------------------------------------------------


def test_half_a_character_is_refused_and_not_changed() -> None:
    with pytest.raises(UnicodeEncodeError):
        tables_of("one", [row_of(text="a\ud800")], [])


def test_the_cleaned_text_is_kept_beside_the_raw_one() -> None:
    tokenizer = load_tokenizer("qwen3")
    ids = tokenizer.encode("[CONFORMER][C]<1.0,2.0,3.0amen>[/CONFORMER]")
    reader = Reader(tokenizer, "none", "000", TRIMMED4, cleanup=True)
    row = written_row(reader.read(molecule("C"), ids, [False] * len(ids), "end"), heavy_atoms=1)
    assert "amen" not in row["text"]
    assert json.loads(row["extra"]) == {"raw_text": tokenizer.decode(ids)}
    assert (row["token_ids"], row["tokens"], row["forced_tokens"]) == (tuple(ids), len(ids), 0)


# --- sums ---------------------------------------------------------------------------------------------------------


def test_what_samples_add_up_to() -> None:
    damaged = [
        block(0, "1.0,2.0,3.0amen", ("letters",)),
        block(1, "1.0,2.0,3.0}", ("punctuation",)),
        block(2, "1.0,2", ("cut", "missing_z")),
        block(3, kinds=("unverified",)),
    ]
    sound = [block(), block(1)]
    samples = [
        row_of(0, sound, text="abc", token_ids=(1, 2, 3), tokens=3, forced_tokens=2, rmsd_ang=0.5),
        row_of(1, damaged, text="de", check=check(passed=False, decodes=False, clean=False), token_ids=(4,), tokens=1)
        | {"forced_tokens": None, "rmsd_ang": 2.0},
    ]
    sums = sums_of(samples, [*block_rows(0, sound), *block_rows(1, damaged)])
    assert sums == {
        "samples": 2,
        "passes": 1,
        "decodes": 1,
        "clean": 1,
        "conformers": 2,
        "passed_conformers": 1,
        "clean_conformers": 1,
        "blocks": 6,
        "junk_letters": 1,
        "junk_nonnumeric": 2,
        "bad_blocks": 3,
        "cut_blocks": 1,
        "unverified_blocks": 1,
        "chars_raw": 5,
        "chars_clean": 5,
        "tokens": 4,
        "forced_tokens": 2,
        "misread_blocks": 0,
        "rmsd_samples": 2,
        "rmsd_sum_ang": 2.5,
    }
    assert run_columns(sums)["rmsd_ang"] == 1.25
    assert {"tokens", "forced_tokens"}.isdisjoint(sums_of([samples[0], row_of(1)], []))
    assert sums_of([], [])["samples"] == 0


@pytest.mark.parametrize(
    "entry", [entry for entry in Store(Files(DEMO)).listing().entries if "samples" in entry.parts], ids=str
)
def test_runs_that_ship_have_what_their_rows_add_up_to(entry: Entry) -> None:
    rows = {name: entry.read(name).to_pylist() for name in ("samples", "blocks")}
    sums = run_columns(sums_of(rows["samples"], rows["blocks"]))
    assert sums == pytest.approx({name: entry.row[name] for name in sums}, rel=1e-12)


def test_the_farthest_misread_block_is_a_peak() -> None:
    far = block(0, "1.0,2.0,3.0(cc6", ("letters",))
    infinite = block(1, "1.0,2.0,3.0 1e999", ("letters",))
    nowhere = replace(block(2, "1.0,2.0,abra9", ("letters",)), z=None)
    sums = sums_of([], block_rows(0, [block(), far, infinite, nowhere]))
    assert (sums["misread_blocks"], sums["misread_most_ang"]) == (3, 3.0)
    assert "misread_most_ang" not in sums_of([], block_rows(0, [block(), infinite, nowhere]))


# --- steps --------------------------------------------------------------------------------------------------------


def aligned(pos: int | None, **more: Any) -> AlignedToken:
    given: dict[str, Any] = {
        "pos": pos,
        "token_id": None if pos is None else 7,
        "piece": "\\xe7",
        "start": 0,
        "end": 1,
        "text_role": "FREE",
        "text_block": 0,
        "template_pos": 0,
        "template_id": 9,
        "template_piece": "0",
        "role": "COPY",
        "block": 0,
        "forced": False,
        "mark": "",
    }
    return AlignedToken(**(given | more))


def test_steps_come_out_as_they_went_in(tmp_path: Path) -> None:
    stats = Diagnosis(0.1, 0.5, 0.2, 3, 1.5, (Candidate(7, 0.1, True), Candidate(2**31 - 1, 1e-30, False)), 4, "close")
    stats = replace(stats, ln_p=-2.5, ln_q=-math.inf)
    rows = list(step_rows(0, [aligned(0), aligned(None), aligned(1, role=None, template_id=None)], [stats]))
    assert [row["pos"] for row in rows] == [0, 1]
    assert (rows[1]["role"], rows[1]["template_id"]) == ("FREE", None)
    store = stored(tmp_path, [row_of()], [], STEPS.rows([row | {"run_id": "one"} for row in rows]))
    first, second = store.rows("SELECT * FROM steps ORDER BY pos")
    assert first == {
        "run_id": "one",
        "sample_id": 0,
        "pos": 0,
        "token_id": 7,
        "piece": "\\xe7",
        "role": "COPY",
        "forced": False,
        "template_id": 9,
        "block": 4,
        "conformer": 1,
        "rule": "close",
        "p_raw": 0.1,
        "p_lp": 0.5,
        "allowed_mass": 0.2,
        "rank_raw": 3,
        "entropy_nat": 1.5,
        "top_k": [
            {"token_id": 7, "p_raw": 0.1, "allowed": True},
            {"token_id": 2**31 - 1, "p_raw": 1e-30, "allowed": False},
        ],
        "ln_p": -2.5,
        "ln_p_tempered": None,
        "ln_mass": None,
        "ln_q": -math.inf,
        "ln_share": None,
        "struck": None,
    }
    assert (second["block"], second["p_raw"], second["top_k"]) == (0, None, None)
