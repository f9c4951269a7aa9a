"""The packed corpus against the real tokenizers: the same ids for any molecule, number and number of decimals."""

from __future__ import annotations

import errno
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from engine.chem.enriched import decode, enriched_text, format_number
from engine.chem.molecule_sets import load_molecule_set
from engine.chem.smiles import enriched_descriptors, split_smiles
from engine.chem.stereo import judge_stereo
from engine.errors import FileFormatError
from engine.records import NumberFormat
from engine.text.tokenizers import load_tokenizer, number_ids
from tests.support import ROOT, sized
from tests.tools.training.corpus_source import write_source
from tools.training import packing
from tools.training.conformer_texts import ConformerTexts, TextRecipe
from tools.training.corpus import MoleculePlan, Settings, build_corpus, read_corpus
from tools.training.evaluate import StructureJudge
from tools.training.molecules import read_csv
from tools.training.number_tokens import KINDS, SIGN, all_ids
from tools.training.packed import PackedCorpus, PackedPart, packed_xyz, unpacked_xyz
from tools.training.packing import full_text, main, part_arrays, stereo_atoms

TOKENIZERS = ("qwen3", "llama3")
ODD = ("[Ca++].[O-][N+](=O)[O-]", "[NH3+]C[Fe++]C%12CC%12", "[13CH4]", "[H][H]", "F/C=C\\F", "[2H]O[3H]", "C")
EDGES = (0, 1, -1, 9, -9, 10, -10, 99, 100, -100, 999, 1000, -1000, 9999, 10_000, -10_000, 99_999, 100_000, -123_456)


def conformer(smiles: str, units: list[int]) -> ConformerTexts:
    """Any numbers at all: what stands in a block is no business of chemistry here."""
    xyz = np.array(units, dtype=np.int32).reshape(-1, 3)
    return ConformerTexts(xyz, ((smiles, tuple(range(len(xyz)))),))


def drawn_conformers() -> list[ConformerTexts]:
    rng = random.Random(0)
    made = []
    for smiles in [*ODD, *(entry.smiles for entry in load_molecule_set(sized(150, 2000)))]:
        atoms = sum(piece.is_atom for piece in split_smiles(smiles))
        widest = rng.choice([30, 3_000, 60_000, 160_000, 3_000_000])
        units = [rng.choice([rng.randint(-widest, widest), *EDGES[: rng.randint(0, 19)]]) for _ in range(3 * atoms)]
        made.append(conformer(smiles, units))
    return made


@pytest.fixture(scope="module")
def drawn() -> list[ConformerTexts]:
    return drawn_conformers()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    write_source(folder / "source.csv.gz")
    settings = Settings(MoleculePlan(sized(20, 200), 4, 16), TextRecipe(conformers=2, random_orders=2))
    build_corpus(folder / "built", settings, read_csv(folder / "source.csv.gz"))
    return folder / "built"


@pytest.fixture(scope="module")
def packed(corpus: Path) -> Path:
    """The corpus packed in several parts."""
    out = corpus.parent / "packed"
    assert main(["--corpus", str(corpus), "--out", str(out), "--part-texts", "50"]) == 0
    return out


def reader(part: list[ConformerTexts], name: str, *, keep_zeros: bool = False) -> PackedPart:
    tokenizer = load_tokenizer(name)
    arrays, _ = part_arrays(part, [tokenizer])
    end = tokenizer.end_id
    assert end is not None
    return PackedPart(arrays, "t0", number_ids(tokenizer), end, keep_zeros=keep_zeros)


def written(one: ConformerTexts, text: int, decimals: int, least: int = 1) -> str:
    """The whole text, its numbers written by the codec."""
    smiles, order = one.texts[text]
    form = NumberFormat(least, decimals)
    rows = [tuple(format_number(unit / 10_000, form) for unit in one.xyz[row].tolist()) for row in order]
    answer = enriched_text(smiles, enriched_descriptors(smiles), tuple((x, y, z) for x, y, z in rows))
    return f"[SMILES]{smiles}[/SMILES][CONFORMER]{answer}[/CONFORMER]"


def expected(part: list[ConformerTexts], name: str, decimals: int, least: int = 1) -> list[list[int]]:
    tokenizer = load_tokenizer(name)
    texts = [written(one, text, decimals, least) for one in part for text in range(len(one.texts))]
    return [[*ids, tokenizer.end_id or 0] for ids in tokenizer.encode_batch(texts)]


