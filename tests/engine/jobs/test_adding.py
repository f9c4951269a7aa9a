"""A folder becomes an entry of the user's registry, or one line says what is missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from engine.chem.enriched import prompt_of
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.plan import Plan
from engine.errors import DriftscopeError, RegistryError
from engine.jobs.adding import AddRequest, add_checkpoint, lps_of, names_of
from engine.lp.constraint import LpParameters, build_constraint
from engine.models.loading import load_model, summarise
from engine.models.registry import USER_VARIABLE, load_registry, usual_file
from engine.models.registry_file import remove_entry
from engine.models.shipped import WEIGHTS
from engine.records import FIXED4, SHORTEST4, BinFormat, NumberFormat
from engine.text.placeholder import reference_texts
from engine.text.text_form import sample_texts, text_form_of
from engine.text.tokenizers import load_tokenizer
from tests.tiny_checkpoints import TAGS, byte_tokenizer, tiny_checkpoint, write_tokenizer

SMILES = ("CC(C)[C@H](N)C(=O)O", "OCC1CCCCC1", "c1ccc(CN)cc1", "CCCCCCCO", "NC(=O)c1ccncc1", "OC1CCNC1", "CCOC(=O)CN")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    monkeypatch.delenv(USER_VARIABLE, raising=False)


@pytest.fixture
def gemma(tmp_path: Path) -> Path:
    return tiny_checkpoint(tmp_path / "m380" / "checkpoint-2e", "gemma3_text")


def names() -> list[str]:
    return [entry.name for entry in load_registry().entries if entry.folder]


# --- what is added ----------------------------------------------------------------------------------------------------
def test_a_folder_is_registered_and_found_at_once(gemma: Path) -> None:
    added = add_checkpoint(AddRequest(str(gemma)))
    entry = load_registry().find("m380")
    assert (entry.name, entry.folder, entry.source, entry.tokenizer) == (
        "m380:checkpoint-2e",
        gemma,
        usual_file(),
        "own",
    )
    assert entry == added.entry
    facts = summarise(entry)
    assert {name: facts[name] for name in ("family", "backend", "problem", "decimals")} == {
        "family": "Gemma3", "backend": "hf", "problem": "", "decimals": [0, 4],
    }  # fmt: skip
    assert added.lps.keys() >= {"none", "exact", "shaped", "group-v2.1"} and not any(added.lps.values())
    assert any("assumed" in sentence for sentence in added.found)


def test_a_dry_run_and_a_second_entry_of_the_name_write_nothing(gemma: Path) -> None:
    assert add_checkpoint(AddRequest(str(gemma)), dry_run=True).entry.name == "m380:checkpoint-2e"
    assert not usual_file().exists()
    add_checkpoint(AddRequest(str(gemma), alias="mine", step="1"))
    before = usual_file().read_text()
    with pytest.raises(RegistryError, match=r"there is a model mine:1 already, in '.*models.toml'. Choose another"):
        add_checkpoint(AddRequest(str(gemma), alias="mine", step="1"))
    with pytest.raises(RegistryError, match="there is a model demo-qwen:final already"):
        add_checkpoint(AddRequest(str(gemma), alias="demo-qwen", step="final"))
    with pytest.raises(RegistryError, match="`alias` is 'a b', not at most 64 letters"):
        add_checkpoint(AddRequest(str(gemma), alias="a b"))
    assert usual_file().read_text() == before


def test_what_is_asked_for_is_written_as_a_person_would(gemma: Path) -> None:
    request = AddRequest(
        str(gemma), "mine", "1", decimals=(1, 3), integer_digits=2, descriptors="with-hydrogens", dtype="bfloat16",
        notes='says "ü" \\ and 1\ttab',
    )  # fmt: skip
    add_checkpoint(request)
    entry = load_registry().find("mine")
    assert (entry.numbers, entry.descriptors, entry.dtype) == (NumberFormat(1, 3, 2), "with-hydrogens", "bfloat16")
    assert entry.notes == request.notes
    with pytest.raises(DriftscopeError, match="decimals must satisfy"):
        add_checkpoint(AddRequest(str(gemma), "other", decimals=(5, 4)))


def test_both_files_are_read_and_the_named_one_is_written(
    gemma: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_checkpoint(AddRequest(str(gemma), "first"))
    named = tmp_path / "new folder" / "mine.toml"
    monkeypatch.setenv(USER_VARIABLE, str(named))
    add_checkpoint(AddRequest(str(gemma), "second"))
    assert names() == ["second:checkpoint-2e", "first:checkpoint-2e"]
    assert load_registry().find("second").source == named
    remove_entry("first")
    assert names() == ["second:checkpoint-2e"]


def test_removing_keeps_all_else_of_the_file(gemma: Path) -> None:
    for alias in ("a", "b", "c"):
        add_checkpoint(AddRequest(str(gemma), alias))
    path = usual_file()
    path.write_text(path.read_text().replace("[[model]]", "# of ours\n[[model]]  # a table", 1))
    assert remove_entry("b:checkpoint-2e").alias == "b"
    assert names() == ["a:checkpoint-2e", "c:checkpoint-2e"]
    assert "# of ours\n[[model]]  # a table" in path.read_text() and '"b"' not in path.read_text()
    for name, reason in (("nobody", "no model 'nobody' of your own"), ("demo-qwen", "ships with the project")):
        with pytest.raises(RegistryError, match=reason):
            remove_entry(name)
    remove_entry("a")
    remove_entry("c")
    assert names() == []
    path.write_text(f'model = [{{alias = "x", step = "1", tokenizer = "own", folder = "{gemma}"}}]\n')
    with pytest.raises(RegistryError, match=r"is not written table by table. Edit it by hand"):
        remove_entry("x")
    assert names() == ["x:1"]


@pytest.mark.parametrize(
    ("folder", "named"),
    [
        ("/data/m380/2e", ("m380", "2e")),
        ("/data/m380/checkpoint-500", ("m380", "checkpoint-500")),
        ("/data/Gemma 3 (ours)", ("Gemma-3-ours", "final")),
        ("/final", ("final", "final")),
        ("/data/ü", ("checkpoint", "final")),
    ],
)
def test_names_from_a_folder(folder: str, named: tuple[str, str]) -> None:
    assert names_of(Path(folder)) == named


# --- its text form ----------------------------------------------------------------------------------------------------
def texts(form: NumberFormat) -> list[str]:
    """Of conformers by RDKit, as the encoder writes them."""
    return [
        f"{prompt_of(smiles)}[CONFORMER]{text}[/CONFORMER]"
        for smiles in SMILES
        for text in reference_texts(parse_smiles(smiles), form, conformers=2)
    ]


@pytest.mark.parametrize("form", [FIXED4, SHORTEST4, NumberFormat(1, 3, 3)], ids=str)
def test_decimals_are_found_in_a_sample(form: NumberFormat) -> None:
    found = text_form_of(texts(form))
    assert found.numbers is not None
    assert (found.numbers.most_decimals, found.numbers.most_integer_digits) == (form.most_decimals, 2)
    assert found.numbers.least_decimals == (form.least_decimals if form != SHORTEST4 else found.numbers.least_decimals)
    assert found.descriptors == "plain"


def test_a_sample_of_few_numbers_or_of_another_form_is_said_to_be(gemma: Path) -> None:
    few = text_form_of(texts(FIXED4)[:1])
    assert few.numbers is None and "too few" in few.found[0]
    with pytest.raises(DriftscopeError, match=r"text of bins, another number format"):
        text_form_of(["[CONFORMER][C]128130125;[C]100102098;=[O]100102098;[/CONFORMER]"] * 9)
    with pytest.raises(DriftscopeError, match="no text with coordinates"):
        text_form_of(["nothing", "here"])


def test_bins_are_given_and_never_guessed(gemma: Path, tmp_path: Path) -> None:
    (tmp_path / "bins.json").write_text(json.dumps({"mode": "uniform", "L": -10.5, "H": 10.5, "n_bins": 256}))
    given, of_bins = (
        str(tmp_path / "bins.json"),
        ["[SMILES]CO[/SMILES][CONFORMER][C]128130125;[OH]100102098;[/CONFORMER]"],
    )
    with pytest.raises(DriftscopeError, match=r"text of bins, another number format.*Give --bins FILE.json"):
        add_checkpoint(AddRequest(str(gemma)), of_bins)
    with pytest.raises(DriftscopeError, match="texts are of decimals, and bins are given"):
        add_checkpoint(AddRequest(str(gemma), bins=given), texts(FIXED4))
    with pytest.raises(DriftscopeError, match="both bins and decimals are given"):
        add_checkpoint(AddRequest(str(gemma), bins=given, decimals=(0, 4)))
    added = add_checkpoint(AddRequest(str(gemma), bins=given), of_bins)
    entry = load_registry().find("m380")
    assert isinstance(entry.numbers, BinFormat) and (entry.numbers.bins, entry.descriptors) == (256, "with-hydrogens")
    assert added.lps["exact"] == "" and added.reasons
    (sample,) = Generation(load_model(entry, "cpu"), [parse_smiles("CO")], Plan("exact")).run()
    assert sample.check.clean and sample.text.startswith("[CONFORMER][C]") and sample.text.count(";") == 2
    assert add_checkpoint(AddRequest(str(gemma), "older", bins="0.042 21")).entry.numbers.words.startswith("1,000 bins")


def test_an_lp_that_does_not_write_these_bins_says_why_before_it_is_chosen() -> None:
    """LLaMA's tokens of three digits hold the end of one number of four and the beginning of the next."""
    tokenizer = load_tokenizer("llama3")
    entry = SimpleNamespace(numbers=BinFormat.equal(-21, 21, 0.042))
    loaded: Any = SimpleNamespace(entry=entry, tokenizer=tokenizer, vocab_rows=tokenizer.vocab_size)
    reasons = lps_of(loaded)
    problem = "the LP shaped is not for these bins: tokens hold digits of several numbers of 4 digits"
    assert (reasons["shaped"], reasons["exact"], reasons["guarded"]) == (problem, "", "")
    with pytest.raises(DriftscopeError, match=problem):
        build_constraint("shaped", tokenizer, tokenizer.vocab_size, LpParameters(form=entry.numbers))
    entry.numbers = BinFormat.equal(-13, 13, 0.104)  # three digits
    assert lps_of(loaded)["shaped"] == ""


