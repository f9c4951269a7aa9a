"""Several conformers in one answer, on both backends and in plain ``generate``: judged by RDKit and by Hugging Face."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rdkit import Chem

from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation, conformers_of
from engine.decode.plan import BackendName, Plan, default_limit, preset
from engine.errors import ConstraintError, FileError
from engine.lp.constraint import LpParameters
from engine.lp.processor import logits_processor
from engine.models.loading import LoadedModel, load_model
from engine.models.registry import entry_of_folder
from engine.records import NumberFormat
from engine.text.examples import count_conformers, count_examples, examples_of, read_examples
from tests.small_models import small_folder

FORM = NumberFormat(1, 2, 1)
MOLECULES = [parse_smiles(smiles) for smiles in ("CC=O", "C[NH3+]")]
WRITERS: tuple[BackendName, ...] = ("fast", "hf")
EXAMPLES = "[SMILES]C[/SMILES][CONFORMER][C]<0.0,0.0,0.0>[/CONFORMER][CONFORMER][C]<1.0,0.0,0.0>[/CONFORMER]"
_TEXT = re.compile(r"\[CONFORMER\](.*?)\[/CONFORMER\]")
_BLOCK = re.compile(r"<(-?\d+\.\d+),(-?\d+\.\d+),(-?\d+\.\d+)>")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder: Path = small_folder(tmp_path_factory.mktemp("model"), "qwen3")
    return load_model(entry_of_folder(folder, "qwen3"), "cpu")


def molecules_in(text: str) -> Iterator[tuple[str, int]]:
    """By RDKit alone: of each whole conformer its canonical SMILES, and how many blocks of three numbers it has."""
    assert not _TEXT.sub("", text), "nothing but whole conformers"
    for conformer in _TEXT.findall(text):
        blocks = _BLOCK.findall(conformer)
        bare = re.sub(r"\[([A-Za-z])\]", r"\1", _BLOCK.sub("", conformer))
        yield Chem.CanonSmiles(bare), len(blocks)


@pytest.mark.parametrize("backend", WRITERS)
def test_exact_writes_as_many_whole_conformers_as_are_asked_for(loaded: LoadedModel, backend: Any) -> None:
    plan = Plan(form=FORM, conformers=3, backend=backend, sampling=preset("p1.0_t1.4"), generations=2)
    generation = Generation(loaded, MOLECULES, plan)
    samples = generation.run()
    for sample in samples:
        expected = Chem.CanonSmiles(sample.smiles), sample.atoms
        assert list(molecules_in(sample.text)) == [expected] * 3
        assert sample.stop_reason == "end"
        check = sample.check
        assert (check.conformers, check.clean, check.clean_each) == (3, True, (True,) * 3)
        assert [block.conformer for block in sample.blocks] == [n for n in (1, 2, 3) for _ in range(sample.atoms)]
        assert [block.atom for block in sample.blocks] == [*range(sample.atoms)] * 3
    assert len({sample.text for sample in samples}) > 2, "the model chooses the numbers"
    assert len(conformers_of(generation, "strict")) == 12


def test_both_backends_write_the_same(loaded: LoadedModel) -> None:
    plans = [
        Plan(lp=lp, form=FORM, conformers=2, limit=limit, sampling=preset("p1.0_t1.0"), examples=examples)
        for lp, limit in (("exact", None), ("group-conformers", 80), ("group-conformers-open", 60))
        for examples in ("", EXAMPLES)
    ]
    for plan in plans:
        fast, hf = (Generation(loaded, MOLECULES, replace(plan, backend=name)).run() for name in WRITERS)
        assert [sample.token_ids for sample in fast] == [sample.token_ids for sample in hf], plan.lp


def test_its_ids_are_what_the_hugging_face_tokenizer_makes_of_its_text(loaded: LoadedModel) -> None:
    for sample in Generation(loaded, MOLECULES, Plan(form=FORM, conformers=2)).run():
        again = loaded.tokenizer.backend.encode(sample.text, add_special_tokens=False).ids
        assert [*again, loaded.tokenizer.end_id] == list(sample.token_ids)


def test_the_processor_writes_several_in_plain_generate(loaded: LoadedModel) -> None:
    smiles, end = [molecule.smiles for molecule in MOLECULES], loaded.tokenizer.end_id
    ids = [loaded.tokenizer.encode(f"[SMILES]{text}[/SMILES]") for text in smiles]
    width = max(map(len, ids))
    parameters = LpParameters(form=FORM, conformers=2)
    given = logits_processor("exact", smiles, "qwen3", loaded.vocab_rows, parameters)
    model: Any = loaded.model
    written = model.generate(
        input_ids=torch.tensor([[end] * (width - len(row)) + row for row in ids]),
        attention_mask=torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids]),
        logits_processor=[given], do_sample=True, max_new_tokens=400, eos_token_id=end, pad_token_id=end,
    )  # fmt: skip
    for row, molecule in zip(written[:, width:].tolist(), MOLECULES, strict=True):
        text = loaded.tokenizer.decode(row[: row.index(end)])
        assert list(molecules_in(text)) == [(Chem.CanonSmiles(molecule.smiles), molecule.atoms)] * 2


def test_limits_grow_as_the_groups_do_and_exact_loses_nothing_at_one(loaded: LoadedModel) -> None:
    assert [Plan("none", conformers=k).limit_of(20) for k in (1, 2, 3, 8)] == [default_limit(20), 1300, 1950, 5000]
    assert Plan("group-conformers", conformers=2, limit=7).limit_of(20) == 7
    assert Plan("exact", conformers=8).limit_of(20) == 8 * default_limit(20)
    with pytest.raises(
        ConstraintError, match=r"may take [\d,]+ tokens .* the model's context is [\d,]+\. Ask for fewer"
    ):
        Generation(loaded, [parse_smiles("C" * 30)], Plan(conformers=64))


@pytest.mark.parametrize("lp", ["shaped", "guarded", "truncating", "group-v4.3"])
def test_lps_that_write_one_say_so_in_one_line(lp: str) -> None:
    with pytest.raises(ConstraintError, match=f"the LP {lp} writes one conformer per answer. Use one of none, exact"):
        Plan(lp, conformers=2)


def test_examples_are_part_of_the_prompt_and_no_part_of_the_answer(loaded: LoadedModel) -> None:
    generation = Generation(loaded, MOLECULES, Plan(form=FORM, conformers=2, examples=EXAMPLES))
    prompt = loaded.tokenizer.decode(generation.requests[0].prompt)
    assert prompt == f"{EXAMPLES}[SMILES]CC=O[/SMILES]"
    for sample in generation.run():
        assert list(molecules_in(sample.text)) == [(Chem.CanonSmiles(sample.smiles), sample.atoms)] * 2


def test_group_conformers_says_that_examples_use_up_its_target(loaded: LoadedModel) -> None:
    generation = Generation(loaded, MOLECULES, Plan("group-conformers", conformers=2, examples=EXAMPLES))
    assert [sample.tokens for sample in generation.run()] == [1, 1]
    assert "counts the 2 conformers of the prompt's examples too" in generation.counters.notes[0]


def test_a_file_of_examples_is_read_and_lines_between_its_tags_are_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "examples.txt"
    file.write_text(
        EXAMPLES.replace("][CONF", "]\n  [CONF") + "\n\n[SMILES]O[/SMILES][CONFORMER][O]<0,0,0>[/CONFORMER]\n"
    )
    read = read_examples(file)
    assert read == f"{EXAMPLES}[SMILES]O[/SMILES][CONFORMER][O]<0,0,0>[/CONFORMER]"
    assert (count_examples(read), count_conformers(read)) == (2, 3)


@pytest.mark.parametrize("text", ["", "CCO", "[SMILES]C[/SMILES]", f"{EXAMPLES}[SMILES]C[/SMILES]", f"{EXAMPLES} more"])
def test_a_file_that_is_no_examples_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(FileError, match="example"):
        examples_of(text)