@pytest.mark.soak
@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("decimals", [1, 2, 3, 4])
def test_any_molecule_and_number_gives_the_tokenizers_ids(
    drawn: list[ConformerTexts], name: str, decimals: int
) -> None:
    batch = reader(drawn, name).tokens(decimals=decimals)
    found = [batch.text(row)[0].tolist() for row in range(len(drawn))]
    assert found == expected(drawn, name, decimals)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_the_fixed_writer_keeps_all_zeros(drawn: list[ConformerTexts], name: str) -> None:
    few = drawn[:10]
    batch = reader(few, name, keep_zeros=True).tokens()
    assert [batch.text(row)[0].tolist() for row in range(len(few))] == expected(few, name, 4, least=4)
    assert expected(few, name, 4, least=4) != expected(few, name, 4)


def ids_of(corpus: PackedCorpus, decimals: int) -> list[list[int]]:
    """Every text, in order."""
    batches = [part.tokens(decimals=decimals) for part in corpus.parts]
    return [batch.text(row)[0].tolist() for batch in batches for row in range(len(batch.starts) - 1)]


@pytest.mark.soak
@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_packed_corpus_gives_the_tokenizers_ids(corpus: Path, packed: Path, name: str) -> None:
    made = list(read_corpus(corpus))
    read = PackedCorpus(packed, name)
    assert len(read.parts) > 1 and len(read) == sum(len(one.texts) for one in made)
    for decimals in (1, 2, 3, 4):
        assert ids_of(read, decimals) == expected(made, name, decimals)
    texts = [(one, text) for one in made for text in range(len(one.texts))]
    assert [full_text(*place) for place in texts] == [written(*place, 4) for place in texts]
    canonical = np.concatenate([part.is_canonical for part in read.parts])
    assert canonical.tolist() == [text == 0 for _, text in texts]
    atoms = np.concatenate([part.atoms for part in read.parts])
    assert atoms.tolist() == [len(one.xyz) for one, _ in texts]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_framed_text_has_its_anchors_in_place_and_the_stereo_that_it_states(packed: Path, name: str) -> None:
    tokenizer = load_tokenizer(name)
    framed, plain = (PackedCorpus(packed, name, framed=framed).parts[0] for framed in (True, False))
    stated = 0
    for row in range(0, len(framed), 3):
        ids, placed = framed.tokens(np.array([row])).text(0)[0], framed.xyz[framed._row[_atoms(framed, row)]]
        decoded = decode(tokenizer.decode(ids[:-1].tolist()).partition("[/SMILES]")[2])
        first, second, _ = stereo_atoms(decoded.smiles).anchors
        assert decoded.numbers[first] == ("0.0", "0.0", "0.0") and decoded.numbers[second or 1][1:] == ("0.0", "0.0")
        before = plain.xyz[plain._row[_atoms(plain, row)]]
        steps, steps_before = (np.linalg.norm(xyz[1:] - xyz[:-1], axis=1) for xyz in (placed, before))
        np.testing.assert_allclose(steps, steps_before, atol=2)
        verdict = judge_stereo(decoded.mol, decoded.mol)
        assert not verdict.wrong
        stated += len(verdict.sites)
    assert stated > 5


def _atoms(part: PackedPart, row: int) -> slice:
    return slice(int(part._atom_start[row]), int(part._atom_start[row + 1]))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokens_of_deciding_atoms_are_known(packed: Path, name: str) -> None:
    tokenizer = load_tokenizer(name)
    part = PackedCorpus(packed, name).parts[0]
    for row in range(0, len(part), 5):
        batch = part.tokens(np.array([row]))
        numbers = batch.kinds >= SIGN
        text = tokenizer.decode(batch.ids[:-1].tolist())
        decoded = decode(text.partition("[/SMILES]")[2])
        flags = stereo_atoms(decoded.smiles).deciding
        wanted = [number for flag, triple in zip(flags, decoded.numbers, strict=True) if flag for number in triple]
        found = tokenizer.decode(batch.ids[numbers & batch.deciding].tolist())
        assert found.replace(",", "") == "".join(wanted)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_texts_come_in_the_order_asked_for(packed: Path, name: str) -> None:
    part = PackedCorpus(packed, name).parts[0]
    everything = part.tokens(decimals=2)
    rows = np.array([7, 0, len(part) - 1, 7, 3])
    some = part.tokens(rows, decimals=2)
    for index, row in enumerate(rows):
        ids, kinds = everything.text(int(row))
        assert some.text(index)[0].tolist() == ids.tolist()
        assert some.text(index)[1].tolist() == kinds.tolist()
    assert part.tokens(np.array([], dtype=np.int64)).starts.tolist() == [0]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("decimals", [1, 4])