def test_descriptors_with_hydrogens_are_found(gemma: Path) -> None:
    sample = [text.replace("[O]<", "[OH]<", 1) for text in texts(FIXED4) if text.startswith("[SMILES]CCCCCCCO")]
    assert text_form_of(sample).descriptors == "with-hydrogens"
    add_checkpoint(AddRequest(str(gemma)), sample * 20)
    assert load_registry().find("m380").descriptors == "with-hydrogens"
    assert load_registry().find("m380").numbers == NumberFormat(4, 4, 2)


def test_samples_are_read_as_lines_json_and_json_lines(tmp_path: Path) -> None:
    import gzip

    some = texts(FIXED4)[:3]
    (tmp_path / "a.txt").write_text("\n".join(some))
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"id": 1, "text": text}) for text in some))
    (tmp_path / "a.json").write_text(json.dumps({"passes": [{"decoded_text": text} for text in some]}))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("\n".join(some).encode()))
    for name in ("a.txt", "a.jsonl", "a.json", "a.txt.gz"):
        assert sample_texts(tmp_path / name) == some
    (tmp_path / "b.json").write_text("{")
    (tmp_path / "b.txt.gz").write_text("no archive")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe")
    for name in ("b.json", "b.txt.gz", "b.txt", "nothing.txt"):
        with pytest.raises(DriftscopeError, match="cannot be read"):
            sample_texts(tmp_path / name)
    for name, empty in (("c.txt", " \n\n"), ("c.json", '{"passes": []}'), ("c.jsonl", "")):
        (tmp_path / name).write_text(empty)
        with pytest.raises(DriftscopeError, match=f"'{name}' has no text in it"):
            sample_texts(tmp_path / name)


