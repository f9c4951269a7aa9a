"""Report files into the store: what lands where, what is kept, and what is refused with its place."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from engine.errors import DriftscopeError, FileError, RunError, TokenizerError
from engine.inspection.runs import number_format, run_facts
from engine.store.files import ASIDE
from engine.store.reports import importing
from engine.store.reports.importing import (
    PROMPT_NOT_READ,
    family_of,
    import_report,
    read_item,
    read_run,
    split_text,
    tokenizer_of,
)
from engine.store.schema import RUN
from engine.store.staging import Staging
from engine.store.store import Store
from engine.text.align import align
from engine.text.blocks import RULES
from engine.text.check import NO_CONFORMER
from engine.text.template import build_template
from engine.text.tokenizers import load_tokenizer
from tests.engine.store.reports.documents import (
    CLEAN,
    PROMPT,
    document,
    file_of,
    imported,
    one_text,
    rows,
    sample_of,
    store_in,
)
from tests.strategies import Written, damaged, enriched_texts, seeds, small_molecules
from tests.support import sized

# --- what lands where ---------------------------------------------------------------------------------------------


def test_each_known_key_lands(tmp_path: Path) -> None:
    row = dict(imported(tmp_path, document(), label="mine").row)
    assert row.pop("created_at").isoformat() == "2025-12-13T10:20:30+00:00"
    extra = json.loads(row.pop("extra"))
    assert row.pop("run_id").startswith("imported-")
    assert row.pop("notes") == "The file has 2 passes, by the reports' rule (passed)."
    assert row == {
        "origin": "imported",
        "source": "run.json",
        "label": "mine",
        "model_alias": "qwen3_06b_pre",
        "model_step": "40k",
        "model_family": "Qwen",
        "tokenizer": "qwen3",
        "vocab_size": 151_673,
        "lp": "group-v3.8",
        "placeholder": "0.0000,0.0000,0.0000",
        "descriptors": "with-hydrogens",
        "sampling": "p0.8_t1.2",
        "temperature": 1.2,
        "top_p": 0.8,
        "min_p": 0.0,
        "batch_size": 32,
        "generations": 1,
        "kv_cache": "dynamic",
        "attention": "sdpa",
        "molecules": 2,
        "samples": 3,
        "counted_by": RULES,
        "passes": 2,
        "decodes": 1,
        "clean": 1,
        "conformers": 3,
        "passed_conformers": 2,
        "clean_conformers": 1,
        "blocks": 9,
        "bad_blocks": 3,
        "cut_blocks": 1,
        "misread_blocks": 1,
        "misread_most_ang": pytest.approx(1.5858),
        "reported_passes": 2,
        "reported_failures": 1,
        "unverified_blocks": 6,
        "junk_letters": 1,
        "junk_nonnumeric": 2,
        "wall_s": 115.46,
        "chars_raw": 48_815,
        "chars_clean": 48_810,
    }
    columns = {"timestamp", "model_alias", "model_step", "tokenizer_name", "sampling", "batch_size", "num_generations"}
    columns |= {"total_generations", "kv_cache", "attention"}
    assert extra["metadata"] == {key: value for key, value in document()["metadata"].items() if key not in columns}
    assert extra["throughput_chars_per_sec"] == 422.7


def test_totals_that_a_file_lacks_are_counted(tmp_path: Path) -> None:
    content = {"passes": document()["passes"]}
    row = imported(tmp_path, content).row
    texts = [item["decoded_text"].removeprefix(PROMPT).split("<|")[0] for item in content["passes"]]
    assert row["chars_raw"] == row["chars_clean"] == sum(map(len, texts))
    assert row.get("wall_s") is None and row.get("lp") is None and row.get("created_at") is None
    assert (row["reported_passes"], row.get("reported_failures")) == (2, None)


def test_unknown_keys_are_kept(tmp_path: Path) -> None:
    content = document(gpu="H100", nested={"a": [1]}, nan="A", far="B", long=10**300) | {"mean_rmsd": 0.6}
    content["passes"][0] |= {"rmsd": 0.25, "flags": ["a"]}
    text = json.dumps(content).replace('"A"', "NaN").replace('"B"', "1e999")
    extra = json.loads(imported(tmp_path, text.encode()).row["extra"])
    assert extra["mean_rmsd"] == 0.6
    kept = {"gpu": "H100", "nested": {"a": [1]}, "nan": None, "far": None, "long": 10**300}
    assert kept.items() <= extra["metadata"].items(), "a number that no float holds is null"
    samples = rows(tmp_path, "SELECT extra->>'rmsd' AS rmsd, extra->'flags' AS flags FROM samples WHERE sample_id = 0")
    assert samples == [{"rmsd": "0.25", "flags": '["a"]'}]


def test_several_generations_of_a_prompt(tmp_path: Path) -> None:
    content = document(num_generations=3)
    item = content["passes"][1]
    item["all_generations"] = [f"{PROMPT}{CLEAN}", item["decoded_text"], {"decoded_text": f"{PROMPT}[CON", "score": 3}]
    row = imported(tmp_path, content).row
    assert (row["samples"], row["generations"], row["molecules"], row["passes"]) == (5, 3, 2, 3)
    samples = rows(tmp_path, "SELECT sample_id, generation, text, extra FROM samples WHERE sample_id BETWEEN 1 AND 3")
    assert [(sample["sample_id"], sample["generation"]) for sample in samples] == [(1, 0), (2, 1), (3, 2)]
    assert [sample["text"] for sample in samples] == [CLEAN, item["decoded_text"].removeprefix(PROMPT), "[CON"]
    assert samples[1]["extra"] is None and json.loads(samples[2]["extra"]) == {"score": 3}


# --- single values ------------------------------------------------------------------------------------------------


def lp(processor: str | None, version: str | None, expected: str | None, **more: Any) -> tuple[Any, Any]:
    return {"processor_type": processor, "version": version, **more}, {"lp": expected}


QWEN3 = {"sampling": "qwen3", "temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.0}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        lp("generic", None, "group-v2.1"),
        lp("qwen", "v3.8", "group-v3.8"),
        lp("Qwen", "3.9", "group-v3.9"),
        lp("qwen", "qwen_v43", "group-v4.3"),
        lp("qwen", "v3.7", None),
        lp("qwen", "v3.8", "none", logit_processor_enabled=False),
        lp("group-v4.3+cleanup", None, "group-v4.3+cleanup"),
        lp("another", None, None),
        ({"timestamp": "2025-12-13 10:20:30.5+02:00"}, {"created_at": "2025-12-13T08:20:30.500000+00:00"}),
        ({"timestamp": "20251213_102030"}, {"created_at": "2025-12-13T10:20:30+00:00"}),
        ({"timestamp": 1_765_621_230}, {"created_at": "2025-12-13T10:20:30+00:00"}),
        *(({"timestamp": said}, {"created_at": None}) for said in ("0001-01-01T00:00:00+14:00", 1e300, "now", True)),
        ({"sampling": "greedy"}, {"sampling": "greedy", "temperature": 0.0, "top_p": 1.0, "min_p": 0.0}),
        ({"sampling": "qwen3"}, QWEN3),
        ({"sampling": "our own"}, {"sampling": "our own", "temperature": None}),
        ({"sampling": {"top_k": 5, "temperature": 1}}, {"sampling": '{"temperature":1,"top_k":5}', "top_k": 5}),
        ({"sampling": {"top_k": 2**63}}, {"sampling": f'{{"top_k":{2**63}}}', "top_k": None}),
    ],
)
def test_single_values(metadata: dict[str, Any], expected: dict[str, Any]) -> None:
    content = document(**metadata)
    row = read_run(content, [read_item(content["passes"][0], "passes", 0)]).row
    assert {key: row.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "family", "tokenizer"),
    [
        ("Qwen3_custom", "Qwen", "qwen3"),
        ("LLaMA-3.2-chem", "LLaMA", "llama3"),
        ("m380_conf_v2", "LLaMA", None),
        ("qwen2.5", "Qwen", None),
        ("gpt2", None, None),
    ],
)
def test_families_and_tokenizers_by_name(name: str, family: str | None, tokenizer: str | None) -> None:
    assert (family_of(name), tokenizer_of(name)) == (family, tokenizer)


# --- what is refused, and where -----------------------------------------------------------------------------------


def changed(path: str, value: Any) -> dict[str, Any]:
    """The document with another value at a place such as ``passes.1.decoded_text``."""
    content: Any = document()
    parent = content
    *above, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    for part in above:
        parent = parent[part]
    parent[last] = value
    return content


def texts_of(*answers: str) -> dict[str, Any]:
    """A report of two samples that wrote these."""
    texts = [f"[SMILES]C=O[/SMILES][CONFORMER]{answer}[/CONFORMER]" for answer in (answers * 2)[:2]]
    return {"metadata": {}, "passes": [{"decoded_text": text} for text in texts], "failures": []}


SUMMARY = {
    "metadata": {"generated_at": "2025-12-12T10:00:00", "log_file": "logs.txt", "lp_json": "lp.json"},
    "log_failures": {"total_events": 1, "unique_smiles": 1, "by_reason": {"mismatch": 1}},
    "intersections": {"lp_caught_failures": []},
    "misses": {"lp_missed_failures": [{"smiles": "C=O", "log_reason": "mismatch", "lp_status": "pass"}]},
    "lp_only": {"lp_new_failures": []},
}
FAILED = f"""Failed Numerical Validation Generations - Step 200
Total failures: 1
{80 * "="}

