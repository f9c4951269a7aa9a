"""Bundles: the questions' own figures, the worst molecules, a length that is kept, and texts that end no script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rdkit.Geometry import Point3D

from engine.chem.conformers import reference_conformers
from engine.chem.smiles import parse_smiles
from engine.chem.structure_files import to_sdf
from engine.errors import AssetError, DriftscopeError, StoreError
from engine.evidence.claims import load_claims
from engine.handover import collecting, gallery, writing
from engine.handover.collecting import OF_A_RUN, bundle_of
from engine.handover.gallery import examples
from engine.handover.records import MOST_BYTES, MoleculeView
from engine.handover.writing import MOST_MISSES, html_of, with_molecules
from engine.paths import ROOT
from engine.questions import ask
from engine.store.provenance import git_commit
from engine.store.schema import TRACE
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
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
    with mock.patch.object(writing, "three_d_mol", side_effect=AssetError("missing", "")):
        page = html_of(bundle)
    assert data_of(page)["notes"] == [writing.NO_3D] and len(page) < 150_000
    assert "</svg>" in data_of(page)["molecules"][0]["drawing"]
    assert data_of(later := html_of(bundle))["notes"] == [] and len(later) > 500_000  # it was brought meanwhile


def test_a_comparison_has_the_same_molecule_of_each_run_and_the_shown_one_first() -> None:
    data = data_of(html_of(bundle_of(DEMO_STORE, [NONE, CUT], molecules=4, sample=5)))
    smiles = [molecule["smiles"] for molecule in data["molecules"]]
    assert smiles[0] == smiles[1] and smiles[2] == smiles[3] and data["molecules_left_out"] == 124
    assert [molecule["command"].split()[-1] for molecule in data["molecules"]][:2] == [f"{NONE}/5", f"{CUT}/5"]


def test_it_is_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large molecule is left out, those behind it are not; none is drawn after some that did not fit."""
    bundle = bundle_of(DEMO_STORE, [CUT], molecules=6)
    monkeypatch.setattr(writing, "MOST_BYTES", most := len(html_of(bundle)) - 60_000)
    with mock.patch.object(collecting, "molecule_view", wraps=collecting.molecule_view) as drawn:
        page = html_of(bundle_of(DEMO_STORE, [CUT], molecules=64))
    kept = [molecule["name"] for molecule in data_of(page)["molecules"]]
    assert len(page) <= most and 3 <= len(kept) < 6 and drawn.call_count <= len(kept) + MOST_MISSES
    assert data_of(page)["molecules_left_out"] + len(kept) == 64
    asked = []

    def views() -> Iterator[MoleculeView]:
        for number, size in enumerate([10 * most, 10, 10 * most, 10] + [most] * 20):
            asked.append(number)
            yield replace(bundle.molecules[0], name=str(number), answer="x" * size, tokens=(), drawing="")

    shortened = with_molecules(replace(bundle, molecules=[], molecules_left_out=24), views())
    assert [view.name for view in shortened.molecules] == ["1", "3"] and shortened.molecules_left_out == 22
    assert len(asked) == 4 + MOST_MISSES - 2
    answers = bundle_of(DEMO_STORE, [CUT], molecules=0)
    monkeypatch.setattr(writing, "MOST_BYTES", len(html_of(replace(answers, answers=[]))) + 100)
    with pytest.raises(DriftscopeError, match="would be empty: it takes over"):
        bundle_of(DEMO_STORE, [f"{CUT}/3"])
    monkeypatch.undo()
    (trace,) = [entry.id for entry in DEMO_STORE.listing(TRACE).entries if "demo-qwen-final-exact" in entry.id]
    rows = ask(DEMO_STORE, "profiles_kernels", [trace]).tables["table"].num_rows
    *_, kernels, timeline = data_of(html_of(bundle_of(DEMO_STORE, [trace])))["answers"]
    (table,) = kernels["tables"]
    assert rows > 100 == len(table["values"]) and table["rows_left_out"] == rows - 100
    assert timeline["left_out"] and not timeline["tables"]


