"""Reports: the questions' own figures, the worst molecules, a length that is kept, and texts that end no script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shlex
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
from engine.handover.collecting import ASKED_OF, bundle_of
from engine.handover.gallery import examples
from engine.handover.molecules import molecule_block
from engine.handover.writing import MOST_BYTES, fitting, page_of
from engine.paths import ROOT
from engine.questions import ask
from engine.store.provenance import git_commit, versions
from engine.store.store import Store
from engine.text.tokenizers import load_tokenizer
from pages._kit.theme import DARK, LIGHT
from tests.cli import run, run_json
from tests.engine.inspection.made import DEMO_STORE, block_row, demo_run, sample_row, write_run

NONE, CUT = demo_run("qwen", "none"), demo_run("qwen", "group-v2.1")
EVIL = "</script><script>document.title = 'planted'</script><!--"
Parts = dict[str, list[Any]]


def data_of(page: bytes) -> Any:
    (text,) = re.findall(r'<script type="application/json" id="bundle">(.*?)</script>', page.decode(), re.DOTALL)
    return json.loads(text)


def by_kind(parts: Any) -> Parts:
    kinds = ("text", "note", "code", "table", "molecule", "tokens")
    return {kind: [view for of, view in parts if of == kind] for kind in kinds}


def sections_of(page: bytes) -> dict[str, Parts]:
    return {section["title"]: by_kind(section["parts"]) for section in data_of(page)["sections"]}


@pytest.fixture(scope="module")
def page() -> bytes:
    return page_of(bundle_of(DEMO_STORE, [CUT], molecules=4))


@pytest.mark.parametrize("ids", [[CUT], [NONE, CUT], ["reported-003-qwen", "reported-003-llama"]])
def test_figures_are_those_of_ask(ids: list[str]) -> None:
    """To the digit; the command next to an answer gives them again."""
    sections = sections_of(page_of(bundle_of(DEMO_STORE, ids, molecules=0)))
    made = sections.pop("How it was made")
    sections.pop("Molecules", None)
    asked_of = ASKED_OF["trace" if "reported" in ids[0] else ("run" if len(ids) == 1 else "runs")]
    assert len(sections) + sum(words.startswith("Left out: ") for words in made["note"]) == len(asked_of)
    for parts in sections.values():
        words = shlex.split(parts["code"][0])[3:]
        asked = run_json(*words)
        assert words[:1] == ["ask"] and words[2:] == ids and asked["answer"] == parts["text"][0]
        tables = [table for table in parts["table"] if table["titles"][0] != "LP"]
        for table in tables:
            rows = asked["tables"][table["name"]] if table["name"] else asked["rows"]
            assert len(rows) == len(table["values"]) + table["rows_left_out"]
            for row, values in zip(rows, table["values"], strict=False):
                assert [value for value in values if value not in row.values()] == []


def test_the_table_of_lps_and_models_has_the_words_of_its_page() -> None:
    parts = sections_of(page_of(bundle_of(DEMO_STORE, [NONE, CUT], molecules=0)))["LPs and models"]
    rows = {row["lp"]: row for row in ask(DEMO_STORE, "compare_matrix", [NONE, CUT]).tables["main"].to_pylist()}
    assert parts["table"][0]["titles"] == ["LP", rows["none"]["model"]]
    for lp, words in parts["table"][0]["words"]:
        pace, *_, usable, damaged = words.split("\n")
        assert pace == f"{rows[lp]['seconds']:.3f} s" and rows[lp]["usable_mark"] == usable.partition("% ")[2]
        assert float(damaged.split()[1]) == pytest.approx(100 * rows[lp]["damaged"], abs=0.06)


def test_molecules_are_the_worst_and_as_they_are_asked_for(page: bytes) -> None:
    section = sections_of(page)["Molecules"]
    order = ask(DEMO_STORE, "drift_molecules", [CUT]).tables["main"]["sample_id"].to_pylist()
    assert [int(molecule["name"].rpartition(" ")[2]) for molecule in section["molecule"]] == order[:4]
    assert "4 of 64 answers" in section["note"][0] and "60 are left out" in section["note"][0]
    for molecule in section["molecule"]:
        parts = by_kind(molecule["parts"])
        asked, (table,) = run_json(*shlex.split(parts["code"][0])[3:]), parts["table"]
        off = table["titles"].index("off by (Å)")
        assert asked["answer"] == parts["text"][0]
        assert [row["off_ang"] for row in asked["rows"]] == [values[off] for values in table["values"]]
        assert table["rows"] == [[row["atom"], row["damage"]] for row in asked["rows"]]
        written = [token["marks"] for token in asked["tables"]["tokens"] if "n" not in token["marks"]]
        assert written == [marks for _, marks, *_ in parts["tokens"][0]]
        junk = {str(row["atom"]) for row in asked["rows"] if row["damage"] == "junk"}
        shape = molecule["conformer"]
        assert junk and junk == {atom for atom, fault in shape["marks"].items() if fault == "junk"}
        assert int(shape["block"].splitlines()[3][:3]) == len(shape["atoms"]) and " style=" not in molecule["drawing"]


def test_what_made_it_is_in_it_and_nothing_else_may_run(page: bytes) -> None:
    """The policy names the hashes of what is in the file; 3Dmol.js comes with its licence."""
    made, text = sections_of(page)["How it was made"], page.decode()
    facts = dict(made["table"][0]["values"])
    assert facts["id"] == CUT and facts["git_commit"] == DEMO_STORE.entry(CUT).row["git_commit"]
    assert facts["source"].startswith("python -m engine run") and str(git_commit()) in made["note"][-1]
    assert f"rdkit {json.loads(versions())['rdkit']}" in made["note"][-1]
    assert made["code"] == [f"python -m engine bundle --molecules=4 {CUT} --out report.html"]
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    parts = re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL)
    hashes = {base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for _, part in parts}
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert {*re.findall(r"'sha256-([^']+)'", policy)} == hashes and len(hashes) == 3
    assert "3dmol v2.5.5" in text and "University of Pittsburgh" in data_of(page)["licence"] and len(page) <= MOST_BYTES


def test_without_3dmol_it_has_drawings_alone() -> None:
    bundle = bundle_of(DEMO_STORE, [f"{CUT}/3"])
    with mock.patch.object(writing, "three_d_mol", side_effect=AssetError("missing", "")):
        page = page_of(bundle)
    assert len(page) < 150_000 and "</svg>" in sections_of(page)["Molecules"]["molecule"][0]["drawing"]
    assert len(page_of(bundle)) > 500_000  # it was brought meanwhile


def test_a_comparison_has_the_same_molecule_of_each_run_and_the_first_is_as_asked() -> None:
    sections = sections_of(page_of(bundle_of(DEMO_STORE, [NONE, CUT], molecules=4, first=5)))
    molecules = sections["Molecules"]["molecule"]
    smiles = [molecule["smiles"] for molecule in molecules]
    assert smiles[0] == smiles[1] and smiles[2] == smiles[3] and smiles[1] != smiles[2]
    commands = [by_kind(molecule["parts"])["code"][0].split()[-1] for molecule in molecules]
    assert commands[:2] == [f"{NONE}/5", f"{CUT}/5"] and commands[2].startswith(NONE)
    assert "--first=5" in sections["How it was made"]["code"][0].split()


def test_it_is_as_long_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A molecule that is too large comes first and is passed over; none is drawn after one that did not fit."""
    bundle = bundle_of(DEMO_STORE, [CUT], molecules=6)
    monkeypatch.setattr(writing, "MOST_BYTES", most := len(page_of(bundle)) - 60_000)
    with mock.patch.object(collecting, "molecule_block", wraps=molecule_block) as drawn:
        page = page_of(bundle_of(DEMO_STORE, [CUT], molecules=64))
    section = sections_of(page)["Molecules"]
    kept = len(section["molecule"])
    assert len(page) <= most and 3 <= kept < 6 and drawn.call_count == kept + 1
    assert section["note"][0].startswith(f"{kept} of 64 answers") and f"{64 - kept} are left out" in section["note"][0]
    empty = replace(bundle, sections=[])
    texts = iter([("text", "x" * size) for size in (10 * most, 10, 20, 10 * most, 30)])
    assert [len(text) for _, text in fitting(empty, texts)] == [10, 20] and len(next(texts)[1]) == 30
    monkeypatch.setattr(writing, "MOST_BYTES", len(page_of(empty)) + 5_000)
    with pytest.raises(DriftscopeError, match="would be empty: it takes over"):
        bundle_of(DEMO_STORE, [f"{CUT}/3"])
    with pytest.raises(DriftscopeError, match="and a report has at most"):
        page_of(bundle)


