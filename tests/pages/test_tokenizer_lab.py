"""The Tokenizer lab page by page state, without a browser."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from engine.chem.enriched import decode
from engine.chem.structure_files import to_sdf
from engine.text.tokenizer_build import folder_of
from tests.pages.apps import opened, shown, words

SET = {"view": "A molecule set", "count": "10"}
FILE = {"view": "A molecule set", "set": "A file"}


def lab(**query: str) -> AppTest:
    return opened("tokenizer_lab", **query)


def test_the_first_visit_shows_an_example_under_both_tokenizers() -> None:
    app = lab()
    assert not app.error
    table = app.dataframe[0].value
    assert list(table["Qwen3: drift"]) == ["+1 junk-prone · 19 of 20", "−1 cut · 21 of 20"]
    assert list(table["LLaMA-3.2 chem: drift"]) == ["+1 junk-prone · 13 of 14", "−1 cut · 15 of 14"]
    assert "Qwen3 1 of 2 blocks cut, 1 junk-prone; LLaMA" in words(app)
    app.button_group[0].set_value("Aspirin").run()
    assert app.text_area[0].value == "CC(=O)Oc1ccccc1C(=O)O" and not app.exception


def test_junk_is_counted_by_both_rules() -> None:
    app = lab(text="[C]<6.9467,-1.369,0.8415amen>[C]<3.175,-0.187,0.4142}2>[C]<1.0,2.0,3.0>")
    counts = {"Blocks": "3", "No clean triple": "2", "With a letter": "1", "Anything non-numeric": "2"}
    assert {metric.label: metric.value for metric in app.metric} == counts
    assert list(app.dataframe[0].value["junk"]) == ["amen", "}2", ""]


def test_a_smiles_shows_its_template_and_a_reference_conformers_drift() -> None:
    app = lab(text="CC=O")
    assert app.dataframe[0].value.iloc[0].tolist()[:4] == ["Qwen3", 70, 60, 10]
    assert list(app.dataframe[1].value["atom"]) == ["[C]", "[C]", "[O]"]


@pytest.mark.parametrize(
    ("query", "message"),
    [({"text": "[C]<1.0,2.0,3.0>", "placeholder": "0<0"}, "placeholder"), ({"text": "x" * 20_001}, "limit")],
)
def test_wrong_input_is_one_clear_message(query: dict[str, str], message: str) -> None:
    (error,) = lab(**query).error
    assert message in error.value


def test_what_cannot_be_read_is_explained_and_still_shown() -> None:
    app = lab(text="CC(")
    assert "at position 2" in app.warning[0].value and len(app.info) == 1
    app.text_area[0].set_value("  ").run()
    assert len(app.info) == 1 and not app.warning
    app.text_input[0].set_value("/nowhere/at/all").run()
    assert not app.exception and "no tokenizer" in app.error[0].value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[C]<6.9467,-1.369,0.8415amen>=[O]<-1.2034,-0.5100,0.8012>",
            ["text passed, damaged", "1 of 2 blocks has junk", "not read by the strict reader"],
        ),
        ("[C]<0.0,0.0,0.0>[O]<0.2,0.0,0.0>", ["no stereo specified", "geometry wrong", "bond lengths:"]),
        ("[N]<-1.2,0.3,0.7>[C@H]<0,0,0>([F]<0.5,1.2,-0.4>)[Cl]<1.1,-1.1,0.6>", ["mirrored (atom 1)"]),
        ("[C]<0512,0498,0501>", ["binned text", "not judged"]),
        ('{"logs": []}', ["LP sum", "not judged"]),
    ],
)
def test_enriched_text_has_a_verdict_and_another_format_none(text: str, expected: list[str]) -> None:
    app = lab(text=text)
    said = words(app)
    assert not app.error and all(word in said for word in expected), said
    assert bool(app.dataframe) != ("not judged" in expected)


@pytest.mark.parametrize("decimals", ["Four decimals", "Trailing zeros dropped", "Trailing zeros and point dropped"])
def test_the_molecule_set_shows_both_signs(decimals: str) -> None:
    app = lab(**SET, decimals=decimals)
    table = app.dataframe[0].value
    short = table[table["placeholder"] == "0.000,0.000,0.000"]
    assert len(table) == 8 and (short["cut"] > 90).all()
    assert ("Trailing zeros dropped”" in words(app)) == (decimals == "Four decimals")
    assert (table["exact"] + table["junk_prone"] + table["cut"] - 100).abs().max() < 0.15 + 1e-9  # each is rounded
    default = table[table["placeholder"] == "0.0000,0.0000,0.0000"]
    assert (default["cut"] > 20).all()
    assert (default["junk_prone"] > 0).all() == (decimals != "Four decimals")
    assert "Measured on reference conformers" in words(app)
    assert shown(lab(**SET))["decimals"] == "Trailing zeros dropped", "the first that it shows"


def test_pasted_molecules_and_one_that_cannot_be_read() -> None:
    app = lab(view="A molecule set", set="Pasted SMILES")
    app.text_area[0].set_value("CCO ethanol\nnot-a-smiles\n").run()
    assert set(app.dataframe[0].value["blocks"]) == {3} and "1 molecule left out: " in words(app)
    app.text_area[0].set_value("not-a-smiles").run()
    (error,) = app.error
    assert "cannot be read at position 2" in error.value and not app.info and not app.exception


def test_an_uploaded_sdf_keeps_its_own_coordinates() -> None:
    mol = decode("[C]<-1.0000,0.0000,0.0000>=[O]<1.0000,0.0000,0.0000>").mol
    app = lab(**FILE, decimals="Four decimals")
    app.file_uploader[0].set_value(("../../x.sdf", to_sdf([mol]).encode(), "chemical/x-mdl-sdfile")).run()
    assert not app.exception and not app.error
    default = app.dataframe[0].value.iloc[0]
    assert (default["blocks"], default["exact"], default["cut"]) == (2, 50, 50)
    assert "the texts' own coordinates" in words(app)


def test_an_upload_of_another_kind_is_one_clear_message() -> None:
    app = lab(**FILE)
    app.file_uploader[0].set_value(("x.sdf", b"\xff\x00 nonsense", "application/octet-stream")).run()
    assert not app.exception and len(app.error) == 1


def test_another_tokenizer_stands_beside_the_two_once_a_reader_wants_it() -> None:
    ours = ["Qwen3"] * 4 + ["LLaMA-3.2 chem"] * 4
    assert list(lab(**SET, tokenizer_folder="llama3").dataframe[0].value["name"]) == ours  # it is there already
    folder = str(folder_of("llama3"))
    app = lab(**SET, tokenizer_folder=folder)
    assert list(app.dataframe[0].value["name"]) == ours  # a link alone reads nothing
    next(button for button in app.button if button.label == "Read this folder").click().run()
    assert not app.exception and not app.error
    table = app.dataframe[0].value.set_index("name")
    assert list(table.loc[folder]["cut"]) == list(table.loc["LLaMA-3.2 chem"]["cut"])


def test_a_hostile_placeholder_is_text_in_figure_and_file() -> None:
    hostile = '"&a,b%{x}'
    app = lab(**SET, placeholders=hostile)
    assert set(app.dataframe[0].value["placeholder"]) >= {hostile}
    spec = app.get("plotly_chart")[0].proto.spec
    assert "%{x}<br>" not in spec and "&quot;&amp;a" in spec


BINNED = "[SMILES]CC=O[/SMILES][CONFORMER][C]144127129;[C]127134129=[O]115126129;[/CONFORMER]"


def test_a_text_of_bins_is_judged_once_its_bins_are_chosen() -> None:
    app = lab(text=BINNED)
    assert not app.exception and not app.metric and "text of bins" in words(app)
    app.selectbox(key="bins").set_value("256 uniform bins").run()
    assert not app.exception and "Read as text of 256 bins" in words(app)
    assert list(app.dataframe[0].value["kinds"]) == ["exact", "missing semicolon", "exact"]
    assert list(app.dataframe[0].value["Qwen3: drift"]) == ["exact · 9 of 9"] * 3
    assert "1 of 3 blocks lacks its semicolon" in words(app)


def test_a_molecule_set_of_bins_drifts_nowhere() -> None:
    app = lab(**SET, decimals="256 uniform bins")
    table = app.dataframe[0].value
    assert not app.exception and set(table["placeholder"]) == {"128128128", "fitted: 128128128"}
    assert set(table["exact"]) == {100.0}
