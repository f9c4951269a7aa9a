"""Texts of codes: which are legal, the exact LP over them, and where a decoder puts their atoms."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine.chem import codes
from engine.chem.bin_files import read_bin_file
from engine.chem.codes import WITHOUT_DECODER, codes_from
from engine.chem.enriched import as_decimals, decode
from engine.chem.smiles import parse_smiles
from engine.chem.verdict import CODES, judge_answer
from engine.decode.samples import Reader
from engine.errors import ConstraintError, EnrichedError, FileError
from engine.lp.exact import ExactConstraint
from engine.lp.table import NO_ID
from engine.lp_records import LPS
from engine.records import CodeFormat, read_number_format
from engine.text.blocks import find_blocks, read_blocks
from engine.text.check import check_sample
from engine.text.text_form import text_form_of
from engine.text.tokenizer_build import QWEN_CODES, built_in
from engine.text.tokenizers import TextTokenizer, load_tokenizer
from tests.cli import run_json
from tests.support import ROOT

FORM = CodeFormat(levels=(2,) * 8)
GOOD = "[C]<1>[C]<2>(<3>=<4>[O]<5>)<6>[O]<255>"
ACID = parse_smiles("CC(=O)O")


def text_of(answer: str) -> str:
    return f"[CONFORMER]{answer}[/CONFORMER]"


@pytest.mark.parametrize(
    ("was", "now", "block", "kinds"),
    [
        ("(<3>", "(", 2, ["missing_code"]),
        ("[O]<5>", "[O]", 4, ["missing_code"]),
        ("<3>", "<3><9>", 2, ["doubled_code"]),
        ("<3>", "<3><900>", 2, ["doubled_code", "outside_codes"]),
        ("<255>", "<256>", 6, ["outside_codes"]),
        ("<4>", "<04>", 3, ["outside_codes"]),
        ("<6>", "<six>", 5, ["letters"]),
        ("<4>", "< 4>", 3, ["punctuation"]),
        ("(<3>", "(<3", 2, ["punctuation"]),
        ("[C]<1>", "<7>[C]<1>", 0, ["misplaced_code"]),
        ("[O]<5>", "[O-<5>", 4, ["misplaced_code"]),
        ("=<4>[O]<5>", "=[O]<4><5>", 3, ["missing_code"]),
        ("<3>=<4>", "<3><4>=", 2, ["doubled_code", "misplaced_code"]),
        ("<3>=<4>", "<3><4>=<4>", 2, ["doubled_code"]),
    ],
)
def test_each_damage_has_its_kind_and_its_place(was: str, now: str, block: int, kinds: list[str]) -> None:
    text = text_of(GOOD.replace(was, now, 1))
    found = find_blocks(text, FORM)
    readings = read_blocks(found, form=FORM, lp="none")
    assert list(readings[block].kinds) == kinds
    damaged = [index for index, reading in enumerate(readings) if reading.kinds != ("exact",)]
    assert damaged[0] == block
    check = check_sample(text, ACID, form=FORM)
    assert not check.clean and not check.decodes and f"block {block} is {kinds[0]}" in check.why_not_clean[0]


def test_the_joint_of_a_doubled_code_is_no_junk(tmp_path: Path) -> None:
    file = tmp_path / "codes.json"
    file.write_text('{"mode": "fsq", "levels": [2, 2, 2, 2, 2, 2, 2, 2]}', encoding="utf-8")
    document = run_json("junk", GOOD.replace("<3>", "<3><9>"), f"--bins={file}")
    assert document["kinds"] == {"exact": 6, "doubled_code": 1}
    assert (document["format"], document["letters"], document["nonnumeric"]) == ("codes", 0, 0)
    assert [row.get("junk_text") for row in document["rows"]] == ["", "", "9", "", "", "", ""]
    assert run_json("junk", GOOD.replace("<3>", "<3><x>"), f"--bins={file}")["nonnumeric"] == 1


def test_a_sound_text_is_clean_and_a_cut_one_says_where() -> None:
    check = check_sample(text_of(GOOD), ACID, form=FORM)
    assert check.passed and check.decodes and check.clean and check.exact_match and check.blocks == 7
    assert check.extracted_smiles == "CC(=O)O"
    cut = check_sample("[CONFORMER][C]<1>[C]<2>(<3", ACID, form=FORM)
    assert not cut.passed and cut.why_not_clean[0] == "block 2 is cut: '3'"
    other = check_sample(text_of(GOOD), parse_smiles("CCO"), form=FORM)
    assert not other.passed and not other.clean
    dative = check_sample(text_of("[NH3]<1>-><2>[Fe]<3>"), parse_smiles("[NH3]->[Fe]"), form=FORM)
    assert dative.blocks == 3 and dative.extracted_smiles == "[NH3]->[Fe]" and dative.clean
    other_way = find_blocks("[Fe]<1><-<2>[NH3]<3><-[NH3]<4>", FORM)
    assert [block.content for block in other_way] == ["1", "2", "3", "", "4"]


def test_several_conformers_are_each_checked() -> None:
    two = check_sample(text_of(GOOD) + text_of(GOOD.replace("<3>", "")), ACID, form=FORM)
    assert two.clean_each == (True, False) and two.conformers == 2


def test_a_missing_code_at_a_conformers_end_is_one_of_its_blocks() -> None:
    bare = GOOD.removesuffix("<255>")
    one = check_sample(text_of(bare), ACID, form=FORM)
    assert not one.decodes and one.why_not_clean[0] == "block 6 is missing_code: ''"
    two = check_sample(text_of(bare) + text_of(GOOD), ACID, form=FORM)
    assert two.clean_each == (False, True) and two.blocks == 14
    assert two.why_not_clean == ("conformer 1: block 6 is missing_code: ''",)
    cut = check_sample(f"[CONFORMER]{bare}", ACID, form=FORM)
    assert not cut.decodes and cut.why_not_clean == ("block 6 is cut: ''",)


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    return load_tokenizer(QWEN_CODES)


def test_the_tokenizer_has_the_codes_in_place_of_the_last_ranks(tokenizer: TextTokenizer) -> None:
    """As the group's: `<0>` is 147547 and `<4095>` is 151642; the Hugging Face form cuts alike."""
    assert (tokenizer.vocab_size, tokenizer.id_of("<0>"), tokenizer.id_of("<4095>")) == (151_673, 147_547, 151_642)
    assert tokenizer.id_of("[SMILES]") == 151_669
    other = TextTokenizer("the same", built_in(QWEN_CODES))
    assert other.vocab_size == 151_673
    for text in (text_of(GOOD), text_of("[C@@H]<0>1<4095>[NH2+]<17>"), "[C]<4096>", "Die Straße, 結晶 and </think>"):
        assert tokenizer.encode(text) == other.encode(text)