def test_kinds_say_what_a_token_is(drawn: list[ConformerTexts], name: str, decimals: int) -> None:
    tokenizer = load_tokenizer(name)
    batch = reader(drawn, name).tokens(decimals=decimals)
    pieces = np.array([tokenizer.piece(id_) for id_ in batch.ids.tolist()])
    of_kind = {kind: set(pieces[batch.kinds == index].tolist()) for index, kind in enumerate(KINDS)}
    assert of_kind["sign"] == {"-"} and of_kind["comma"] == {",", ",-"} and of_kind["point"] == {"."}
    assert of_kind["end"] == {tokenizer.piece(tokenizer.end_id or 0)}
    assert all(piece.isdigit() for kind in KINDS if kind.startswith(("integer", "decimal")) for piece in of_kind[kind])
    starting = {1 + k for k in range(0, decimals, 3 if name == "llama3" else 1)}
    assert {k for k in range(1, 5) if of_kind[f"decimal_{k}"]} == starting
    for row, one in enumerate(drawn):
        ids, kinds = batch.text(row)
        prompt = tokenizer.decode(ids[kinds == KINDS.index("prompt")].tolist())
        assert prompt == f"[SMILES]{one.texts[0][0]}[/SMILES]"
        assert (kinds == KINDS.index("end")).nonzero()[0].tolist() == [len(ids) - 1]
        assert (kinds == KINDS.index("comma")).sum() == 2 * len(one.xyz)
        assert (kinds == KINDS.index("point")).sum() == 3 * len(one.xyz)


def test_the_sign_that_is_no_token_of_its_own() -> None:
    part = [conformer("[Ca++]", [-15_000, 20_000, -1]), conformer("[Ca++]", [15_000, 0, 0])]
    for name in TOKENIZERS:
        tokenizer = load_tokenizer(name)
        batch = reader(part, name).tokens()
        signed, kinds = batch.text(0)
        assert "<-" in [tokenizer.piece(id_) for id_ in signed.tolist()]
        assert KINDS.index("sign") not in kinds
        assert batch.ids.tolist() == [id_ for ids in expected(part, name, 4) for id_ in ids]


@pytest.mark.parametrize(("name", "numbers", "least", "most"), [("qwen3", 14, 20, 200), ("llama3", 1114, 1120, 1400)])
def test_live_ids_hold_all_that_occurs_and_every_number(
    packed: Path, name: str, numbers: int, least: int, most: int
) -> None:
    read = PackedCorpus(packed, name)
    tokenizer = load_tokenizer(name)
    live = set(read.live_ids.tolist())
    assert {id_ for ids in ids_of(read, 4) for id_ in ids} <= live
    assert len(all_ids(read.numbers)) == numbers and all_ids(read.numbers) <= live
    assert least < len(live) < most and read.live_ids.tolist() == sorted(live)
    assert all(piece == tokenizer.piece(id_) for id_, piece in read.manifest["tokenizers"][name]["live"])
    assert read.vocab_size == tokenizer.vocab_size and read.end == tokenizer.end_id


def test_coordinates_come_back_whatever_their_size() -> None:
    rng = np.random.default_rng(0)
    atoms = rng.integers(1, 40, 200)
    for widest in (1, 40_000, 160_000, 4_000_000):
        xyz = rng.integers(-widest, widest, (int(atoms.sum()), 3)).astype(np.int32)
        assert (unpacked_xyz(packed_xyz(xyz, atoms), atoms) == xyz).all()
    with pytest.raises(ValueError, match="838 angstrom"):
        packed_xyz(np.array([[1 << 23, 0, 0]], dtype=np.int32), np.array([1]))


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_text_scores_as_right_and_anything_else_as_wrong(drawn: list[ConformerTexts], name: str) -> None:
    part = reader(drawn, name)
    judge = StructureJudge(part.numbers)
    for decimals in (1, 4):
        batch = part.tokens(decimals=decimals)
        for row in range(0, len(part), 3):
            ids, kinds = batch.text(row)
            answer = ids[kinds != KINDS.index("prompt")].tolist()
            segments = part.segments(row)
            assert judge.is_right(answer, *segments)
            assert not judge.is_right([*answer, answer[0]], *segments)
            assert not judge.is_right(answer[:-1], *segments)
            for place in range(0, len(answer), 5):
                wrong = [*answer[:place], -1, *answer[place + 1 :]]
                assert not judge.is_right(wrong, *segments)