--- Failure #1 ---
SMILES: C=O

Full Generated String:
[SMILES]C=O[/SMILES][CONFORMER][C]121129129;

Fail Type: no_eos
"""
FAILED_LINES = f"""Failed Numerical Validation Generations - Step 200
Total failures: 1
Format: Prompt | error code | generated text
{80 * "="}
C=O | mismatch | [SMILES]C=O[/SMILES][CONFORMER][C]<1.0,2.0,3.0>[/CONFORMER]
"""


WHOLE = gzip.compress(json.dumps(document()).encode())
DAMAGED: list[tuple[Any, str]] = [
    (b"", "it ends early: Expecting value: line 1 column 1"),
    (b'{"passes": [\n  {"a": 1},\n  {"a" 2}]}', "it is no report: Expecting ':' delimiter: line 3 column 8"),
    (b'{"events": []}', "it has no passes and no failures"),
    (texts_of("C<1.0,2.0,3.0>=O<0.5,2.0,3.0>"), "2 of its 2 texts are legacy text, an older format"),
    (texts_of("[C]121129129;=[O]100102098;"), "2 of its 2 texts are text of bins, another number format"),
    (texts_of("[C]<123>=<45>[O]<678>"), "2 of its 2 texts are text of codes, another format"),
    (texts_of("[C]<0512,0498,0501>=[O]<0513,0498,0501>"), "2 of its 2 texts are binned text"),
    (
        texts_of("C<1.0,2.0,3.0>=O<0.5,2.0,3.0>", "[C]<1.0,2.0,3.0>=[O]<0.5,2.0,3.0>"),
        "1 of its 2 texts are legacy text, an older format: atoms have no brackets of their own (O<...>), the others",
    ),
    (b"\xff\xfe{\x00", "can't decode byte 0xff in position 0"),
    (WHOLE[:-20], "no whole gz file"),
    (WHOLE[:100] + bytes(50) + WHOLE[150:], "no whole gz file"),
    (changed("metadata", "none"), "`$.metadata`"),
    (changed("passes.0.decoded_text", None), "passes[0] has no decoded_text"),
    (changed("failures.0.prompt_smiles", ["C"]), "`$.failures[0].prompt_smiles`"),
    (changed("passes.0.all_generations", ["C", None]), "`$.passes[0].all_generations[1]`"),
    (changed("metadata.batch_size", 1.5), "`$.metadata.batch_size`"),
    (changed("metadata.placeholder", "<>"), "the placeholder"),
    (changed("total_chars_raw", 10**30), "`$.total_chars_raw`"),
    (changed("passes.0", {"decoded_text": CLEAN}), "passes[0] has no prompt_smiles, and none in its decoded_text"),
]


@pytest.mark.parametrize(("content", "where"), DAMAGED, ids=[where[:40] for _, where in DAMAGED])
def test_a_damaged_file_says_where(content: Any, where: str, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    with pytest.raises(FileError) as caught:
        import_report(store, file_of(tmp_path, content))
    assert where in str(caught.value) and "run.json" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert store.listing().entries == () and not (tmp_path / "store").exists()


def test_too_large_a_file_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "MOST_BYTES", 1_000_000)
    with pytest.raises(FileError, match="holds over"):
        import_report(store_in(tmp_path), file_of(tmp_path, gzip.compress(b" " * 50_000_000), "bomb.json"))


@given(seeds())
@settings(max_examples=sized(25, 200))
def test_whatever_is_in_a_file_the_answer_is_a_run_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = random.Random(seed)
    folder = tmp_path_factory.mktemp("any")
    content: Any = document()
    for _ in range(rng.randrange(1, 4)):
        _put_anywhere(content, rng)
    raw: Any = content
    if rng.random() < 0.3:
        raw = damaged(json.dumps(content), seed).encode("utf-8", "replace")
    try:
        imported(folder, raw)
    except DriftscopeError:
        assert store_in(folder).listing().entries == ()
    else:
        assert len(rows(folder, "SELECT * FROM samples")) == rows(folder, "SELECT samples FROM runs")[0]["samples"]


VALUES: tuple[Any, ...] = (0, -7, 2.5, True, None, "", "text（的", [1, "a", None], {"a": {"b": []}}, 10**25, "\ud800")


def _put_anywhere(content: Any, rng: random.Random) -> None:
    """Another value at some place of the document."""
    while content:
        key = rng.choice(list(content) if isinstance(content, dict) else list(range(len(content))))
        if not isinstance(content[key], dict | list) or not content[key] or rng.random() < 0.2:
            content[key] = rng.choice(VALUES)
            return
        content = content[key]


# --- once, whole, and of many -------------------------------------------------------------------------------------


def test_importing_twice_adds_nothing(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    first = import_report(store, file_of(tmp_path, document()))
    packed = file_of(tmp_path, document(), "packed.json.gz").rename(tmp_path / "packed.json")  # known by its content
    for path in (file_of(tmp_path, document(), "again.json"), packed):
        assert import_report(store, path).id == first.id
    assert len(store.listing().entries) == 1 and len(store.rows("SELECT * FROM samples")) == 3
    other = import_report(store, file_of(tmp_path, document(model_step="41k"), "other.json"))
    assert other.id != first.id and len(store.listing().entries) == 2
    joined = Store(store_in(tmp_path / "own").home, (store.home,))
    assert import_report(joined, packed).files is store.home and not joined.home.folders(RUN.folder)


def test_half_characters_do_not_stop_an_import(tmp_path: Path) -> None:
    text = f"{PROMPT}[CONFORMER][C]<1.0,2.0,3.0\ud83d>[C]<1.0,2.0,3.0🙂>=[O]<1.0,2.0,3.0>[/CONFORMER]"
    imported(tmp_path, one_text(text))
    junk = rows(tmp_path, "SELECT junk_text FROM blocks ORDER BY block")
    assert [row["junk_text"] for row in junk] == ["�", "🙂", ""]


def test_many_samples_come_in_groups_and_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importing, "GROUP", 4)
    content = document()
    content["passes"] = [content["passes"][number % 2] | {"number": number} for number in range(10)]
    calls: list[tuple[int, int]] = []
    row = imported(tmp_path, content, progress=lambda done, share, samples: calls.append((done, samples))).row
    assert calls == [(done, 11) for done in range(1, 12)]
    assert (row["samples"], row["blocks"], row["molecules"]) == (11, 33, 2)
    samples = rows(tmp_path, "SELECT sample_id, extra->>'number' AS number FROM samples")
    assert [(s["sample_id"], s["number"]) for s in samples] == [*((n, str(n)) for n in range(10)), (10, None)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, DriftscopeError])
def test_what_crashed_or_was_killed_leaves_nothing_and_what_is_at_it_is_left_alone(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "GROUP", 1)
    store, path = store_in(tmp_path), file_of(tmp_path, document())

    def stop(done: int, _: float, samples: int) -> None:
        if done == 2:
            raise error("stop")

    with pytest.raises(error):
        import_report(store, path, progress=stop)
    assert store.listing().entries == () and store.home.folders(ASIDE) == []
    run_id = f"imported-{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}"
    left = Staging.create(store.home, RUN, run_id, {"origin": "imported"})
    store.home.write(f"{left.folder}/samples-0000-00007.parquet", b"half")
    left.lock()
    with pytest.raises(RunError, match="being written by another process"):
        import_report(store, path)
    assert store.home.folders(ASIDE) == [left.id]
    left.release()
    assert import_report(store, path).parts["samples"].rows == 3
    assert store.home.folders(ASIDE) == []


# --- the texts -----------------------------------------------------------------------------------------------------


def test_drift_is_told_where_the_model_ended_its_numbers(tmp_path: Path) -> None:
    imported(tmp_path, document())
    blocks = rows(tmp_path, "SELECT kinds, template_free, needed, drift FROM blocks WHERE sample_id < 2 ORDER BY ALL")
    assert [(block["kinds"][0], block["template_free"], block["needed"], block["drift"]) for block in blocks] == [
        ("letters", 20, 19, 1),
        ("punctuation", 20, 18, 2),
        ("trailing_mark", 20, None, None),
        *[("unverified", 20, None, None)] * 3,
    ]


def test_without_a_known_tokenizer_or_lp_there_is_no_drift(tmp_path: Path) -> None:
    for number, more in enumerate(({"tokenizer_name": "another"}, {"version": "v9.9"})):
        entry = imported(tmp_path / str(number), document(**more))
        blocks = rows(tmp_path / str(number), "SELECT DISTINCT template_free, needed, drift FROM blocks")
        assert blocks == [{"template_free": None, "needed": None, "drift": None}]
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
    blocks = rows(tmp_path, "SELECT kinds[1] AS kind FROM blocks ORDER BY sample_id LIMIT 2")
    assert [row["kind"] for row in blocks] == kinds
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
def test_free_text_is_read_as_aligned(tmp_path_factory: pytest.TempPathFactory, written: Written, seed: int) -> None:
    """Without an LP, ids that the text tokenises to give the same blocks and the same check."""
    folder = tmp_path_factory.mktemp("free")
    text = f"[CONFORMER]{written.text if seed % 2 else damaged(written.text, seed)}[/CONFORMER]"
    decoded = f"[SMILES]{written.molecule.smiles}[/SMILES]{text}"
    before, kept, after = split_text(decoded, written.molecule.smiles)
    assert before + kept + after == decoded
    imported(folder, one_text(decoded, written.molecule.smiles, logit_processor_enabled=False))
    tokenizer = load_tokenizer("qwen3")
    template = build_template(written.text, tokenizer, tags=True)
    expected = align(template, tokenizer.encode(kept), tokenizer).blocks
    names = ("block", "atom", "element", "text", "x", "y", "z", "template_free", "needed", "drift", "junk_text")
    blocks = rows(folder, f"SELECT {', '.join(names)}, kinds FROM blocks ORDER BY block")
    assert [tuple(row[name] for name in names) for row in blocks] == [
        tuple(getattr(block, name) for name in names) for block in expected
    ]
    assert [tuple(row["kinds"]) for row in blocks] == [block.kinds for block in expected]


@pytest.mark.parametrize(
    ("decoded", "expected"),
    [
        (f"{PROMPT}{CLEAN}", (PROMPT, CLEAN, "")),
        (f"<pad><pad>{PROMPT}\n{CLEAN}<|endoftext|>\n</s>", (f"<pad><pad>{PROMPT}\n", CLEAN, "<|endoftext|>\n</s>")),
        (CLEAN, ("", CLEAN, "")),
        (f"CC=O {CLEAN}", ("CC=O ", CLEAN, "")),
        ("CC=O[C]<1.0,2.0,3.0>", ("CC=O", "[C]<1.0,2.0,3.0>", "")),
        (f"{PROMPT}[CONFORMER][C]<1[/SMILES]", (PROMPT, "[CONFORMER][C]<1[/SMILES]", "")),
        (f"{PROMPT}[CONFORMER][C]<|im_start|>x", (PROMPT, "[CONFORMER][C]<|im_start|>x", "")),
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


def test_examples_go_before_the_answer_and_a_trainers_prompt_names_its_molecule(tmp_path: Path) -> None:
    example = f"[SMILES]C=O[/SMILES]{CLEAN}"
    content = one_text(f"{example}{PROMPT}{CLEAN}", "", prompt_smiles=None)
    content["passes"][0] |= {"prompt_smiles": None, "prompt": f"{example}{PROMPT}"}
    sample = sample_of(tmp_path, content)
    assert (sample["smiles"], sample["text"], sample["clean"]) == ("CC=O", CLEAN, True)
    assert json.loads(sample["extra"]) == {"prompt": f"{example}{PROMPT}", "text_before": f"{example}{PROMPT}"}
    assert rows(tmp_path, "SELECT count(*) AS blocks FROM blocks") == [{"blocks": 3}]


def test_texts_of_both_kinds_of_descriptors_are_each_compared_with_their_own(tmp_path: Path) -> None:
    plain = "[CONFORMER][C]<0.1,0.2,0.3>[O]<1.2,-0.5,1.0>[/CONFORMER]"
    texts = [plain, plain.replace("[O]", "[OH]"), plain.replace("[O]", "[OH]")]
    items = [{"prompt_smiles": "CO", "decoded_text": f"[SMILES]CO[/SMILES]{text}"} for text in texts]
    row = imported(tmp_path, document() | {"passes": items, "failures": []}).row
    said = (
        "1 of 3 texts that show it write [O], [N] (plain), where the LP group-v3.8 writes [OH], [NH2] (with-hydrogens)"
    )
    assert (row["descriptors"], row["clean"]) == ("with-hydrogens", 3)
    assert f"{said}: each text is compared with its own." in row["notes"]
    atoms = rows(tmp_path, "SELECT sample_id, list(atom ORDER BY block) AS atoms FROM blocks GROUP BY ALL ORDER BY ALL")
    assert [row["atoms"] for row in atoms] == [[0, 1]] * 3
    contradicted = document(descriptors="plain") | {"passes": items[1:], "failures": []}
    row = imported(tmp_path / "other", contradicted).row
    assert row["descriptors"] == "with-hydrogens" and "metadata.descriptors says [O], [N] (plain)" in row["notes"]


@pytest.mark.parametrize("stated", ["explicit", 5, ["plain"]])
def test_unknown_descriptors_are_named_and_the_texts_tell(stated: Any, tmp_path: Path) -> None:
    said: list[str] = []
    entry = import_report(store_in(tmp_path), file_of(tmp_path, document(descriptors=stated)), warn=said.append)
    assert entry.row["descriptors"] == "with-hydrogens" and len(said) == 1
    for words in (entry.row["notes"], said[0]):
        assert "metadata.descriptors '" in words and "is unknown (known: plain, with-hydrogens)" in words


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
    texts = (CLEAN, CLEAN.replace(">[/", "(cc6>[/"), CLEAN.replace(">[/", "(cc>[/"), CLEAN.replace(">[/", ",>[/"))
    content["passes"] = [content["passes"][0] | {"decoded_text": f"[SMILES]CC=O[/SMILES]{text}"} for text in texts]
    row = imported(tmp_path, content).row
    assert [row[name] for name in ("samples", "passes", "decodes", "clean", "misread_blocks")] == [4, 4, 3, 1, 1]
    (z,) = {float(block["z"]) for block in rows(tmp_path, "SELECT z FROM blocks WHERE block = 2 AND sample_id < 3")}
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


def test_a_failure_may_have_no_text(tmp_path: Path) -> None:
    content = document() | {"passes": [], "failures": [{"prompt_smiles": "CC=O", "issues": ["out of memory"]}]}
    sample = sample_of(tmp_path, content)
    assert (sample["text"], sample["passed"], sample["issues"]) == ("", False, [NO_CONFORMER])