@pytest.mark.parametrize("smiles", ["CC(=O)O", "C[C@H](N)C(=O)[O-]", "c1ccc2c(c1)OCO2", "C/C=C/Cl", "C1CC%10CC1CC%10"])
def test_exact_forces_all_but_the_codes(tokenizer: TextTokenizer, smiles: str) -> None:
    form = CodeFormat(levels=(2,) * 12)
    molecule = parse_smiles(smiles)
    constraint = ExactConstraint(tokenizer, form, 151_936)
    assert len(constraint.automaton.live) == 4_096
    program = constraint.compile(molecule)
    rng = np.random.default_rng(0)
    drawn = [id_ if id_ != NO_ID else 147_547 + int(rng.integers(4_096)) for id_ in program.forced.tolist()]
    text = tokenizer.decode(drawn[:-1])
    assert tokenizer.encode(text) == drawn[:-1]
    flags = (program.forced != NO_ID).tolist()
    sample = Reader(tokenizer, "exact", "", form).read(molecule, drawn, flags, "end")
    assert sample.check.clean and sample.check.exact_match and sample.canonical
    assert [block.atom for block in sample.blocks if block.element] == list(range(molecule.atoms))
    assert {block.atom for block in sample.blocks if not block.element} <= {-1}
    assert {(block.template_free, block.drift, block.x) for block in sample.blocks} == {(1, 0, None)}
    assert flags.count(False) == len(sample.blocks)


