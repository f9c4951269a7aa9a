"""``tokens``, ``template``, ``drift`` and ``junk``: the contract's keys, and a line for every bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.chem.enriched import encode
from engine.chem.other_forms import OTHER_WORDS
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import to_sdf
from engine.records import TRIMMED4
from engine.text.blocks import KINDS
from engine.text.placeholder import reference_texts
from tests.alignments import LP_NAMES
from tests.cli import keys, run, run_json
from tests.report_examples import QWEN_EXAMPLES
from tests.small_tokenizers import small_byte_level
from tests.strategies import with_conformer

ETHANAL = "[C]<1.0,-2.0,0.5>[C]<0.1,0.2,0.3>=[O]<-1.2345,0.0,1.0>"


# --- tokens ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "count"), [("qwen3", 22), ("llama3", 16)])
def test_tokens(name: str, count: int) -> None:
    document = run_json("tokens", "<0.0000,0.0000,0.0000>", "--tokenizer", name)
    assert keys(document, ("count", "tokens"))
    assert document["count"] == len(document["tokens"]) == count
    assert all(keys(token, ("id", "piece", "start", "end")) for token in document["tokens"])
    assert "".join(token["piece"] for token in document["tokens"]) == "<0.0000,0.0000,0.0000>"
    assert run("tokens", "1 ", "--tokenizer", name).out.splitlines()[-1].split()[-3:] == ["'", "1", "2"]  # ' ' is seen
    assert document["tokens"][0] == {"id": 27, "piece": "<", "start": 0, "end": 1}


def test_tokens_of_standard_input() -> None:
    document = run_json("tokens", "-", "--tokenizer", "qwen3", stdin="\ufeff的é\n".encode())
    assert [token["piece"] for token in document["tokens"]] == ["的", "é", "\n"]  # without the byte order mark
    assert run_json("tokens", "", "--tokenizer", "qwen3")["count"] == 0


def test_tokens_by_a_folder(tmp_path: Path) -> None:
    small_byte_level().save(str(tmp_path / "tokenizer.json"))
    document = run_json("tokens", "[C]<1.0>", "--tokenizer", str(tmp_path))
    assert document["count"] > 0


@pytest.mark.parametrize(
    ("argv", "stdin", "said"),
    [
        (("tokens", "CCO", "--tokenizer", "gpt5"), b"", "there is no tokenizer 'gpt5'. Use one of qwen3, llama3"),
        (("tokens", "CCO", "--tokenizer", ""), b"", "there is no tokenizer ''"),
        (("tokens", "CCO", "--tokenizer", "/dev/null"), b"", "holds no tokenizer"),
        (("tokens", "C\udcff", "--tokenizer", "qwen3"), b"", "character 1 of the text is not valid Unicode"),
        (("tokens", "-", "--tokenizer", "qwen3"), b"\xff\xfe", "'-' is not UTF-8 text (byte 0)"),
    ],
)
def test_bad_input_to_tokens(argv: tuple[str, ...], stdin: bytes, said: str) -> None:
    assert said in run(*argv, stdin=stdin).error
    assert said in run(*argv, "--json", stdin=stdin).error or "--json" in run(*argv, "--json", stdin=stdin).error


# --- template -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "free"), [("qwen3", 40), ("llama3", 28)])
def test_template(name: str, free: int) -> None:
    document = run_json("template", "C=O", "--tokenizer", name)
    assert keys(document, ("tokens", "free", "copy", "rows"))
    assert (document["tokens"], document["free"], document["copy"]) == (free + 7, free, 7)
    rows = document["rows"]
    assert len(rows) == free + 7
    assert [row["role"] for row in rows].count("FREE") == free
    assert {row["block"] for row in rows if row["role"] == "FREE"} == {0, 1}
    assert (
        "".join(row["piece"] for row in rows)
        == document["text"]
        == "[C]<0.0000,0.0000,0.0000>=[O]<0.0000,0.0000,0.0000>"
    )
    tagged = run_json("template", "O=C", "--tokenizer", name, "--tags")
    assert (tagged["tokens"], tagged["free"], tagged["copy"]) == (free + 9, free, 9)
    assert (tagged["smiles"], tagged["rows"][0]["piece"], tagged["rows"][0]["block"]) == ("C=O", "[CONFORMER]", None)


def test_template_with_another_placeholder() -> None:
    document = run_json("template", "C", "--tokenizer", "qwen3", "--placeholder", "0.0,0.0,0.0")
    assert document["text"] == "[C]<0.0,0.0,0.0>"
    assert run_json("template", "C", "--tokenizer", "qwen3", "--placeholder=-0.0,0.0,0.0")["tokens"] == 15


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("C(C", "--tokenizer", "qwen3"), "SMILES 'C(C' cannot be read at position 1: extra open parentheses"),
        (("", "--tokenizer", "qwen3"), "there is nothing in it"),
        (("C*", "--tokenizer", "qwen3"), "is a wildcard"),
        (("[O]C", "--tokenizer", "qwen3"), "have no enriched form"),
        (("C" * 201, "--tokenizer", "qwen3"), "201 heavy atoms, the limit is 200"),
        (("C\udcff", "--tokenizer", "qwen3"), "character '\\udcff' is not allowed"),
        (("C", "--tokenizer", "none"), "there is no tokenizer 'none'"),
        (("C", "--tokenizer", "qwen3", "--placeholder", ""), "the placeholder is empty"),
        (("C", "--tokenizer", "qwen3", "--placeholder", "1<2"), "contains '<'"),
        (("C", "--tokenizer", "qwen3", "--placeholder", "|endoftext|"), "special token"),
    ],
)
def test_bad_input_to_template(argv: tuple[str, ...], said: str) -> None:
    assert said in run("template", *argv).error
    assert said in run("template", *argv, "--json").error


# --- drift ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen3", "llama3"])
def test_drift_of_enriched_text(tmp_path: Path, name: str) -> None:
    file = tmp_path / "texts.txt"
    file.write_text(f"{ETHANAL}\n\n[CONFORMER][C]<-0.5000,1.0000,1.0000>[/CONFORMER]\r\n", encoding="utf-8")
    document = run_json("drift", "--tokenizer", name, "--file", str(file))
    assert keys(document, ("blocks", "exact", "junk_prone", "cut", "histogram"))
    assert (document["texts"], document["blocks"], document["cut"]) == (2, 4, 1)
    assert document["blocks"] == document["exact"] + document["junk_prone"] + document["cut"]
    assert sum(document["histogram"].values()) == 4
    assert document["histogram"]["-1"] == 1
    from_input = run_json("drift", "--tokenizer", name, "--file", "-", stdin=file.read_bytes())
    assert from_input == document


def test_drift_of_reference_conformers() -> None:
    argv = ("drift", "--tokenizer", "qwen3", "--smiles", "CCO", "c1ccccc1", "--conformers", "2", "--seed", "7")
    document = run_json(*argv)
    assert (document["texts"], document["blocks"]) == (4, 18)
    assert document == run_json(*argv)
    texts = [text for smiles in ("CCO", "c1ccccc1") for text in reference_texts(smiles, conformers=2, seed=7)]
    from_text = run_json("drift", "--tokenizer", "qwen3", "--file", "-", stdin="\n".join(texts).encode())
    assert from_text == document
    short = run_json(*argv, "--placeholder", "0.000,0.000,0.000")
    assert short["cut"] == 18
    trimmed = run_json(*argv, "--least-decimals", "1")
    assert trimmed["mean_drift"] > document["mean_drift"]


def test_drift_of_an_sdf_file(tmp_path: Path) -> None:
    mol = with_conformer(parse_smiles("CC=O"), 1)
    file = tmp_path / "MOLECULE.SDF"
    file.write_text(to_sdf([mol]))
    document = run_json("drift", "--tokenizer", "llama3", "--file", str(file))
    text = encode(mol).text  # SDF keeps the four decimals that are counted
    assert document["blocks"] == 3
    assert document["texts"] == 1
    assert run_json("drift", "--tokenizer", "llama3", "--file", "-", stdin=text.encode())["blocks"] == 3


def test_a_fitted_placeholder() -> None:
    argv = ("drift", "--tokenizer", "qwen3", "--file", "-", "--fit")
    stdin = b"[C]<-1.2345,1.2345,1.2345>" * 3
    fitted = run_json(*argv, stdin=stdin)["fitted"]
    assert (fitted["placeholder"], fitted["free"], fitted["cost"]) == ("-0.0000,0.0000,0.0000", 21, 0.0)
    assert fitted["costs"]["20"] == 1.0
    weighted = run_json(*argv, "--junk-weight", "2", "--cut-weight", "0.5", stdin=stdin)["fitted"]
    assert (weighted["junk_weight"], weighted["cut_weight"], weighted["costs"]["20"]) == (2.0, 0.5, 0.5)


@pytest.mark.parametrize(
    ("argv", "stdin", "said"),
    [
        (("--smiles", "CC", "C(C"), b"", "SMILES 'C(C' cannot be read at position 1"),
        ((), b"", "give either --smiles, --set or --file"),
        (("--smiles", "C", "--file", "x"), b"", "give either --smiles, --set or --file"),
        (("--smiles", "C", "--conformers", "9" * 5_000), b"", "Invalid value for '--conformers'"),
        (("--smiles", "C", "--conformers", "\u0663"), b"", "Invalid value for '--conformers'"),
        (("--smiles", "C", "--seed=-1"), b"", "greater than or equal to 0"),
        (("--smiles", "C", "--fit", "--junk-weight", "nan"), b"", "Invalid value for '--junk-weight'"),
        (("--smiles", "C", "--fit", "--cut-weight", "inf"), b"", "Invalid value for '--cut-weight'"),
        (("--smiles", "C", "--fit", "--cut-weight=-1"), b"", "greater than or equal to 0"),
        (("--smiles", "C", "--fit", "--cut-weight", "0", "--junk-weight", "0"), b"", "not both zero"),
        (("--smiles", "C", "--placeholder", ">"), b"", "contains '>'"),
        (("--file", "no/such/file"), b"", "'no/such/file' cannot be read: No such file or directory"),
        (("--file", "/"), b"", "it is a folder"),
        (("--file", ""), b"", "'.' cannot be read: it is a folder"),
        (("--file", "no/such.sdf"), b"", "cannot be read: No such file"),
        (("--file", "-"), b"", "'-' has no enriched text"),
        (("--file", "-"), b"\n \n", "'-' has no enriched text"),
        (("--file", "-"), b"\xff", "'-' is not UTF-8 text (byte 0)"),
        (("--file", "-"), b"[C]<1.0,2.0,3.0>\n[C]<1.0,2.0,3.0amen>\n", "line 2 of '-': enriched text, block 0"),
        (("--file", "-"), b"[C]<1.0,2.0,3.0>\x0b\n\nCCO", "line 3 of '-': enriched text, at position 0"),
    ],
)
def test_bad_input_to_drift(argv: tuple[str, ...], stdin: bytes, said: str) -> None:
    assert said in run("drift", "--tokenizer", "qwen3", *argv, stdin=stdin).error
    assert said in run("drift", "--json", "--tokenizer", "qwen3", *argv, stdin=stdin).error


# --- junk -----------------------------------------------------------------------------------------------------------


def test_junk(tmp_path: Path) -> None:
    text = "".join(f"[C]<{content}>" for content, _, _ in QWEN_EXAMPLES) + "[C]<1.0,2.0,3.0>[C]<1.0,2.0>"
    document = run_json("junk", text)
    assert keys(document, ("blocks", "bad_blocks", "letters", "nonnumeric", "rows"))
    counts = [document[key] for key in ("blocks", "bad_blocks", "letters", "nonnumeric")]
    assert counts == [13, 12, 8, 11]
    assert all(keys(row, ("block", "text", "kinds", "junk_text")) for row in document["rows"])
    expected = [*QWEN_EXAMPLES, ("1.0,2.0,3.0", ("exact",), ""), ("1.0,2.0", ("missing_z",), "")]
    assert [(row["text"], tuple(row["kinds"]), row["junk_text"]) for row in document["rows"]] == expected
    assert [row["block"] for row in document["rows"]] == list(range(13))
    assert set(document["kinds"]) <= set(KINDS)
    (tmp_path / "generated.txt").write_text(text, encoding="utf-8")
    assert run_json("junk", "--file", str(tmp_path / "generated.txt")) == document
    assert run_json("junk", "-", stdin=text.encode()) == document


def test_integers_of_an_unknown_writer_are_numbers() -> None:
    text = "[C]<1.6656,0,-0.255>"
    assert run_json("junk", text)["rows"][0]["kinds"] == ["exact"]
    assert run_json("junk", text, "--lp", "group-v2.1")["rows"][0]["kinds"] == ["unverified"]
    assert run_json("decode", text)["coordinates"] == [[1.6656, 0.0, -0.255]]


@pytest.mark.parametrize(
    ("text", "form", "blocks"),
    [
        ("C<1.0,2.0,3.0>=O<1.0,2.0,3.0>", "legacy", 2),
        ("[H<1.0,2.0,3.0>]O<1.0,2.0,3.0>", "legacy", 2),
        ("[SMILES]C=O[/SMILES][CONFORMER]C<1.0,2.0,3.0>=O<1.0,2.0,3.0amen>[/CONFORMER]", "legacy", 2),
        ("[C]<0512,0498,0501>=[O]<0513,0498,0501>", "binned", 2),
        ("[C]<512,498,501>[C]<512,4am>[C]<012,498,501>", "binned", 3),
        ('{"timestamp": "now", "logs": [{"text": "[C]<1.0,2.0"}]}', "summary", 1),
    ],
)
def test_another_format_is_named_and_not_judged(text: str, form: str, blocks: int) -> None:
    document = run_json("junk", text)
    assert (document["format"], document["blocks"], document["bad_blocks"]) == (form, blocks, None)
    assert [row["kinds"] for row in document["rows"]] == [[]] * blocks
    assert run("junk", text).err.startswith(OTHER_WORDS[form])  # type: ignore[index]
    error = run("decode", text, "--reader", "group").error
    assert OTHER_WORDS[form].partition(":")[0] in error  # type: ignore[index]


@pytest.mark.parametrize(
    "text",
    [
        "[C]<1.0,2.0,3.0>O<1.0,2.0,3.0>",  # enriched text with a damaged atom
        "[C]<512,498,501>[C]<1.0,2.0,3.0>",
        "[C]<512,498,501>[C]<12,498,501>[C]<1,2,3>",
        "[C]<51,49,50>",
        '{"logs": [], "passes": []}',
    ],
)
def test_damaged_text_is_no_other_format(text: str) -> None:
    assert run_json("junk", text)["format"] == "enriched"


def test_nothing_recognised_is_no_all_clear() -> None:
    for text in ("CCO", "nothing of the kind"):
        assert run("junk", text).err == "no coordinate block found: nothing of this text could be judged\n"
        assert [run_json("junk", text)[key] for key in ("blocks", "bad_blocks", "rows")] == [0, 0, []]


def test_junk_under_an_lp() -> None:
    for lp in ("cleanup", *LP_NAMES):
        (clean, short) = run_json("junk", "[C]<1.0,2.0,3.0>[C]<1.0,2.0>", "--lp", lp)["rows"]
        by_model = lp in ("none", "truncating", "exact", "guarded", "cleanup")  # cleanup alone follows no LP
        assert clean["kinds"] == (["exact"] if by_model else ["unverified"])
        assert short["kinds"] == (["missing_z"] if by_model else ["missing_z", "cut"])


@pytest.mark.parametrize(
    ("argv", "stdin", "said"),
    [
        ((), b"", "give either a text or --file"),
        (("[C]<1>", "--file", "x"), b"", "give either a text or --file"),
        (("CCO", "--lp", "magic"), b"", "there is no LP 'magic'. Did you mean generic or exact?"),
        (("[C]<\udcff>",), b"", "not valid Unicode"),
        (("--file", "no/such/file"), b"", "No such file or directory"),
        (("--file", "/"), b"", "it is a folder"),
        (("-",), b"[C]<\xe9>", "is not UTF-8 text (byte 4)"),
    ],
)
def test_bad_input_to_junk(argv: tuple[str, ...], stdin: bytes, said: str) -> None:
    assert said in run("junk", *argv, stdin=stdin).error
    assert said in run("junk", *argv, "--json", stdin=stdin).error


def test_texts_of_files_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_bytes(b" " * (2**20 + 1))
    assert "is larger than 1 MB. Split it" in run("junk", "--file", str(tmp_path / "large.txt")).error
    assert "is larger than 1 MB" in run("junk", "-", stdin=b" " * (2**20 + 1)).error
    assert run("junk", "-", stdin=b" " * 2**20).code == 0


def test_trimmed_conformers_read_back() -> None:
    """What ``drift --smiles`` counts is what the codec writes."""
    (text,) = reference_texts("CC=O", TRIMMED4)
    assert run_json("junk", text)["bad_blocks"] == 0
