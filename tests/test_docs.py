"""What the documents show is what comes out: commands and figures of the README, examples of files, the notebook; and a
ratio of decoding speeds says the size of the model that it was measured on, in the same paragraph."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from fnmatch import filter as matching
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

from engine.evidence.verdicts import load
from engine.file_forms import FORMS
from engine.handover.gallery import examples as gallery_examples
from engine.models.loading import sized
from tests import cli
from tests.support import ROOT, of_soak
from tools.cli_docs import FILE, document, with_forms_table

README = (ROOT / "README.md").read_text(encoding="utf-8")
FORMATS = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
MOST_LINES = {"README.md": 200, "docs/architecture.md": 160, "CONTRIBUTING.md": 30}
PREFIX = ".venv/bin/python -m engine "
SHOWN = re.findall(rf"\$ {re.escape(PREFIX)}([^\n]*)\n(.*?)(?=\n *\$ |\n *```)", README, re.DOTALL)
FIGURES = re.findall(rf"`{re.escape(PREFIX)}((?:drift|compare|judge) [^`]*)`", README)
EXAMPLES = re.findall(rf"`(?:([A-Z_]+)=\S+ )?{re.escape(PREFIX)}([^`]+)`\n\n```\w+\n(.*?)```", FORMATS, re.DOTALL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples of a report and of a pool, and the demo store with one for writing."""
    monkeypatch.chdir(tmp_path)
    for name in ("report.json", "pool.sdf"):
        example = next(text for _, command, text in EXAMPLES if name in command)
        (tmp_path / name).write_text(example, encoding="utf-8")
    return tmp_path


def called(command: str) -> cli.Result:
    result = cli.run(*shlex.split(command, comments=True))
    assert result.code == 0, result
    return result