# --- tags of its own --------------------------------------------------------------------------------------------------
OWN_TAGS = ("<smi>", "</smi>", "<conf>", "</conf>")


def own_tokenizer() -> str:
    content = byte_tokenizer()
    for tag, own in zip(TAGS, OWN_TAGS, strict=True):
        content = content.replace(f'"{tag}"', f'"{own}"')
    return content


def test_tokens_that_stand_for_the_tags_are_named_in_the_registry(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "own tags", "gpt_neox", own_tokenizer())
    with pytest.raises(DriftscopeError, match=r"has no token \[SMILES\].*name what stands for the tags"):
        add_checkpoint(AddRequest(str(folder)))
    with pytest.raises(DriftscopeError, match=r"has no added token '<x>', which is to stand for \[SMILES\]"):
        add_checkpoint(AddRequest(str(folder), tags=("<x>", *OWN_TAGS[1:])))
    add_checkpoint(AddRequest(str(folder), tags=OWN_TAGS))
    loaded = load_model(load_registry().find("own-tags"), "cpu")
    generation = Generation(loaded, [parse_smiles("CC=O")], Plan("exact"))
    (sample,) = generation.run()
    assert sample.check.clean and sample.text.startswith("[CONFORMER]")
    plain = Tokenizer.from_str(own_tokenizer())
    text = sample.text.replace("[CONFORMER]", "<conf>").replace("[/CONFORMER]", "</conf>")
    assert plain.encode(text, add_special_tokens=False).ids == list(sample.token_ids[:-1])
    prompt = plain.encode("<smi>CC=O</smi>", add_special_tokens=False).ids
    assert list(generation.requests[0].prompt) == prompt


