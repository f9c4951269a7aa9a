"""Molecules for training: the held-out rule and set, pieces, isomers and ions; MOSES comes checked."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.chem.conformers import reference_conformers
from engine.chem.molecule_sets import load_molecule_set, load_run_set
from engine.chem.smiles import parse_smiles
from engine.errors import AssetError
from tests.support import sized
from tools.training import molecules
from tools.training.molecules import is_held_out, read_moses, skeleton

FORMS = [
    ["C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O", "CC([NH3+])C(=O)[O-]", "[2H]C([2H])([2H])C(N)C(=O)O", "CC(N)C(O)O"],
    ["O=c1cc[nH]cc1", "Oc1ccncc1", "O=C1CCNCC1", "Oc1cc[nH+]cc1.[Cl-]", "[18OH]C1CCNCC1"],
    ["CCC(C)=N", "[H]/N=C(/C)CC", "[H]/N=C(\\C)CC", "CCC(C)N", "CCC(C)[NH3+].[O-]C=O"],
]


@pytest.mark.parametrize("forms", FORMS)
def test_forms_of_one_molecule_share_a_skeleton(forms: list[str]) -> None:
    assert len({skeleton(parse_smiles(smiles)) for smiles in forms}) == 1
    assert len({is_held_out(smiles) for smiles in forms}) == 1


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CC=O", "CCO"),
        ("c1ccccc1", "C1CCCCC1"),
        ("CC(=O)Oc1ccccc1C(=O)[O-].[Na+]", "CC(O)OC1CCCCC1C(O)O"),
        ("Cn1cnc2c1c(=O)n(C)c(=O)n2C", "CN1CNC2C1C(O)N(C)C(O)N2C"),
    ],
)
def test_known_skeletons_stay_what_they_are(smiles: str, expected: str) -> None:
    """A new RDKit that orders atoms in another way would silently hold out other molecules."""
    assert skeleton(parse_smiles(smiles)) == expected


@pytest.mark.soak
def test_shipped_tags_follow_the_rule() -> None:
    for entry in load_molecule_set(sized(300, None)):
        assert is_held_out(entry.smiles) == ("held-out" in entry.tags)


def test_the_run_set_is_of_many_kinds_and_none_that_a_model_is_trained_on() -> None:
    smiles = load_run_set()
    assert len(set(smiles)) == len(smiles) == 2_990
    assert all(is_held_out(smi) and parse_smiles(smi).smiles == smi for smi in smiles[:: sized(20, 1)])
    first = list(map(parse_smiles, smiles[:200]))
    for least, most in ((4, 12), (13, 16)):
        assert sum(least <= molecule.heavy_atoms <= most for molecule in first) == 100
    for sign, many in ((r"[@/\\]", 10), (r"[+-]\d?\]", 10), ("c|n", 100), (r"\(", 100)):
        assert sum(re.search(sign, molecule.smiles) is not None for molecule in first) >= many
    for molecule in first[: sized(3, None)]:
        assert reference_conformers(molecule).GetNumConformers() == 1


def test_moses_is_downloaded_once_and_a_wrong_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = gzip.compress(b"SMILES,SPLIT\nCCO,train\nc1ccccc1,train\n", mtime=0)
    monkeypatch.setenv("DRIFTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(molecules, "MEMBER_SHA256", hashlib.sha256(content).hexdigest())
    given = [content]

    def download(command: list[str], **_: object) -> SimpleNamespace:
        with zipfile.ZipFile(Path(command[command.index("--dest") + 1]) / "molsets.whl", "w") as wheel:
            wheel.writestr(molecules.MEMBER, given.pop())
        return SimpleNamespace(returncode=0, stderr=b"")

    monkeypatch.setattr(subprocess, "run", download)
    assert [list(read_moses()), list(read_moses())] == [["CCO", "c1ccccc1"]] * 2
    given.append(b"another")
    monkeypatch.setattr(molecules, "MEMBER_SHA256", "0" * 64)
    with pytest.raises(AssetError, match="has the SHA-256"):
        next(read_moses())