def test_a_damaged_run_is_refused(store: Store) -> None:
    """Without its blocks it would have no junk."""
    for run_id in ("whole", "other", "short"):
        blocks = [block_row(0, 0, kinds=["junk"], junk_text="x")]
        write_run(store, run_id, [sample_row(0, passed=False, clean=False)], blocks, lp="none")
    assert len(sections_of(page_of(bundle_of(store, ["whole", "other"])))["How it was made"]["table"]) == 2
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
    (molecule,) = sections_of(page_of(bundle_of(store, ["two/0"])))["Molecules"]["molecule"]
    (tokens,) = by_kind(molecule["parts"])["tokens"]
    assert "".join(piece for piece, *_ in tokens) == second and molecule["name"].endswith("0, conformer 2 of 2")


def test_a_report_of_a_branch_says_that_it_is_one(store: Store) -> None:
    write_run(store, "branches", [sample_row(0), sample_row(1)], lp="none", branch_of="removed/3", branch_at=40)
    for name in ("branches", "branches/0"):
        sections = sections_of(page_of(bundle_of(store, [name])))
        facts = dict(sections["How it was made"]["table"][0]["values"])
        assert (facts["branch_of"], facts["branch_at"]) == ("removed/3", "40")
        asked = sections["How much does this token decide?"]
        assert asked["text"][0] == ask(store, "drift_branches", ["branches"]).answer
        assert len(asked["table"][0]["values"]) == 2