@pytest.mark.parametrize(("command", "shown"), SHOWN, ids=[command for command, _ in SHOWN])
def test_the_readmes_commands_print_what_it_shows(
    command: str, shown: str, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if command.startswith(("import", "run")):
        monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    lines = [re.escape(" ".join(line.split())).replace(r"\.\.\.", ".*") for line in shown.splitlines()]
    printed = "\n".join(" ".join(line.split()) for line in called(command).out.strip().splitlines())
    assert re.fullmatch("\n".join(lines), printed, re.DOTALL), printed


def test_every_path_and_module_that_the_architecture_names_is_there() -> None:
    """By its end: `lp/table.py` is engine/lp/table.py. Not what a reader is to make (`yours`) or what git ignores."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = set(re.findall(r"`([\w.*-]*/[\w./*-]*|[\w*-]+\.(?:py|toml|json|md))`", text))
    paths |= {module.replace(".", "/") for module in re.findall(r"-m (\w+(?:\.\w+)+)", text)}
    for listed in re.findall(r"\(([^()]*)\)", text):  # modules: `user_files`, `chem/smiles`
        names = re.findall(r"`([\w/]+)`", listed)
        paths |= set(names) if any("/" in name for name in names) else set()
    paths = {path for path in paths - {".venv/", "static/", "data/store/"} if "yours" not in path}
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = [f"/{file}" for file in files] + [f"/{folder}/" for file in files for folder in Path(file).parents]
    missing = [
        path for path in sorted(paths) if not matching(names, f"*/{path}") and not matching(names, f"*/{path}.py")
    ]
    assert len(paths) > 60 and missing == []


@of_soak
def test_the_readmes_figures_come_out() -> None:
    of_drift, of_compare, of_exact, of_shaped = FIGURES
    drift = called(f"{of_drift} --json").document
    faster = re.search(r"exact \(([\d.]+)× faster\)", called(of_compare).out)
    assert faster
    exact, shaped = judged(of_exact), judged(of_shaped)
    of_llama = [
        re.sub("demo-qwen-final-([a-z]+)[-0-9a-f]*", r"demo-llama-final-\1", of) for of in (of_exact, of_shaped)
    ]
    llama = [judged(command) for command in of_llama]
    figures = [
        *(f"{100 * drift[name] / drift['blocks']:.0f} %" for name in ("cut", "junk_prone")),
        f"{float(faster[1]):.1f}x faster",
        *(f"of {judged} answers all are clean and {usable} usable" for judged, usable in (exact, shaped)),
        f"`demo-llama` has {llama[0][1]} and {llama[1][1]}",
    ]
    readme = " ".join(README.split())
    assert [figure for figure in figures if figure not in readme] == []


def judged(command: str) -> tuple[int, int]:
    """How many answers were judged, all of them clean, and how many of them are usable."""
    rates = called(f"{command} --json").document
    assert rates["clean"] == 1
    return rates["judged"], round(rates["usable"] * rates["judged"])


@pytest.mark.parametrize("example", EXAMPLES, ids=[command for _, command, _ in EXAMPLES])
def test_each_example_is_read(example: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variable, command, text = example
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "store"))
    name = "models.toml" if variable else next(word for word in shlex.split(command) if "." in word and "/" not in word)
    if name.endswith((".pickle", ".parquet")):
        exec(text, {})  # it writes the file
    else:
        Path(name).write_text(text, encoding="utf-8")
    if variable:
        monkeypatch.setenv(variable, name)
    document = called(f"{command} --json").document
    assert document


BINS = re.findall(r"^\| `([^`]+)` \| `(\[C\][^`]+)` \| `([^`]+)` `([^`]+)` \|$", FORMATS, re.MULTILINE)


@pytest.mark.parametrize(("bins", "text", "carbon", "oxygen"), BINS, ids=[text for _, text, _, _ in BINS])
def test_each_kind_of_bins_is_read_and_written_alike(
    bins: str, text: str, carbon: str, oxygen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if bins.startswith("{"):
        Path("bins.json").write_text(bins, encoding="utf-8")
        bins = "bins.json"
    decoded = called(f"decode '{text}' --bins {bins} --json").document
    places = [list(map(float, place.split(","))) for place in (carbon, oxygen)]
    assert decoded["coordinates"] == places
    mol = Chem.MolFromSmiles(decoded["smiles"])
    conformer = Chem.Conformer(mol.GetNumAtoms())
    conformer.SetPositions(np.array(places))
    mol.AddConformer(conformer)
    with Chem.SDWriter("a.sdf") as writer:  # not by our own writer, which keeps the text
        writer.write(mol)
    assert called(f"encode a.sdf --bins {bins} --json").document["enriched"] == text


def test_all_kinds_of_bins_have_an_example() -> None:
    kinds = [json.loads(bins)["mode"] if bins.startswith("{") else bins for bins, *_ in BINS]
    assert kinds == ["uniform", "quantile", "cartesian_binned", "0.042 21"]


def test_the_notebook_runs() -> None:
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert [len(names[name].tables["main"]) > 0 for name in ("speed", "drift", "junk")] == [True] * 3  # type: ignore[attr-defined]
    assert names["molecule"].GetNumConformers() == 1  # type: ignore[attr-defined]


def test_the_reference_of_commands_is_that_of_the_command_line() -> None:
    assert FILE.read_text(encoding="utf-8") == document(), "run `python -m tools.cli_docs`"


def test_the_table_of_files_is_that_of_their_forms() -> None:
    assert with_forms_table(FORMATS) == FORMATS, "run `python -m tools.cli_docs`"
    examples = {word for _, command, _ in EXAMPLES for word in shlex.split(command)}
    assert [form.example for form in FORMS if form.example not in examples] == []
    assert [form for form in FORMS if not form.example.endswith(form.endings) or not callable(form.load())] == []


def test_documents_are_short() -> None:
    lines = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in MOST_LINES}
    assert [name for name, most in MOST_LINES.items() if lines[name] > most] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", path.read_text(encoding="utf-8"))
    made = {f"../gallery/{example.file}.html" for example in gallery_examples()}  # by `make gallery`
    for target in re.findall(r"\]\((?!https?:)([^)\s]*)\)", text):
        name, _, anchor = target.partition("#")
        other = path.parent / name if name else path
        assert other.exists() or name in made, target
        headings = re.findall(r"^#+ (.*)$", other.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
        slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert not anchor or anchor in slugs, target


STATED = re.compile(
    r"\btimes as (fast|many tokens per second)|\btimes faster|\d ?[x×] (faster|the tokens)", re.IGNORECASE
)
SIZED = re.compile(r"[\d.]+ (M|B|million) |0\.6 ?B")
OTHER = re.compile(r"RMSD|CPU with their start|largest difference")
"""Ratios in which no language model is."""
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "pages").rglob("*.py"))]


def unsized(text: str) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", text)
    return [part for part in paragraphs if STATED.search(part) and not SIZED.search(part) and not OTHER.search(part)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_speed_ratio_names_the_size_of_its_model(path: object) -> None:
    assert unsized(path.read_text(encoding="utf-8")) == []  # type: ignore[attr-defined]


def test_a_verdict_on_a_speed_ratio_names_the_size_of_its_model() -> None:
    stated = [verdict.reason for verdict in load().verdicts if STATED.search(verdict.reason)]
    assert stated and not [reason for reason in stated if unsized(reason)]
    assert all("(2.4 M weights in the layers)" in sized(model) for model in ("demo-qwen", "demo-llama"))
