"""The texts of report files, read anew: blocks, junk and drift by our own code, the file's verdict kept beside ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from engine.errors import TokenizerError
from engine.inspection.runs import number_format, run_facts
from engine.store.reports.importing import PROMPT_NOT_READ, import_report, split_text
from engine.text.align import align
from engine.text.check import MISMATCH, NO_CONFORMER
from engine.text.template import build_template
from engine.text.tokenizers import load_tokenizer
from tests.engine.store.reports.documents import (
    CLEAN,
    PROMPT,
    document,
    imported,
    one_text,
    rows,
    sample_of,
    store_in,
)
from tests.report_examples import LLAMA_EXAMPLES, QWEN_EXAMPLES
from tests.strategies import Written, damaged, enriched_texts, seeds, small_molecules
from tests.support import sized


def test_the_reports_junk_is_found(tmp_path: Path) -> None:
    examples = [*QWEN_EXAMPLES, *LLAMA_EXAMPLES]
    texts = [f"[SMILES]C[/SMILES][CONFORMER][C]<{content}>[/CONFORMER]" for content, _, _ in examples]
    items = [{"prompt_smiles": "C", "decoded_text": text} for text in texts]
    imported(tmp_path, document() | {"passes": items, "failures": []})
    found = rows(tmp_path, "SELECT atom, element, text, kinds, junk_text, junk_tokens FROM blocks ORDER BY sample_id")
    assert [tuple(row.values()) for row in found] == [
        (0, "C", content, list(kinds), junk, None) for content, kinds, junk in examples
    ]


def test_drift_is_told_where_the_model_ended_its_numbers(tmp_path: Path) -> None:
    imported(tmp_path, document())
    found = rows(tmp_path, "SELECT kinds, template_free, needed, drift FROM blocks WHERE sample_id < 2 ORDER BY ALL")
    assert [(one["kinds"][0], one["template_free"], one["needed"], one["drift"]) for one in found] == [
        ("letters", 20, 19, 1),
        ("punctuation", 20, 18, 2),
        ("trailing_mark", 20, None, None),
        *[("unverified", 20, None, None)] * 3,
    ]


def test_without_a_known_tokenizer_or_lp_there_is_no_drift(tmp_path: Path) -> None:
    for number, more in enumerate(({"tokenizer_name": "another"}, {"version": "v9.9"})):
        entry = imported(tmp_path / str(number), document(**more))
        found = rows(tmp_path / str(number), "SELECT DISTINCT template_free, needed, drift FROM blocks")
        assert found == [{"template_free": None, "needed": None, "drift": None}]
        assert "without drift" in entry.row["notes"]
        kinds = rows(tmp_path / str(number), "SELECT kinds FROM blocks WHERE sample_id = 0")
        assert {kind["kinds"][0] for kind in kinds} == {"unverified"}


@pytest.mark.parametrize(
    ("others", "writer", "kinds"),
    [
        ("0.25,-2,0.1234", "0 to 4 decimals, trailing zeros and a trailing point dropped", ["exact", "exact"]),
        ("0.25,-2.0,0.1234", "1 to 4 decimals, further zeros dropped", ["integer", "exact"]),
        ("0.2500,-2.0000,0.1234", "always 4 decimals", ["integer", "exact"]),
    ],
)
def test_the_number_format_is_found_from_all_texts_and_told(
    others: str, writer: str, kinds: list[str], tmp_path: Path
) -> None:
    texts = ["0.1234,1.5,3", *[f"1.2345,-0.{number}7,0.1234" for number in range(100, 150)], *[others] * 20]
    items = [{"prompt_smiles": "C", "decoded_text": f"[CONFORMER][C]<{text}>[/CONFORMER]"} for text in texts]
    entry = imported(tmp_path, document(logit_processor_enabled=False) | {"passes": items, "failures": []})
    assert f"Number format by 213 numbers of the texts: {writer}." in entry.row["notes"]
    found = rows(tmp_path, "SELECT kinds[1] AS kind FROM blocks ORDER BY sample_id LIMIT 2")
    assert [row["kind"] for row in found] == kinds
    run = run_facts(store_in(tmp_path), entry.id)
    assert run.form is not None and number_format(run).words == writer


def test_a_tokenizer_can_be_given(tmp_path: Path) -> None:
    row = imported(tmp_path, document(tokenizer_name="another"), tokenizer="llama3").row
    assert (row["tokenizer"], row["vocab_size"]) == ("llama3", 128_330)
    assert rows(tmp_path, "SELECT DISTINCT template_free FROM blocks") == [{"template_free": 14}]
    with pytest.raises(TokenizerError):
        import_report(store_in(tmp_path / "other"), tmp_path / "run.json", tokenizer="no such one")


@given(enriched_texts(small_molecules()), seeds())
@settings(max_examples=sized(12, 150))
def test_free_text_is_read_as_aligned(tmp_path_factory: pytest.TempPathFactory, one: Written, seed: int) -> None:
    """Without an LP, ids that the text tokenises to give the same blocks and the same check."""
    folder = tmp_path_factory.mktemp("free")
    text = f"[CONFORMER]{one.text if seed % 2 else damaged(one.text, seed)}[/CONFORMER]"
    decoded = f"[SMILES]{one.molecule.smiles}[/SMILES]{text}"
    before, kept, after = split_text(decoded, one.molecule.smiles)
    assert before + kept + after == decoded
    imported(folder, one_text(decoded, one.molecule.smiles, logit_processor_enabled=False))
    tokenizer = load_tokenizer("qwen3")
    template = build_template(one.text, tokenizer, tags=True)
    expected = align(template, tokenizer.encode(kept), tokenizer).blocks
    names = ("block", "atom", "element", "text", "x", "y", "z", "template_free", "needed", "drift", "junk_text")
    found = rows(folder, f"SELECT {', '.join(names)}, kinds FROM blocks ORDER BY block")
    assert [tuple(row[name] for name in names) for row in found] == [
        tuple(getattr(block, name) for name in names) for block in expected
    ]
    assert [tuple(row["kinds"]) for row in found] == [block.kinds for block in expected]


@pytest.mark.parametrize(
    ("decoded", "expected"),
    [
        (f"{PROMPT}{CLEAN}", (PROMPT, CLEAN, "")),
        (f"<pad><pad>{PROMPT}\n{CLEAN}<|endoftext|>\n</s>", (f"<pad><pad>{PROMPT}\n", CLEAN, "<|endoftext|>\n</s>")),
        (CLEAN, ("", CLEAN, "")),
        (f"CC=O {CLEAN}", ("CC=O ", CLEAN, "")),
        ("CC=O[C]<1.0,2.0,3.0>", ("CC=O", "[C]<1.0,2.0,3.0>", "")),
        (f"{PROMPT}amen{CLEAN}", (PROMPT, f"amen{CLEAN}", "")),
        (f"{PROMPT}[CONFORMER][C]<1[/SMILES]", (PROMPT, "[CONFORMER][C]<1[/SMILES]", "")),
        (f"{PROMPT}[CONFORMER][C]<|im_start|>x", (PROMPT, "[CONFORMER][C]<|im_start|>x", "")),
        (f"{PROMPT}<|endoftext|>", (PROMPT, "", "<|endoftext|>")),
        ("", ("", "", "")),
        ("<|endoftext|>", ("", "", "<|endoftext|>")),
    ],
)
def test_the_answer_is_cut_out_of_the_text(decoded: str, expected: tuple[str, str, str]) -> None:
    assert split_text(decoded, "CC=O") == expected


def test_a_prompt_in_another_order_is_followed(tmp_path: Path) -> None:
    text = "[CONFORMER][O]<1.0,2.0,3.0>=[C]<1.0,2.0,3.0>[C]<0.5,-0.25,3.0>[/CONFORMER]"
    sample = sample_of(tmp_path, one_text(f"[SMILES]O=CC[/SMILES]{text}", "O=CC"))
    assert sample["smiles"] == "CC=O"
    assert (sample["passed"], sample["exact_match"], sample["clean"]) == (True, True, True)
    elements = rows(tmp_path, "SELECT atom, element FROM blocks ORDER BY block")
    assert [(element["atom"], element["element"]) for element in elements] == [(0, "O"), (1, "C"), (2, "C")]


def test_a_prompt_that_cannot_be_read_keeps_its_sample(tmp_path: Path) -> None:
    prompts = ["not a molecule", "C1CC", "[C]", "C" * 5_000, "C\ud800", "(" * 500]
    items = [{"prompt_smiles": smiles, "decoded_text": f"[SMILES]{smiles}[/SMILES]{CLEAN}"} for smiles in prompts]
    imported(tmp_path, document() | {"passes": items, "failures": []})
    samples = rows(tmp_path, "SELECT * FROM samples ORDER BY sample_id")
    assert [sample["smiles"] for sample in samples] == [smiles.replace("\ud800", "�") for smiles in prompts]
    for sample in samples:
        assert (sample["text"], sample["passed"], sample["issues"]) == (CLEAN, False, [PROMPT_NOT_READ])
        assert sample["atoms"] is sample["heavy_atoms"] is None and sample["blocks"] == 3
        assert json.loads(sample["extra"])["reported_passed"] is True
    assert rows(tmp_path, "SELECT DISTINCT atom, template_free FROM blocks") == [{"atom": -1, "template_free": None}]


def test_damage_that_the_groups_reader_takes_is_counted_and_measured(tmp_path: Path) -> None:
    content = document() | {"failures": []}
    damaged = CLEAN.replace(">[/", "(cc6>[/")
    assert damaged != CLEAN
    texts = (CLEAN, damaged, CLEAN.replace(">[/", "(cc>[/"), CLEAN.replace(">[/", ",>[/"))
    content["passes"] = [content["passes"][0] | {"decoded_text": f"[SMILES]CC=O[/SMILES]{text}"} for text in texts]
    row = imported(tmp_path, content).row
    assert [row[name] for name in ("samples", "passes", "decodes", "clean", "misread_blocks")] == [4, 4, 3, 1, 1]
    (z,) = {float(one["z"]) for one in rows(tmp_path, "SELECT z FROM blocks WHERE block = 2 AND sample_id < 3")}
    assert row["misread_most_ang"] == pytest.approx(abs(6 - z))
    assert rows(tmp_path, "SELECT count_if(decodes) AS n FROM samples") == [{"n": 3}]


def test_a_file_is_held_against_our_check_of_the_rule_that_it_goes_by(tmp_path: Path) -> None:
    """Junk without a number passes and does not decode."""
    item = document()["passes"][0] | {"decoded_text": f"[SMILES]CC=O[/SMILES]{CLEAN.replace('>[/', ',>[/')}"}
    for version, listed, rule, expected in (
        ("v3.8", "failures", "the reports' rule (passed)", "of 1 samples our check of passed says otherwise"),
        ("v3.8", "passes", "the reports' rule (passed)", ""),
        ("v3.9", "failures", "the runner's rule (decodes)", ""),
        ("4.3.1", "passes", "the runner's rule (decodes)", "of 1 samples our check of decodes says otherwise"),
        ("", "passes", "a rule that it does not name", ""),
    ):
        content = document(version=version) | {"passes": [], "failures": []} | {listed: [item]}
        notes = imported(tmp_path / f"{version}-{listed}", content).row["notes"]
        assert expected in notes and ("otherwise" in notes) == bool(expected)
        assert f"The file has {int(listed == 'passes')} passes, by {rule}" in notes


def test_our_check_counts_and_the_files_verdict_is_kept(tmp_path: Path) -> None:
    content = document()
    wrong = content["passes"].pop(0) | {"issues": ["their own words"]}
    content["failures"][0]["decoded_text"] = f"[SMILES]CCO[/SMILES]{CLEAN}"
    content["passes"].append(content["failures"].pop())
    content["failures"].append(wrong)
    row = imported(tmp_path, content).row
    assert row["passes"] == 2
    assert "2 passes" in row["notes"] and "by the reports' rule" in row["notes"]
    assert (row["reported_passes"], row["reported_failures"]) == (2, 1)
    mine = {one["sample_id"]: one for one in rows(tmp_path, "SELECT sample_id, passed, issues, extra FROM samples")}
    assert [mine[number]["passed"] for number in range(3)] == [True, False, True]
    assert mine[1]["issues"] == [MISMATCH]
    assert json.loads(mine[1]["extra"])["reported_passed"] is True
    assert json.loads(mine[2]["extra"]) == {"reported_passed": False}
    assert "reported_passed" not in json.loads(mine[0]["extra"] or "{}")


def test_a_failure_may_have_no_text(tmp_path: Path) -> None:
    content = document() | {"passes": [], "failures": [{"prompt_smiles": "CC=O", "issues": ["out of memory"]}]}
    sample = sample_of(tmp_path, content)
    assert (sample["text"], sample["passed"], sample["issues"]) == ("", False, [NO_CONFORMER])
