"""What a molecule is turned into is valid, is what was asked for, and follows from the draw; MOSES comes checked."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import zipfile
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from engine.errors import AssetError
from tools.training import molecules
from tools.training.molecules import charged, read_moses, stereoisomers

MOLECULES = [
    "CC1C2CCC(C2)C1CN(CCO)C(=O)c1ccc(Cl)cc1",
    "CCCC(NC(=O)c1ccncc1)C(=O)O",
    "CC(=NNc1ccccc1)c1ccc(O)cc1",
    "Cc1nn(CCN2CCOCC2)c(C)c1S(=O)(=O)NC1CCCC1",
]


@given(st.sampled_from(MOLECULES), st.integers(0, 2**64 - 1))
@settings(max_examples=20)
def test_isomers_and_ions_are_what_they_say_and_follow_from_the_draw(smiles: str, draw: int) -> None:
    for maker, marks in ((stereoisomers, ("@", "/")), (charged, ("+", "-]"))):
        made, again = (
            [Chem.MolToSmiles(mol) for mol in islice(maker(Chem.MolFromSmiles(smiles), draw), 3)] for _ in range(2)
        )
        assert made == again
        assert all(any(mark in text for mark in marks) for text in made)


def test_an_acid_with_an_amine_becomes_a_zwitterion_first() -> None:
    first = next(charged(Chem.MolFromSmiles("CN(C)CC(=O)O"), 0))
    assert Chem.MolToSmiles(first) == "C[NH+](C)CC(=O)[O-]"


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