def test_a_label_may_look_like_a_sample(store: Store) -> None:
    write_run(store, "named", [sample_row(0), sample_row(1)], lp="none", label="lab/1")
    for name, count in (("lab/1", 2), ("named/1", 1)):
        assert len(sections_of(page_of(bundle_of(store, [name])))["Molecules"]["molecule"]) == count


def test_texts_of_others_end_no_script(store: Store) -> None:
    sample = sample_row(0, text=f"[CONFORMER][C]<{EVIL}\u202e>[/CONFORMER]", issues=[EVIL], passed=False, clean=False)
    write_run(store, "planted", [sample], [block_row(0, 0, text=EVIL, junk_text=EVIL)], label=EVIL, lp="none")
    page = page_of(bundle_of(store, ["planted"]))
    sections = sections_of(page)
    assert page.count(b"<script>") == 2 and b"<!--" not in page.partition(b"<body>")[2].partition(b"<script>")[0]
    assert EVIL in data_of(page)["title"] and "\u202e" not in page.decode()
    assert dict(sections["How it was made"]["table"][0]["values"])["label"] == EVIL
    assert EVIL in str(by_kind(sections["Molecules"]["molecule"][0]["parts"])["table"][0]["values"])


def test_bundle_in_a_terminal(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert run_json("bundle", f"{CUT}/3", "--out", str(out)) == {"bytes": out.stat().st_size, "file": str(out)}
    traces = ["reported-003-qwen", "reported-003-llama"]
    run_json("bundle", "--compare", *traces, "--out", str(out))
    command = sections_of(out.read_bytes())["How it was made"]["code"][0]
    printed = command.replace("report.html", str(tmp_path / "again.html")).split()[3:]
    assert run_json(*printed)["bytes"] == out.stat().st_size
    (tmp_path / "again.html").unlink()
    for words, problem in (
        ([CUT, NONE], "a bundle is of one ID"),
        (["--compare", CUT], "a bundle is of one ID"),
        (["--compare", *traces, "demo-qwen-final-exact"], "not 3"),
        (["no-such-run"], "no-such-run"),
        ([f"{CUT}/99"], "no sample 99"),
        ([CUT, "--first", "64"], "no run here has a sample 64"),
        ([f"{CUT}/3", "--first", "3"], "--first is of runs, not of a sample"),
        (["--compare", CUT, CUT], "is given twice"),
        (["--compare", CUT, NONE, CUT], "is given twice"),
    ):
        refused = run("bundle", *words, "--out", str(tmp_path / "not.html"))
        assert refused.code == 2 and problem in refused.err, refused.err
    assert run("bundle", CUT, "--out", str(tmp_path / "report.txt")).code == 2
    assert "a gallery is of what ships" in run("bundle", CUT, "--gallery", str(tmp_path / "gallery")).error
    assert "report.html' is no folder" in run("bundle", "--gallery", str(out)).error
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_its_colours_are_the_pages() -> None:
    style = (ROOT / "engine" / "handover" / "page.css").read_text(encoding="utf-8")
    names = {"ground": "background", "line": "grid"}
    for name in "junk cut wrong exact neutral surface text muted ground line".split():
        light, dark = (getattr(palette, names.get(name, name)) for palette in (LIGHT, DARK))
        expected = light if light == dark else f"light-dark({light}, {dark})"
        assert f"--{name}: {expected};" in style, name


def test_a_judged_pool_as_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a store. The wrong one comes first, with the atoms that its check names; the commands that the report
    prints give its figures."""
    mols = [reference_conformers(parse_smiles("CCCC(N)=O"), seed=seed) for seed in range(4)]
    moved = mols[2].GetConformer()
    moved.SetAtomPosition(0, moved.GetAtomPosition(1) + Point3D(0.3, 0.0, 0.0))
    pool, out = tmp_path / "pool.sdf", tmp_path / "report.html"
    pool.write_text(to_sdf([(EVIL, mol) for mol in mols]), encoding="utf-8")
    judged = run_json("judge", str(pool), "--settings=mol", "--strain", "--report", str(out), "--workers", "1")
    sections = sections_of(out.read_bytes())
    about = sections["The file"]
    assert about["code"][0].split()[3:] == ["judge", str(pool), "--settings=mol", "--strain", "--report", str(out)]
    first, *others = sections["Molecules"]["molecule"]
    assert first["name"].endswith("sample 2") and len(others) == 3 and not sections["Molecules"]["note"]
    wrong = sorted({atom for check in judged["conformers"][2]["failed"] for atom in check["atoms"]})
    assert wrong and sorted(map(int, first["conformer"]["marks"])) == wrong and not others[0]["conformer"]["marks"]
    (table,) = by_kind(first["parts"])["table"]
    positions = moved.GetPositions()[:, 0].tolist()
    x = table["titles"].index("x (Å)")
    assert [values[x] for values in table["values"]] == pytest.approx(positions, abs=2e-4)
    monkeypatch.setenv("DRIFTSCOPE_STORE", str(tmp_path / "fresh"))
    for words in re.findall("`python -m engine (.*?)`", about["note"][0]):
        run_json(*shlex.split(words))
    figures = sections["Side by side"]
    asked = run_json(*shlex.split(figures["code"][0])[3:])
    for row, values in zip(asked["tables"]["side by side"], figures["table"][0]["values"], strict=True):
        assert {*values} <= {*row.values()}
    (entry,) = Store.open().listing().entries
    assert "mol" in entry.row["judged_with"].split(", ") and len(figures["table"][0]["values"]) > 1


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
        sections = sections_of(Path(row["file"]).read_bytes())
        asked = [part.split()[4] for parts in sections.values() for part in parts["code"] if " ask " in part]
        assert asked == ["evidence_claims", *example.questions]
        assert len(sections.get("Molecules", {"molecule": []})["molecule"]) == example.molecules
