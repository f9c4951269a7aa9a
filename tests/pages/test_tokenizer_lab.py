"""The Tokenizer lab's logic, page by page state, without a browser."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from engine.chem.enriched import decode
from engine.chem.structure_files import to_sdf
from engine.paths import ROOT
from engine.text.tokenizer_build import folder_of

PAGE = str(ROOT / "pages" / "tokenizer_lab.py")


@pytest.fixture
def lab() -> Callable[..., AppTest]:
    def run(**query: str) -> AppTest:
        app = AppTest.from_file(PAGE, default_timeout=120)
        for name, value in query.items():
            app.query_params[name] = value
        return app.run()

    return run


def _strips(app: AppTest) -> list[dict]:
    return [block.proto for block in app.get("bidi_component")]


def _table(app: AppTest):
    return app.dataframe[0].value


def test_the_first_visit_shows_an_example_under_both_tokenizers(lab) -> None:
    app = lab()
    assert not app.exception and not app.error
    table = _table(app)
    assert list(table["Qwen3: drift"]) == ["+1 junk-prone · 19 of 20", "−1 cut · 21 of 20"]
    assert list(table["LLaMA-3.2 chem: drift"]) == ["+1 junk-prone · 13 of 14", "−1 cut · 15 of 14"]
    said = [one.value.replace("\\", "") for one in app.markdown]
    verdict, template = (
        next(place for place, words in enumerate(said) if words.startswith(begin))
        for begin in ("As written: Not clean", "Hypothetical, in a template of 0.0000,0.0000,0.0000")
    )
    assert verdict < template and "Qwen3 1 of 2 blocks cut, 1 junk-prone; LLaMA" in said[template]
    assert "the number loses" not in " ".join(one.value for one in app.caption)


def test_junk_is_counted_by_both_rules(lab) -> None:
    app = lab(text="[C]<6.9467,-1.369,0.8415amen>[C]<3.175,-0.187,0.4142}2>[C]<1.0,2.0,3.0>")
    assert {metric.label: metric.value for metric in app.metric} == {
        "Blocks": "3",
        "No clean triple": "2",
        "With a letter": "1",
        "Anything non-numeric": "2",
    }
    assert list(_table(app)["junk"]) == ["amen", "}2", ""]


def test_a_smiles_shows_its_template_and_a_reference_conformers_drift(lab) -> None:
    app = lab(text="CC=O")
    assert not app.exception and not app.error
    assert app.dataframe[0].value.iloc[0].tolist()[:4] == ["Qwen3", 70, 60, 10]
    assert list(app.dataframe[1].value["atom"]) == ["[C]", "[C]", "[O]"]


def test_a_bad_smiles_is_explained_and_still_shown_as_text(lab) -> None:
    app = lab(text="CC(")
    assert not app.exception
    assert "at position 2" in app.warning[0].value
    assert "plain text" in app.caption[0].value
    assert app.info[0].value.startswith("No coordinate block found")


def test_an_example_fills_the_text(lab) -> None:
    app = lab()
    app.button_group[0].set_value("Aspirin").run()
    assert app.text_area[0].value == "CC(=O)Oc1ccccc1C(=O)O"
    assert not app.exception


def test_another_placeholder_changes_the_drift(lab) -> None:
    app = lab(text="[C]<-1.2034,-0.5100,0.0000>", placeholder="-0.0000,0.0000,0.0000")
    assert list(_table(app)["Qwen3: drift"]) == ["exact · 21 of 21"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"text": "[C]<1.0,2.0,3.0>", "placeholder": "0<0"}, "placeholder"),
        ({"text": "x" * 20_001}, "limit"),
    ],
)
def test_wrong_input_is_one_clear_message(lab, query, words) -> None:
    app = lab(**query)
    assert not app.exception
    assert len(app.error) == 1 and words in app.error[0].value


def test_a_folder_that_is_none_is_one_clear_message(lab) -> None:
    app = lab()
    app.text_input[0].set_value("/nowhere/at/all").run()
    assert not app.exception
    assert len(app.error) == 1 and "no tokenizer" in app.error[0].value


def test_an_empty_text_says_what_to_do(lab) -> None:
    app = lab()
    app.text_area[0].set_value("  ").run()
    assert "Paste" in app.info[0].value
    assert not app.exception


@pytest.mark.parametrize("decimals", ["Four decimals", "Trailing zeros dropped", "Trailing zeros and point dropped"])
def test_the_molecule_set_shows_both_signs(lab, decimals) -> None:
    app = lab(view="A molecule set", count="10", decimals=decimals)
    assert not app.exception and not app.error
    table = _table(app)
    short = table[table["placeholder"] == "0.000,0.000,0.000"]
    assert len(table) == 8 and (short["cut"] > 90).all()
    assert (table["exact"] + table["junk_prone"] + table["cut"] - 100).abs().max() < 1e-9
    default = table[table["placeholder"] == "0.0000,0.0000,0.0000"]
    assert (default["cut"] > 20).all()
    assert (default["junk_prone"] > 0).all() == (decimals != "Four decimals")
    said = " ".join(one.value for one in app.caption)
    assert ("drops trailing zeros" in said) == (decimals == "Four decimals")


def test_bins_fit_their_placeholder(lab) -> None:
    app = lab(view="A molecule set", count="10", decimals="Bins of 0.042 Å")
    assert not app.exception and not app.error
    table = _table(app)
    fitted = table[table["placeholder"].str.startswith("fitted: ")]
    assert list(fitted["exact"]) == [100, 100] and list(fitted["tokens_per_atom"]) == [14, 8]
    assert set(fitted["mean_drift"]) == {0}
    assert any("0.021 Å" in one.value.replace("\\", "").replace("\u00a0", " ") for one in app.caption)


def test_pasted_molecules_and_one_that_cannot_be_read(lab) -> None:
    app = lab(view="A molecule set", set="Pasted SMILES")
    app.text_area[0].set_value("CCO ethanol\nnot-a-smiles\n").run()
    assert not app.exception
    assert any("1 of 2 molecules were left out" in one.label for one in app.expander)
    assert set(_table(app)["blocks"]) == {3}
    app.text_area[0].set_value("not-a-smiles").run()
    (left_out,) = [one for one in app.expander if "1 of 1 molecules were left out" in one.label]
    assert left_out.proto.expanded and not app.info


def test_the_reports_figures_with_their_verdicts(lab) -> None:
    app = lab(view="The reports' figures")
    assert not app.exception and not app.error
    assert app.dataframe[0].value["measured"].tolist()[:2] == [22, 14]
    app.toggle[0].set_value(True).run()
    assert app.dataframe[0].value["verdict"].tolist() == ["contradicted"] * 3


def test_an_uploaded_sdf_keeps_its_own_coordinates(lab) -> None:
    mol = decode("[C]<-1.0000,0.0000,0.0000>=[O]<1.0000,0.0000,0.0000>").mol
    app = lab(view="A molecule set", set="A file")
    app.file_uploader[0].set_value(("../../x.sdf", to_sdf([mol]).encode(), "chemical/x-mdl-sdfile")).run()
    assert not app.exception and not app.error
    default = _table(app).iloc[0]
    assert (default["blocks"], default["exact"], default["cut"]) == (2, 50, 50)


@pytest.mark.parametrize(
    ("name", "content"), [("x.sdf", b"\xff\x00 nonsense"), ("x.csv", b"a,b\n1,2\n"), ("x.gz", b"C")]
)
def test_an_upload_of_another_kind_is_one_clear_message(lab, name, content) -> None:
    app = lab(view="A molecule set", set="A file")
    app.file_uploader[0].set_value((name, content, "application/octet-stream")).run()
    assert not app.exception
    assert len(app.error) == 1


def test_a_built_in_name_as_another_tokenizer_changes_nothing(lab) -> None:
    assert not lab(tokenizer_folder="qwen3").exception
    app = lab(view="A molecule set", count="10", tokenizer_folder="llama3")
    assert not app.exception
    assert list(_table(app)["name"]) == ["Qwen3"] * 4 + ["LLaMA-3.2 chem"] * 4


def test_a_folder_as_another_tokenizer_stands_beside_the_two(lab) -> None:
    folder = str(folder_of("llama3"))
    app = lab(view="A molecule set", count="10", tokenizer_folder=folder)
    assert list(_table(app)["name"]) == ["Qwen3"] * 4 + ["LLaMA-3.2 chem"] * 4  # a link alone reads nothing
    next(button for button in app.button if button.label == "Read this folder").click().run()
    assert not app.exception and not app.error
    table = _table(app)
    third, llama = table[table["name"] == folder], table[table["name"] == "LLaMA-3.2 chem"]
    assert third["cut"].tolist() == llama["cut"].tolist()


def test_a_hostile_placeholder_is_text_in_figure_and_file(lab) -> None:
    hostile = '"&a,b%{x}'
    app = lab(view="A molecule set", count="10", placeholders=hostile)
    assert not app.exception and not app.error
    assert set(_table(app)["placeholder"]) >= {hostile}
    spec = app.get("plotly_chart")[0].proto.spec
    assert "%{x}<br>" not in spec and "&quot;&amp;a" in spec


def test_coordinates_say_where_they_come_from(lab) -> None:
    app = lab(view="A molecule set", count="10")
    assert any("Measured on reference conformers" in one.value for one in app.caption)
    app = lab(view="A molecule set", set="A file")
    mol = decode("[C]<-1.0000,0.0000,0.0000>=[O]<1.0000,0.0000,0.0000>").mol
    app.file_uploader[0].set_value(("x.sdf", to_sdf([mol]).encode(), "chemical/x-mdl-sdfile")).run()
    assert any("the file's own coordinates" in one.value.replace("\\", "") for one in app.caption)


HANDED = "[N]<-1.2,0.3,0.7>[C@@H]<0.0,0.0,0.0>([F]<0.5,1.2,-0.4>)[Cl]<1.1,-1.1,0.6>"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[C]<6.9467,-1.369,0.8415amen>=[O]<-1.2034,-0.5100,0.8012>",
            [
                "text passed, damaged",
                "Not clean: 1 of 2 blocks has junk. It passes the reports' rule and decodes by the runner's",
                "not read by the strict reader",
            ],
        ),
        (
            "[C]<0.0,0.0,0.0>[O]<0.2,0.0,0.0>",
            ["Passes, decodes and is clean", "no stereo specified", "geometry wrong", "bond lengths:"],
        ),
        (HANDED, ["stereo 1 of 1 right"]),
        (HANDED.replace("@@", "@"), ["stereo 0 of 1 right", "stereo: mirrored (atom 1)"]),
    ],
)
def test_enriched_text_has_a_verdict(lab, text: str, words: list[str]) -> None:
    app = lab(text=text)
    assert not app.exception and not app.error
    said = "\n".join(one.value for one in (*app.markdown, *app.caption)).replace("\\", "")
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C<1.0,2.0,3.0>=O<1.0,2.0,3.0>", "legacy text"),
        ("[C]<0512,0498,0501>", "binned text"),
        ('{"logs": []}', "LP sum"),
    ],
)
def test_another_format_is_named_and_not_judged(lab, text: str, words: str) -> None:
    app = lab(text=text)
    assert not app.exception and not app.error
    assert any(words in one.value and "not judged" in one.value for one in app.caption)
    assert "With a letter" not in [metric.label for metric in app.metric] and not app.dataframe


def test_a_bare_coordinate_has_none(lab) -> None:
    app = lab(text="<0.0,0.0,0.0>")
    assert not any("stereo" in one.value or "geometry" in one.value for one in app.markdown)