def test_numbers_that_are_no_triple_are_wrong() -> None:
    tokenizer = load_tokenizer("qwen3")
    part = reader([conformer("C", [1, 2, 3])], "qwen3")
    judge = StructureJudge(part.numbers)
    for content, is_right in [
        ("0.1,0.2,0.3", True),
        ("-12.1,-0.2,-9.31234", True),
        ("0.1,0.2", False),
        ("0.1,0.2,0.3,0.4", False),
        ("0.1,0.2,0.", False),
        ("0.1,2,0.3", False),
        ("0.1amen,0.2,0.3", False),
        ("", False),
    ]:
        ids = tokenizer.encode(f"[CONFORMER][C]<{content}>[/CONFORMER]")
        assert judge.is_right([*ids, tokenizer.end_id or 0], *part.segments(0)) is is_right, content


READ = """
import sys
class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {'rdkit', 'tokenizers', 'transformers', 'torch', 'scipy', 'pandas', 'pyarrow'}:
            raise ImportError(name)
sys.meta_path.insert(0, Wall())
from pathlib import Path
from tools.training.packed import PackedCorpus
read = PackedCorpus(Path(sys.argv[1]), 'llama3')
print(sum(len(part.tokens(decimals=2).ids) for part in read.parts))
allowed = {'numpy', 'safetensors', 'engine', 'tools'} | set(sys.stdlib_module_names)
print(sorted({name.split('.')[0] for name in sys.modules if getattr(sys.modules[name], '__file__', None)} - allowed))
"""


def test_the_training_machine_needs_numpy_and_safetensors_alone(packed: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}\n{READ}", str(packed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    tokens, strangers = done.stdout.splitlines()
    assert int(tokens) == sum(map(len, ids_of(PackedCorpus(packed, "llama3"), 2)))
    assert json.loads(strangers.replace("'", '"')) == []


def test_packing_twice_gives_the_same_files(corpus: Path, packed: Path, tmp_path: Path) -> None:
    (tmp_path / "part-099.arrays").write_bytes(b"of an older packing")
    assert main(["--corpus", str(corpus), "--out", str(tmp_path), "--part-texts", "50"]) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in packed.iterdir()
    }


def test_a_damaged_part_is_named(packed: Path, tmp_path: Path) -> None:
    for path in packed.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "part-001.arrays").write_bytes((packed / "part-001.arrays").read_bytes()[:-1])
    with pytest.raises(FileFormatError, match=r"part-001\.arrays is damaged"):
        _ = PackedCorpus(tmp_path, "qwen3").parts
    with pytest.raises(
        FileFormatError, match=r"packed for qwen3, llama3, not for 'gpt2'|llama3, qwen3, not for 'gpt2'"
    ):
        PackedCorpus(tmp_path, "gpt2")
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(FileFormatError, match=r"manifest\.json cannot be read"):
        PackedCorpus(tmp_path, "qwen3")


def full_disk(*_: object) -> NoReturn:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_leaves_no_packed_corpus(
    corpus: Path, packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in packed.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(Path, "replace", full_disk)
    assert main(["--corpus", str(corpus), "--out", str(tmp_path)]) == 2
    assert "part-000.arrays cannot be written: No space left on device" in capsys.readouterr().err
    assert not (tmp_path / "manifest.json").exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--tokenizers gpt2", "there is no tokenizer 'gpt2'"),
        ("--corpus nowhere", "nowhere holds no finished corpus"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_status_2(
    corpus: Path, tmp_path: Path, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--corpus", str(corpus), "--out", str(tmp_path), *options.split()]) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("driftscope")]
    assert len(lines) == 1 and message in lines[0]


def test_a_corpus_is_not_packed_over_itself(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--corpus", str(corpus), "--out", str(corpus)]) == 2
    assert "is the corpus itself" in capsys.readouterr().err
    assert list(read_corpus(corpus))


def test_a_part_that_reads_back_otherwise_is_not_written(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(one: Any, text: int) -> str:
        return full_text(one, text).replace("><", "> <").replace(">[", ">  [")

    monkeypatch.setattr(packing, "full_text", other)
    assert main(["--corpus", str(corpus), "--out", str(tmp_path)]) == 2
    assert "cannot be packed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_part_too_large_to_travel_is_refused(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(packing, "MOST_PART_BYTES", 1_000)
    assert main(["--corpus", str(corpus), "--out", str(tmp_path)]) == 2
    assert "Give a smaller --part-texts" in capsys.readouterr().err
