"""``encode`` and ``decode``: files in, text out, and back."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from engine.chem.enriched import encode
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import to_sdf
from tests.cli import keys, run, run_json
from tests.strategies import MOLECULES, molecule, with_conformer

B = "<1.0000,-2.0000,0.5000>"


def sdf(*smiles: str) -> str:
    return to_sdf([with_conformer(parse_smiles(one), seed) for seed, one in enumerate(smiles)])


def test_encode(tmp_path: Path) -> None:
    file = tmp_path / "one.sdf"
    file.write_text(sdf("CC=O"))
    document = run_json("encode", str(file))
    assert keys(document, ("smiles", "enriched"))
    assert document["smiles"] == "CC=O"
    expected = encode(Chem.MolFromMolFile(str(file))).text
    assert document["enriched"] == expected
    assert run("encode", str(file)).out == expected + "\n"


def test_encode_many_records(tmp_path: Path) -> None:
    file = tmp_path / "many.sdf.gz"
    file.write_bytes(gzip.compress(sdf("CC=O", "c1ccccc1", "CCN").encode()))
    document = run_json("encode", str(file))
    assert [record["smiles"] for record in document["records"]] == ["CC=O", "c1ccccc1", "CCN"]
    assert (document["smiles"], document["enriched"]) == tuple(document["records"][0].values())
    assert len(run("encode", str(file)).out.splitlines()) == 3


def test_encode_drops_trailing_zeros_when_asked(tmp_path: Path) -> None:
    mol = with_conformer(parse_smiles("C"), 0)
    mol.GetConformer().SetAtomPosition(0, [1.5, -2.25, 0.0])
    (tmp_path / "one.mol").write_text(Chem.MolToMolBlock(mol))
    assert run_json("encode", str(tmp_path / "one.mol"))["enriched"] == "[C]<1.5000,-2.2500,0.0000>"
    trimmed = run_json("encode", str(tmp_path / "one.mol"), "--least-decimals", "1")
    assert trimmed["enriched"] == "[C]<1.5,-2.25,0.0>"
    shortest = run_json("encode", str(tmp_path / "one.mol"), "--least-decimals", "0")
    assert shortest["enriched"] == "[C]<1.5,-2.25,0>"
    assert run_json("decode", shortest["enriched"])["coordinates"] == [[1.5, -2.25, 0.0]]


def test_decode() -> None:
    document = run_json("decode", f"[CONFORMER][C]{B}[C@@H]{B}([N]{B})[O]<12.3456,0.0000,-0.0001>[/CONFORMER]")
    assert keys(document, ("smiles", "coordinates", "stereo"))
    assert document["smiles"] == "C[C@@H](N)O"
    assert document["coordinates"] == [[1.0, -2.0, 0.5]] * 3 + [[12.3456, 0.0, -0.0001]]
    lines = [line.split() for line in run("decode", f"[C]{B}=[O]{B}").out.splitlines()]
    assert lines[-2:] == [[atom, "1.0000", "-2.0000", "0.5000"] for atom in "CO"]


def test_decode_says_whether_the_stereo_is_right() -> None:
    blocks = ("<1.5,0.0,0.0>", "<0.0,0.0,0.0>", "<-0.5,1.4,0.0>", "<-0.5,-0.7,1.2>")
    right, wrong = (f"[F]{{}}[C{hand}H]{{}}([Cl]{{}})[Br]{{}}".format(*blocks) for hand in ("@", "@@"))
    assert "stereo right  yes\n" in run("decode", right).out
    assert "stereo right  no\n" in (said := run("decode", wrong).out) and "mirrored" in said
    explicit = "[H]<0.3,-0.4,-1.0>[C@@]{1}([Cl]{2})([Br]{3})[F]{0}".format(*blocks)
    assert "stereo right  " in run("decode", explicit).out  # hydrogens that stand in the text stay
    judged = run_json("decode", wrong)["stereo"]
    assert judged["right"] is False
    assert [(site["atoms"], site["word"]) for site in judged["sites"]] == [([1], "mirrored")]


def test_bins_there_and_back(tmp_path: Path) -> None:
    path = tmp_path / "mol.sdf"
    path.write_text(to_sdf([with_conformer(parse_smiles("CC=O"), 0, 2.0)]))
    for width, most, digits in ((0.042, 21, 4), (0.05, 9, 3)):
        bins = ("--bins", str(width), str(most))
        text = run_json("encode", str(path), *bins)["enriched"]
        numbers = [number for block in re.findall("<(.*?)>", text) for number in block.split(",")]
        assert all(len(number) == digits for number in numbers)
        decimals = run_json("decode", run_json("encode", str(path))["enriched"])["coordinates"]
        document = run_json("decode", text, *bins)
        assert document["smiles"] == "CC=O"
        off = np.array(document["coordinates"]) - np.array(decimals)
        assert 0 < np.abs(off).max() <= width / 2 + 1e-4
        assert run_json("junk", text, *bins)["kinds"] == {"exact": 3}
        drift = ("drift", "--tokenizer", "qwen3", "--file", "-", *bins, "--placeholder", ",".join(["0" * digits] * 3))
        summary = run_json(*drift, stdin=text.encode())
        assert (summary["exact"], summary["tokens_per_atom"]) == (3, 3 * digits + 2)
    assert "binned text, another number format" in run("decode", text).error


def test_decode_from_standard_input() -> None:
    assert run_json("decode", "-", stdin=f"\n[C]{B}\n".encode())["smiles"] == "C"


@pytest.mark.parametrize("smiles", MOLECULES)
def test_there_and_back_by_files(tmp_path: Path, smiles: str) -> None:
    text = encode(with_conformer(molecule(smiles), 5)).text
    first = run_json("decode", text, "--sdf", str(tmp_path / "out.sdf"), "--xyz", str(tmp_path / "out.xyz"))
    assert len((tmp_path / "out.xyz").read_text().splitlines()) == len(first["coordinates"]) + 2
    again = run_json("encode", str(tmp_path / "out.sdf"))
    assert sorted(map(tuple, run_json("decode", again["enriched"])["coordinates"])) == sorted(
        map(tuple, first["coordinates"])
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("encode", "no/such.sdf"), "No such file or directory"),
        (("encode", "/"), "is no SDF or MOL file"),
        (("encode", "molecule.txt"), "is no SDF or MOL file"),
        (("encode", "x.sdf", "--least-decimals", "5"), "'5' is not one of '0'"),
        (("decode", ""), "there is nothing in it"),
        (("decode", "[C]<0000,0498,0501>", "--bins", "0.042", "21"), "a number is not one of 1,000 bins of 0.042"),
        (("decode", "[C]<512,498,501>", "--bins", "0.042", "21"), "a number is not one of 1,000 bins of 0.042"),
        (("decode", "[C]<512,498,501>", "--bins", "0.04", "9.01"), "are not a whole number of bins"),
        (("decode", "[C]<512,498,501>", "--bins", "0", "9"), "are not a whole number of bins"),
        (("decode", "CCO"), "'C' begins no atom in brackets"),
        (("decode", "[C]<1.0,2.0>"), "block 0, at position 3: 2 numbers instead of three"),
        (("decode", "[C]<1.0,2.0,0.8415amen>"), "z is '0.8415amen', which is no number"),
        (("decode", "[\udcff]<1.0,2.0,3.0>"), "character 1 of the text is not valid Unicode"),
        (("decode", "[C]<" + "9" * 400 + ".0,1.0,1.0>"), "which is no number"),
        (("decode", f"[C]{B}", "--sdf", "no/such/folder/x.sdf"), "No such file or directory 'no/such/folder/x.sdf'"),
        (("decode", f"[C]{B}", "--xyz", "/"), "Is a directory '/'"),
        (("decode", f"[C]{B}", "--sdf", "/dev/full"), "No space left on device"),
    ],
)
def test_bad_input(argv: tuple[str, ...], said: str) -> None:
    assert said in run(*argv).error
    assert said in run(*argv, "--json").error


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no molecule in it"),
        ("CCO\n", "record 1"),
        (sdf("CC")[:-40], "record 1"),
        (sdf("CC") + sdf("CC").replace("V2000", "V9999"), "record 2"),
        (Chem.MolToMolBlock(Chem.MolFromSmiles("C[N](C)[O]")) + "$$$$\n", "'[O]'"),
    ],
)
def test_bad_files(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "bad.sdf").write_text(content)
    assert said in run("encode", str(tmp_path / "bad.sdf")).error
    assert said in run("encode", str(tmp_path / "bad.sdf"), "--json").error


def test_nothing_is_written_for_a_text_that_does_not_decode(tmp_path: Path) -> None:
    assert run("decode", "[C]<1.0>", "--sdf", str(tmp_path / "out.sdf")).error
    assert list(tmp_path.iterdir()) == []