def test_a_damaged_run_is_refused(store: Store) -> None:
    """Without its blocks it would have no junk."""
    for run_id in ("whole", "other", "short"):
        blocks = [block_row(0, 0, kinds=["junk"], junk_text="x")]
        write_run(store, run_id, [sample_row(0, passed=False, clean=False)], blocks, lp="none")
    assert len(bundle_of(store, ["whole", "other"]).sources) == 2
    for run_id, share in (("other", 1), ("short", 0)):
        path = Path(store.entry(run_id).path("blocks"))
        path.chmod(0o600)
        path.write_bytes(b"\xff" * path.stat().st_size * share)
        for ids in ([run_id], ["whole", run_id], [f"{run_id}/0"]):
            with pytest.raises(StoreError, match=r"blocks.*\.parquet: it"):
                bundle_of(store, ids)


def test_of_several_conformers_it_has_the_tokens_of_the_one_in_view(store: Store) -> None:
    first, second = (f"[CONFORMER][C]<{x},0.0,0.0>[O]<1.4,0.0,0.0>[/CONFORMER]" for x in ("0.0", "0.5"))
    ids = [int(id_) for id_ in load_tokenizer("qwen3").encode(first + second)]
    about = {"text": first + second, "token_ids": ids, "clean": False, "clean_each": [True, False]}
    write_run(store, "two", [sample_row(0, **about)], lp="none", tokenizer="qwen3")
    (view,) = bundle_of(store, ["two/0"]).molecules
    assert "".join(piece for piece, *_ in view.tokens) == second and view.name.endswith("sample 0, conformer 2 of 2")


def test_a_label_may_look_like_a_sample(store: Store) -> None:
    write_run(store, "named", [sample_row(0), sample_row(1)], lp="none", label="lab/1")
    assert len(bundle_of(store, ["lab/1"]).molecules) == 2 and len(bundle_of(store, ["named/1"]).molecules) == 1


def test_what_many_runs_leave_out_is_named() -> None:
    """Of thirteen runs twelve panels are drawn, and the molecules of all are counted."""
    runs = [entry.id for entry in DEMO_STORE.listing().entries if entry.row["origin"] == "measured"][:13]
    bundle = bundle_of(DEMO_STORE, runs, molecules=0)
    assert bundle.molecules_left_out == 13 * 64 and bundle.left_out == []
    assert "bars, signed by middle, of 1 more panel'" in str([answer.left_out for answer in bundle.answers])
    assert "--molecules=0" in bundle.command


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
    assert data["left_out"] == [] and data["command"].split()[3:] == ["judge", str(pool), "--report", str(out)]
    first, *others = data["molecules"]
    assert first["name"].endswith("sample 2") and len(others) == 3 and data["molecules_left_out"] == 0
    wrong = sorted({atom for check in judged["conformers"][2]["failed"] for atom in check["atoms"]})
    assert wrong and sorted(map(int, first["conformer"]["marks"])) == wrong and not others[0]["conformer"]["marks"]
    x = first["table"]["titles"].index("x (Å)")
    positions = moved.GetPositions()[:, 0].tolist()
    assert [values[x] for values in first["table"]["values"]] == pytest.approx(positions, abs=2e-4)


@pytest.mark.parametrize("options", [["--strain"], ["--settings=mol", "--energy"]])
def test_the_commands_of_a_judged_pool_give_its_figures(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool, out = tmp_path / "pool.sdf", tmp_path / "report.html"
    pool.write_text(to_sdf([("", reference_conformers(parse_smiles("CCCO"), seed=0))]), encoding="utf-8")
    run_json("judge", str(pool), *options, "--report", str(out))
    data = data_of(out.read_bytes())
    assert data["command"].split()[5:-2] == options
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "fresh"))
    for command in re.findall("`python -m engine (.*?)`", data["notes"][0]):
        run_json(*shlex.split(command))
    asked = run_json(*shlex.split(data["answers"][0]["command"])[3:])
    (figures, *_) = data["answers"][0]["tables"]
    for row, values in zip(asked["tables"][figures["name"]], figures["values"], strict=True):
        assert {*values} <= {*row.values()}
    assert (len(figures["values"]) > 1) == ("--strain" in options)
    (run_id,) = (entry.id for entry in Store.open().listing().entries)
    geometry = "mol" if "--energy" in options else "mol_fast"
    assert geometry in Store.open().entry(run_id).row["judged_with"].split(", ")


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