def test_a_tokenizer_that_was_mended_is_read_again(gemma: Path) -> None:
    whole = (gemma / "tokenizer.json").read_text()
    without_tags(gemma)
    with pytest.raises(DriftscopeError, match=r"has no token \[CONFORMER\]"):
        add_checkpoint(AddRequest(str(gemma)))
    write_tokenizer(gemma, whole)
    assert add_checkpoint(AddRequest(str(gemma))).entry.alias == "m380"


# --- what cannot be used ----------------------------------------------------------------------------------------------
def without(*files: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        for name in files:
            (folder / name).unlink()

    return change


def config(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def without_tensor(folder: Path) -> None:
    tensors = load_file(folder / WEIGHTS)
    tensors.pop("model.layers.1.self_attn.k_proj.weight")
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / WEIGHTS), folder / "pytorch_model.bin")
    (folder / WEIGHTS).unlink()


def adapter(folder: Path) -> None:
    (folder / "config.json").rename(folder / "adapter_config.json")


def larger_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text())
    tokenizer.add_tokens([f"<extra{number}>" for number in range(50)])
    write_tokenizer(folder, tokenizer.to_str())


def without_tags(folder: Path) -> None:
    write_tokenizer(folder, (folder / "tokenizer.json").read_text().replace('"[CONFORMER]"', '"[OTHER]"'))


UNUSABLE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no folder": (shutil.rmtree, "there is no folder"),
    "no config": (without("config.json"), "has no config.json"),
    "an adapter": (adapter, "has no config.json. It holds an adapter: merge it"),
    "no weights": (without(WEIGHTS), "has no model.safetensors"),
    "pickled weights": (pickled, "pickled weights are not loaded"),
    "no causal model": (config(model_type="t5"), "has the model type 't5'. Only causal language models"),
    "another head": (config(architectures=["Gemma3ForSequenceClassification"]), "names 'Gemma3ForSequence.*save that"),
    "its own code": (config(model_type="ours", auto_map={"AutoModelForCausalLM": "a.B"}), "needs its own code"),
    "no tokenizer": (without("tokenizer.json", "tokenizer_config.json"), "has no tokenizer"),
    "no tags": (without_tags, r"has no token \[CONFORMER\]"),
    "too few rows": (larger_tokenizer, "has 319 rows and the tokenizer .* 362 tokens"),
    "a tensor too few": (without_tensor, "has no tensor 'model.layers.1.self_attn.k_proj.weight'"),
    "cut weights": (lambda folder: (folder / WEIGHTS).write_bytes(b"\x10"), "missing or damaged"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_a_folder_that_cannot_be_used_says_what_is_missing(gemma: Path, case: str) -> None:
    change, reason = UNUSABLE[case]
    change(gemma)
    with pytest.raises(DriftscopeError, match=reason) as caught:
        add_checkpoint(AddRequest(str(gemma)))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 500
    assert not usual_file().exists()