def test_several_conformers_under_exact_count_their_blocks_on(tokenizer: TextTokenizer) -> None:
    program = ExactConstraint(tokenizer, FORM, 151_936, conformers=2).compile(ACID)
    assert [block for block in dict.fromkeys(program.block.tolist()) if block >= 0] == list(range(14))


def test_other_lps_and_tokenizers_are_refused_in_a_line() -> None:
    for name in ("guarded", "shaped", "group-v2.1", "truncating", "grammar"):
        with pytest.raises(ConstraintError, match="codes"):
            LPS[name].check_form(FORM)
    for name in ("none", "exact", "group-conformers"):
        LPS[name].check_form(FORM)
    with pytest.raises(ConstraintError, match="no token for <0>, one of 256 codes"):
        ExactConstraint(load_tokenizer("qwen3"), FORM, 151_936)


# --- decoders ---------------------------------------------------------------------------------------------------------


class Line:
    """A decoder that puts each token by its code: x = code / 100."""

    def __call__(self, tokens: Sequence[str], codes: Sequence[int]) -> np.ndarray:
        return np.array([[code / 100, float(index), 0.0] for index, code in enumerate(codes)])


@pytest.fixture
def line_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An entry point of another package, with weights beside it."""
    module = ModuleType("line_decoder")
    module.load = lambda weights: Line()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "line_decoder", module)
    monkeypatch.setattr(codes, "modules_of", lambda group: {"line": "line_decoder"} if group == codes.GROUP else {})
    weights = tmp_path / "line.safetensors"
    weights.write_bytes(b"")
    return weights


def test_places_come_of_a_decoder_that_an_entry_point_names(line_decoder: Path) -> None:
    file = line_decoder.parent / "codes.json"
    document = {"mode": "fsq", "levels": [2] * 8, "decoder": "line", "weights": "line.safetensors"}
    file.write_text(json.dumps(document))
    form = read_bin_file(file)
    assert isinstance(form, CodeFormat) and form.codes == 256 and form.weights == str(line_decoder)
    made = as_decimals(text_of(GOOD), form)
    assert made == text_of(
        "[C]<0.0100,0.0000,0.0000>[C]<0.0200,1.0000,0.0000>(=[O]<0.0500,4.0000,0.0000>)[O]<2.5500,6.0000,0.0000>"
    )
    assert decode(made).coordinates[3] == [2.55, 6.0, 0.0]
    with pytest.raises(EnrichedError, match="missing or damaged"):
        as_decimals(text_of(GOOD.replace("<3>", "")), form)
    kept = as_decimals(text_of(GOOD.replace("<3>", "")) + text_of(GOOD), form, keep=True)
    assert kept == text_of("a code is missing or damaged, block 2") + made


def test_the_documents_decoder_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    section = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8").split("### Codes")[1]
    points, module = re.search(r"```toml\n(.*?)```\n\n```python\n(.*?)```", section, re.DOTALL).groups()  # type: ignore[union-attr]
    named = tomllib.loads(points)["project"]["entry-points"][codes.GROUP]
    (name,) = named
    (tmp_path / f"{named[name]}.py").write_text(module, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(codes, "modules_of", lambda group: named if group == codes.GROUP else {})
    weights = tmp_path / "decoder.safetensors"
    save_file({"places": np.arange(12, dtype=np.float32).reshape(4, 3)}, weights)
    form = codes_from({"levels": [2, 2], "decoder": name, "weights": str(weights)})
    assert as_decimals("[C]<3>=<0>[O]<2>", form) == "[C]<9.0000,10.0000,11.0000>=[O]<6.0000,7.0000,8.0000>"
    with pytest.raises(ValueError, match="make 8 codes, and its decoder has 4"):
        codes_from({"levels": [2, 2, 2], "decoder": name, "weights": str(weights)})


def test_without_a_decoder_nothing_is_judged_and_the_verdict_says_why() -> None:
    assert as_decimals(text_of(GOOD), FORM, keep=True) == WITHOUT_DECODER
    with pytest.raises(EnrichedError, match=WITHOUT_DECODER):
        decode(WITHOUT_DECODER)
    with pytest.raises(EnrichedError, match=WITHOUT_DECODER):
        as_decimals(text_of(GOOD), FORM)
    for text in (GOOD, WITHOUT_DECODER):
        verdict = judge_answer(text, ACID.mol)
        assert verdict.geometry_right is None and verdict.stereo_right is None
        (failed,) = verdict.failed
        assert (failed.check, failed.detail) == (CODES, "not judged: codes without a decoder")
    gone = CodeFormat(levels=FORM.levels, decoder="of a package that is gone")
    assert as_decimals(text_of(GOOD), gone, keep=True) == WITHOUT_DECODER


@pytest.mark.parametrize("decoder", ["line", ""])
def test_pickled_weights_are_refused_with_the_command_that_converts_them(line_decoder: Path, decoder: str) -> None:
    folder = line_decoder.parent / 'it\'s "$HOME"'
    folder.mkdir()
    document = {"mode": "fsq", "levels": [2, 2], "decoder": decoder, "weights": "model.ckpt"}
    with pytest.raises(FileError) as caught:
        codes_from(document, folder)
    assert "not loaded" in caught.value.what and "weights_only=True" in caught.value.fix
    command = caught.value.fix.partition("trust it: ")[2]
    assert command.startswith("python -c ") and "model.safetensors" in command
    torch = pytest.importorskip("torch")
    tied = torch.ones(2, 3)
    torch.save({"state_dict": {"w": tied, "head": tied, "step": 3}}, folder / "model.ckpt")
    exec(shlex.split(command)[2], {})
    made = load_file(folder / "model.safetensors")
    assert {name: values.shape for name, values in made.items()} == {"w": (2, 3), "head": (2, 3)}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"levels": "2"}, "levels"),
        ({"levels": [1, 2]}, "2 or more"),
        ({"levels": []}, "2 or more"),
        ({"levels": [2], "decoder": 3}, "no texts"),
        ({"levels": [2, 2], "decoder": "nobody's"}, "there is no decoder"),
        ({"levels": [2, 2], "decoder": "line"}, "no weights"),
        ({"levels": [2, 2], "decoder": "demo-codes"}, "make 4 codes, and its decoder has 256"),
        ({"levels": [2, 2], "decoder": "line", "weights": "gone.safetensors"}, "not there"),
    ],
)
def test_a_file_of_codes_says_what_is_wrong_with_it(
    document: dict[str, object], reason: str, line_decoder: Path
) -> None:
    with pytest.raises((ValueError, FileError), match=reason):
        codes_from({"mode": "fsq", **document}, line_decoder.parent)


def test_a_decoder_that_fails_is_an_error_of_its_text(line_decoder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    form = CodeFormat(levels=FORM.levels, decoder="line", weights=str(line_decoder))
    for fails in (lambda self, tokens, codes: np.zeros((1, 3)), lambda self, tokens, codes: sys.exit(3)):
        monkeypatch.setattr(Line, "__call__", fails)
        codes._places.cache_clear()
        with pytest.raises(EnrichedError, match="gave no places"):
            as_decimals(text_of(GOOD), form)


def test_the_form_survives_a_runs_sheet_and_a_sample_of_texts_needs_its_file() -> None:
    form = CodeFormat(levels=(2,) * 8, decoder="line", weights="/w.safetensors")
    stored = {"levels": [2] * 8, "decoder": "line", "weights": "/w.safetensors"}
    assert read_number_format(stored) == form
    texts = [f"[SMILES]CC(=O)O[/SMILES]{text_of(GOOD.replace('<1>', '<17>').replace('<3>', '<33>'))}"] * 3
    assert text_form_of(texts, FORM).numbers == FORM
    with pytest.raises(FileError, match="text of codes"):
        text_form_of(texts)
