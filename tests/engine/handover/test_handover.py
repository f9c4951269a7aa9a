"""Bundles: the questions' own figures, the worst molecules, a length that is kept, and texts that end no script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rdkit.Geometry import Point3D

from engine.chem.conformers import reference_conformers
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import to_sdf
from engine.errors import AssetError
from engine.evidence.claims import load_claims
from engine.handover import gallery, writing
from engine.handover.collecting import OF_A_RUN, bundle_of
from engine.handover.gallery import examples
from engine.handover.records import MOST_BYTES
from engine.handover.writing import html_of
from engine.paths import ROOT
from engine.questions import ask
from engine.store.provenance import git_commit
from engine.store.schema import TRACE
from engine.store.store import Store
from pages._kit.theme import DARK, LIGHT
from tests.cli import run, run_json
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, write_run

NONE, CUT = demo_run("qwen", "none"), demo_run("qwen", "group-v2.1")
EVIL = "</script><script>document.title = 'planted'</script><!--"


def data_of(page: bytes) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="bundle">(.*?)</script>', page.decode(), re.DOTALL)
    return dict(json.loads(text))


@pytest.fixture(scope="module")
def page() -> bytes:
    return html_of(bundle_of(DEMO_STORE, [CUT], molecules=4))


def test_figures_are_those_of_ask(page: bytes) -> None:
    """To the digit; the command next to an answer gives them again."""
    data = data_of(page)
    assert len(data["answers"]) == len(OF_A_RUN) and data["left_out"] == []
    for key, answer in zip(OF_A_RUN, data["answers"], strict=True):
        words = shlex.split(answer["command"])[3:]
        asked = run_json(*words)
        assert words[:2] == ["ask", key] and asked["answer"] == answer["answer"]
        for table in answer["tables"]:
            rows = asked["rows"] if table["name"] == "main" else asked["tables"][table["name"]]
            assert len(rows) == len(table["values"]) + table["rows_left_out"]
            for row, values in zip(rows, table["values"], strict=False):
                assert [value for value in values if value not in row.values()] == []


def test_molecules_are_the_worst_and_as_they_are_asked_for(page: bytes) -> None:
    data = data_of(page)
    order = ask(DEMO_STORE, "drift_molecules", [CUT]).tables["main"]["sample_id"].to_pylist()
    numbers = [int(molecule["name"].rpartition(" ")[2]) for molecule in data["molecules"]]
    assert numbers == order[:4] and data["molecules_left_out"] == 60
    for molecule in data["molecules"]:
        asked = run_json(*shlex.split(molecule["command"])[3:])
        assert asked["answer"] == molecule["answer"]
        off = molecule["table"]["titles"].index("off by (Å)")
        assert [row["off_ang"] for row in asked["rows"]] == [values[off] for values in molecule["table"]["values"]]
        written = [token["marks"] for token in asked["tables"]["tokens"] if "n" not in token["marks"]]
        assert written == [marks for _, marks, *_ in molecule["tokens"]]
        junk = {str(row["atom"]) for row in asked["rows"] if row["damage"] == "junk"}
        shape = molecule["conformer"]
        assert junk and junk == {atom for atom, fault in shape["marks"].items() if fault == "junk"}
        assert int(shape["block"].splitlines()[3][:3]) == len(shape["atoms"]) and "style=" not in molecule["drawing"]


def test_what_made_it_is_in_it_and_nothing_else_may_run(page: bytes) -> None:
    """The policy names the hashes of what is in the file; 3Dmol.js comes with its licence."""
    data, text = data_of(page), page.decode()
    (source,) = data["sources"]
    assert source["source"].startswith("python -m engine run")
    assert source["git_commit"] == DEMO_STORE.entry(CUT).row["git_commit"]
    assert (
        data["git_commit"] == git_commit()
        and data["versions"]["rdkit"]
        and data["command"].endswith(f"{CUT} --out report.html")
    )
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    parts = re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for _, part in parts}
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert {*re.findall(r"'sha256-([^']+)'", policy)} == hashes and len(hashes) == 3
    assert "3dmol v2.5.5" in text and "University of Pittsburgh" in text and len(page) <= MOST_BYTES


def test_without_3dmol_it_has_drawings_alone() -> None:
    bundle = bundle_of(DEMO_STORE, [f"{CUT}/3"])
    writing.three_d_library.cache_clear()
    with mock.patch.object(writing, "three_d_mol", side_effect=AssetError("missing", "")):
        page = html_of(bundle)
    writing.three_d_library.cache_clear()
    assert data_of(page)["notes"] == [writing.NO_3D] and len(page) < 150_000
    assert "</svg>" in data_of(page)["molecules"][0]["drawing"]


def test_a_comparison_has_the_same_molecule_of_each_run_and_the_shown_one_first() -> None:
    data = data_of(html_of(bundle_of(DEMO_STORE, [NONE, CUT], molecules=4, sample=5)))
    smiles = [molecule["smiles"] for molecule in data["molecules"]]
    assert smiles[0] == smiles[1] and smiles[2] == smiles[3] and data["molecules_left_out"] == 124
    assert [molecule["command"].split()[-1] for molecule in data["molecules"]][:2] == [f"{NONE}/5", f"{CUT}/5"]


def test_it_is_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last molecules go first; so do rows of a table."""
    bundle = bundle_of(DEMO_STORE, [CUT], molecules=6)
    monkeypatch.setattr(writing, "MOST_BYTES", most := len(html_of(bundle)) - 60_000)
    page = html_of(bundle)
    names = [molecule["name"] for molecule in data_of(page)["molecules"]]
    assert len(page) <= most and 3 <= len(names) < 6
    assert names == [molecule.name for molecule in bundle.molecules[: len(names)]]
    assert data_of(page)["molecules_left_out"] + len(names) == 64
    monkeypatch.undo()
    (trace,) = [entry.id for entry in DEMO_STORE.listing(TRACE).entries if "demo-qwen-final-exact" in entry.id]
    rows = ask(DEMO_STORE, "profiles_kernels", [trace]).tables["table"].num_rows
    *_, kernels, timeline = data_of(html_of(bundle_of(DEMO_STORE, [trace])))["answers"]
    (table,) = kernels["tables"]
    assert rows > 100 == len(table["values"]) and table["rows_left_out"] == rows - 100
    assert timeline["left_out"] and not timeline["tables"]


