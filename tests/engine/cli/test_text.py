"""``tokens``, ``template``, ``drift``, ``junk``, ``encode`` and ``decode``: one path each, beside the contract's."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from rdkit import Chem

from engine.chem.enriched import encode
from engine.chem.other_forms import OTHER_WORDS, OtherForm
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import to_sdf
from engine.text.placeholder import reference_texts
from tests.cli import run, run_json
from tests.small_tokenizers import small_byte_level
from tests.strategies import with_conformer

B = "<1.0000,-2.0000,0.5000>"


def sdf(*smiles: str) -> str:
    return to_sdf([with_conformer(parse_smiles(smi), seed) for seed, smi in enumerate(smiles)])


def test_tokens_of_standard_input_and_by_a_folder(tmp_path: Path) -> None:
    document = run_json("tokens", "-", "--tokenizer", "qwen3", stdin="\ufeff的é\n".encode())
    assert [token["piece"] for token in document["tokens"]] == ["的", "é", "\n"]  # without the byte order mark
    assert run("tokens", "1 ", "--tokenizer", "qwen3").out.splitlines()[-1].split()[-3:] == ["'", "1", "2"]
    small_byte_level().save(str(tmp_path / "tokenizer.json"))
    assert run_json("tokens", "[C]<1.0>", "--tokenizer", str(tmp_path))["count"] > 0


def test_drift_of_texts_conformers_and_an_sdf_file(tmp_path: Path) -> None:
    argv = ("drift", "--tokenizer", "qwen3")
    texts = [text for smiles in ("CCO", "c1ccccc1") for text in reference_texts(smiles, conformers=2, seed=7)]
    document = run_json(*argv, "--file", "-", stdin="\n\n".join(texts).encode())
    assert (document["texts"], document["blocks"], sum(document["histogram"].values())) == (4, 18, 18)
    assert document["blocks"] == document["exact"] + document["junk_prone"] + document["cut"]
    by_smiles = (*argv, "--smiles", "CCO", "c1ccccc1", "--conformers", "2", "--seed", "7")
    assert run_json(*by_smiles) == document
    assert run_json(*by_smiles, "--placeholder", "0.000,0.000,0.000")["cut"] == 18
    assert run_json(*by_smiles, "--least-decimals", "1")["mean_drift"] > document["mean_drift"]
    (tmp_path / "MOLECULE.SDF").write_text(text := sdf("CC=O"))
    from_sdf = run_json(*argv, "--file", str(tmp_path / "MOLECULE.SDF"))
    stated = encode(Chem.MolFromMolBlock(text)).text  # SDF keeps the four decimals that are counted
    assert from_sdf == run_json(*argv, "--file", "-", stdin=stated.encode()) and from_sdf["blocks"] == 3


FORMS = {
    "legacy": "C<1.0,2.0,3.0>=O<1.0,2.0,3.0>",
    "bins": "[CONFORMER][C]121129129;=[O]100102098;[/CONFORMER]",
    "codes": "[CONFORMER][C]<123>=<45>[O]<678>[/CONFORMER]",
}


@pytest.mark.parametrize("form", FORMS)
def test_another_format_is_named_and_not_judged(form: OtherForm) -> None:
    document = run_json("junk", FORMS[form])
    assert [document[key] for key in ("format", "bad_blocks", "recognised")] == [form, None, True]
    assert [row["kinds"] for row in document["rows"]] == [[]] * document["blocks"]
    assert run("junk", FORMS[form]).err.startswith(OTHER_WORDS[form])
    assert OTHER_WORDS[form] in run("decode", FORMS[form]).error
    assert run_json("judge", "--text", FORMS[form])["issues"] == [OTHER_WORDS[form]]


def test_nothing_recognised_is_no_all_clear(tmp_path: Path) -> None:
    """Exit 0 and zeros alone told a script that there is no junk."""
    line = "no coordinate block found: nothing of this text could be judged\n"
    for options in ((), ("--json",)):
        result = run("junk", "CCO", *options)
        assert (result.code, result.err) == (2, line)
    document = result.document
    assert [document[key] for key in ("recognised", "blocks", "bad_blocks", "rows")] == [False, 0, 0, []]
    (tmp_path / "answers.txt").write_text(f"CCO\n\n[C]{B}\nnothing\n")  # something in it is enough
    assert run_json("junk", "--file", str(tmp_path / "answers.txt"))["recognised"] is True


def test_encode_many_records(tmp_path: Path) -> None:
    file = tmp_path / "many.sdf.gz"
    file.write_bytes(gzip.compress(sdf("CC=O", "c1ccccc1", "CCN").encode()))
    document = run_json("encode", str(file))
    assert [record["smiles"] for record in document["records"]] == ["CC=O", "c1ccccc1", "CCN"]
    assert (document["smiles"], document["enriched"]) == tuple(document["records"][0].values())
    assert run("encode", str(file)).out.splitlines() == [record["enriched"] for record in document["records"]]


def test_decode_into_files_and_back(tmp_path: Path) -> None:
    text = f"[CONFORMER][C]{B}[C@@H]<0.5,-1.0,0.5>([N]{B})[O]<12.3456,0.0000,-0.0001>[/CONFORMER]"
    document = run_json("decode", text, "--sdf", str(tmp_path / "out.sdf"), "--xyz", str(tmp_path / "out.xyz"))
    assert document["smiles"] == "C[C@@H](N)O"
    assert document["coordinates"][2:] == [[1.0, -2.0, 0.5], [12.3456, 0.0, -0.0001]]
    assert len((tmp_path / "out.xyz").read_text().splitlines()) == 4 + 2
    again = run_json("decode", run_json("encode", str(tmp_path / "out.sdf"))["enriched"])
    assert sorted(again["coordinates"]) == sorted(document["coordinates"])  # 12.3456 is 12.3455 truncated again
    foreign = (tmp_path / "out.sdf").read_text().partition(">  <coordinates>")[0] + "$$$$\n"
    (tmp_path / "foreign.sdf").write_text(foreign)
    assert "<12.3455,0.0000,-0.0001>" in run_json("encode", str(tmp_path / "foreign.sdf"))["enriched"]
    lines = [line.split() for line in run("decode", "-", stdin=f"\n[C]{B}=[O]{B}\n".encode()).out.splitlines()]
    assert lines[-2:] == [[atom, "1.0000", "-2.0000", "0.5000"] for atom in "CO"]


def test_decode_says_whether_the_stereo_is_right() -> None:
    blocks = ("<1.5,0.0,0.0>", "<0.0,0.0,0.0>", "<-0.5,1.4,0.0>", "<-0.5,-0.7,1.2>")
    right, wrong = (f"[F]{{}}[C{hand}H]{{}}([Cl]{{}})[Br]{{}}".format(*blocks) for hand in ("@", "@@"))
    assert "stereo right  yes\n" in run("decode", right).out
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
        assert run_json("decode", f"--bins={width} {most}", text) == document and document["smiles"] == "CC=O"
        off = np.array(document["coordinates"]) - np.array(decimals)
        assert 0 < np.abs(off).max() <= width / 2 + 1e-4
        assert run_json("junk", text, *bins)["kinds"] == {"exact": 3}
        drift = ("drift", "--tokenizer", "qwen3", "--file", "-", *bins, "--placeholder", ",".join(["0" * digits] * 3))
        summary = run_json(*drift, stdin=text.encode())
        assert (summary["exact"], summary["tokens_per_atom"]) == (3, 3 * digits + 2)


def test_a_file_of_bins_there_and_back(tmp_path: Path) -> None:
    path, file = tmp_path / "mol.sdf", str(tmp_path / "bins.json")
    path.write_text(to_sdf([with_conformer(parse_smiles("CC=O"), 0, 2.0)]))
    Path(file).write_text('{"mode": "uniform", "L": -10, "H": 10, "n_bins": 256}')
    text = run_json("encode", str(path), "--bins", file)["enriched"]
    assert re.fullmatch(r"\[C\]\d{9};\[C\]\d{9};=\[O\]\d{9};", text)
    decimals = run_json("decode", run_json("encode", str(path))["enriched"])["coordinates"]
    for reader in ("strict", "group"):
        document = run_json("decode", "--bins", file, "--reader", reader, text)
        assert document["smiles"] == "CC=O"
        assert 0 < np.abs(np.array(document["coordinates"]) - np.array(decimals)).max() <= 20 / 512 + 1e-4
    damaged = text.replace(";", "", 1)
    assert run_json("junk", damaged, f"--bins={file}")["kinds"] == {"exact": 2, "missing_semicolon": 1}
    judged = run_json("judge", "--text", f"[CONFORMER]{damaged}[/CONFORMER]", "--smiles", "CC=O", "--bins", file)
    assert judged["passed"] and judged["decodes"] and not judged["clean"]
    assert judged["why_not_clean"][0].startswith("block 0 is missing_semicolon")
    assert run_json("judge", "--text", text, "--bins", file)["clean"]
    summary = run_json("drift", "--tokenizer", "qwen3", "--file", "-", "--bins", file, "--fit", stdin=text.encode())
    assert (summary["exact"], summary["placeholder"], summary["tokens_per_atom"]) == (3, "128" * 3, 9)
    assert (summary["fitted"]["placeholder"], summary["fitted"]["cost"]) == ("128" * 3, 0)
    template = run_json("template", "CC=O", "--tokenizer", "llama3", "--bins", file)
    assert (template["free"], template["text"]) == (9, "[C]128128128;[C]128128128;=[O]128128128;")


REFUSED = [
    ("tokens CCO --tokenizer gpt5", "there is no tokenizer 'gpt5'. Use one of qwen3, llama3"),
    ("template C(C --tokenizer qwen3", "SMILES 'C(C' cannot be read at position 1: extra open parentheses"),
    ("drift --tokenizer qwen3", "give either --smiles, --set or --file"),
    ("drift --tokenizer qwen3 --file x --seed 1", "--seed belongs to --smiles and --set"),
    ("drift --tokenizer qwen3 --smiles C --cut-weight 2", "--cut-weight belongs to --fit"),
    ("drift --tokenizer qwen3 --file no/such/file", "'no/such/file' cannot be read: No such file or directory"),
    ("drift --tokenizer qwen3 --file -", "'-' has no enriched text"),
    ("junk CCO --lp magic", "there is no LP 'magic'. Did you mean generic or exact?"),
    ("encode molecule.txt", "is no SDF or MOL file"),
    ("decode [C]<1.0,2.0>", "block 0, at position 3: 2 numbers instead of three"),
    ("decode [C]<0000,0498,0501> --bins 0.042 21", "a number is not one of 1,000 bins of 0.042"),
    ("decode [C]128130125; --bins no.json", "'no.json' cannot be read: No such file or directory"),
    ("decode [C]128130125; --bins 0.05 b", "could not convert string to float: 'b'"),
    ("junk [C]128130125; --bins 0.05 9.01", "there is no such number format"),
    (f"decode [C]{B} --sdf no/such/folder/x.sdf", "No such file or directory 'no/such/folder/x.sdf'"),
    (f"decode [C]{B} --sdf /dev/full", "No space left on device"),
]


@pytest.mark.parametrize(("line", "said"), REFUSED)
def test_a_wrong_call_is_one_line(line: str, said: str) -> None:
    assert said in run(*line.split(), "--json").error


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[C]<\xe9>", "is not UTF-8 text (byte 4)"),
        (b"[C]<1.0,2.0,3.0>\n[C]<1.0,2.0,3.0amen>\n", "line 2 of '-': enriched text, block 0"),
    ],
)
def test_wrong_standard_input_is_one_line(content: bytes, said: str) -> None:
    assert said in run("drift", "--tokenizer", "qwen3", "--file", "-", stdin=content).error


def test_a_file_of_a_known_form_that_is_no_text_is_named_for_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "completions_00001.parquet"
    parquet.write_table(pa.table({"step": [1], "prompt": ["C"], "completion": ["C"]}), path)
    said = "'{}' is completions that TRL logs. `import` reads it, and `judge RUN` its texts"
    assert said.format(path) in run("junk", "--file", str(path)).error
    parquet.write_table(pa.table({"other": [1]}), path)
    assert "is not UTF-8 text" in run("junk", "--file", str(path)).error


def test_texts_of_files_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes(b" " * (2**20 + 1))
    assert "is larger than 1 MB. Split it" in run("junk", "--file", str(tmp_path / "large.txt")).error
    assert run("junk", "-", stdin=f"[C]{B}".encode() + b" " * 2**19).code == 0