def test_texts_of_others_end_no_script(store: Store) -> None:
    sample = sample_row(0, text=f"[CONFORMER][C]<{EVIL}>[/CONFORMER]", issues=[EVIL], passed=False, clean=False)
    write_run(store, "planted", [sample], [block_row(0, 0, text=EVIL, junk_text=EVIL)], label=EVIL, lp="none")
    page = html_of(bundle_of(store, ["planted"]))
    data = data_of(page)
    assert page.count(b"<script>") == 2 and b"<!--" not in page.partition(b"<body>")[2].partition(b"<script>")[0]
    assert EVIL in data["title"] and EVIL in data["sources"][0]["label"]
    assert EVIL in str(data["molecules"][0]["table"]["values"])


def test_bundle_in_a_terminal(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert run_json("bundle", f"{CUT}/3", "--out", str(out)) == {"bytes": out.stat().st_size, "file": str(out)}
    traces = ["reported-003-qwen", "reported-003-llama"]
    run_json("bundle", "--compare", *traces, "--out", str(out))
    data = data_of(out.read_bytes())
    assert data["answers"][0]["command"].split()[4:] == ["profiles_families", *traces]
    printed = data["command"].replace("report.html", str(tmp_path / "again.html")).split()[3:]
    assert run_json(*printed)["bytes"] == out.stat().st_size
    (tmp_path / "again.html").unlink()
    for words, problem in (
        ([CUT, NONE], "a bundle is of one ID"),
        (["--compare", CUT], "a bundle is of one ID"),
        (["--compare", *traces, traces[0]], "3 traces"),
        (["no-such-run"], "no-such-run"),
        ([f"{CUT}/99"], "no sample 99"),
    ):
        refused = run("bundle", *words, "--out", str(tmp_path / "not.html"))
        assert refused.code == 2 and problem in refused.err
    assert run("bundle", CUT, "--out", str(tmp_path / "report.txt")).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_its_colours_are_the_pages() -> None:
    style = (ROOT / "engine" / "handover" / "page.css").read_text(encoding="utf-8")
    light, dark = style.partition("@media screen")[::2]
    names = {"ground": "background", "line": "grid"}
    for palette, part in ((LIGHT, light), (DARK, dark + light)):
        for name in "junk cut wrong exact neutral surface text muted ground line".split():
            hue = getattr(palette, names.get(name, name))
            assert re.findall(rf"--{name}: (#\w+);", part)[0] == hue, name


def test_a_judged_pool_as_a_report(tmp_path: Path) -> None:
    """Without a store. The wrong one comes first, with the atoms that its check names."""
    mols = [reference_conformers(parse_smiles("CCCC(N)=O"), seed=seed) for seed in range(4)]
    moved = mols[2].GetConformer()
    moved.SetAtomPosition(0, moved.GetAtomPosition(1) + Point3D(0.3, 0.0, 0.0))
    pool, out = tmp_path / "pool.sdf", tmp_path / "report.html"
    pool.write_text(to_sdf([(EVIL, mol) for mol in mols]), encoding="utf-8")
    judged = run_json("judge", str(pool), "--report", str(out), "--workers", "1")
    data = data_of(out.read_bytes())
    assert data["left_out"] == [] and "import" in data["notes"][0] and data["command"].split()[3] == "judge"
    first, *others = data["molecules"]
    assert first["name"].endswith("sample 2") and len(others) == 3 and data["molecules_left_out"] == 0
    wrong = sorted({atom for check in judged["conformers"][2]["failed"] for atom in check["atoms"]})
    assert wrong and sorted(map(int, first["conformer"]["marks"])) == wrong and not others[0]["conformer"]["marks"]
    x = first["table"]["titles"].index("x (Å)")
    positions = moved.GetPositions()[:, 0].tolist()
    assert [values[x] for values in first["table"]["values"]] == pytest.approx(positions, abs=2e-4)


def test_the_gallery_has_a_report_for_each_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each linked from the glossary's word; two of them are made here."""
    listed = examples()
    assert {example.claim for example in listed} == {claim.id for claim in load_claims() if claim.highlight}
    words = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    for example in listed:
        entry = words.partition(f"**{example.word}**: ")[2].partition("\n\n")[0]
        assert f"([an example](../gallery/{example.file}.html))" in entry
    few = [example for example in listed if example.file in ("block", "cut")]
    monkeypatch.setattr(gallery, "examples", lambda: few)
    rows = run_json("bundle", "--gallery", str(tmp_path / "gallery"))
    assert len(listed) == 12 and [row["word"] for row in rows] == ["Block", "Cut"]
    for row, example in zip(rows, few, strict=True):
        data = data_of(Path(row["file"]).read_bytes())
        assert [answer["command"].split()[4] for answer in data["answers"]] == ["evidence_claims", *example.questions]
        assert data["left_out"] == [] and len(data["molecules"]) == example.molecules
