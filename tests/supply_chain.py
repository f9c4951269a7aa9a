"""What is installed: its hashes (``make lock``) and its licences (``make licences``).

.venv/bin/python -m tests.supply_chain lock        writes the locks for this platform and this Python
.venv/bin/python -m tests.supply_chain licences    one line for each package and for each file that ships
"""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support import ROOT

LOCK = ROOT / "requirements.lock"
BESIDE = {
    "requirements-stmol": ("--no-deps",),
    "requirements-dev": (),
    "requirements-bench": ("--no-deps",),
    "requirements-vllm": ("--no-deps",),
}
"""Files of requirements whose packages are installed beside the app's, and how; each has a lock of its own."""
BY_INDEX = ("torch", "nvidia-", "triton")
"""What other indexes have in other builds, for the CPU or a GPU: no one hash is right, so the lock leaves it out."""
SHIPPED = [
    ("3Dmol.js", "static/3Dmol-min.js, by `make prepare`", "BSD-3-Clause: data/LICENSE-3Dmol.txt"),
    ("MOSES' molecules", "data/", "MIT: data/LICENSE-moses.txt"),
]
UNNAMED = {  # what their metadata does not say
    "ipyspeck": "none named in the package",
    "llama_models": "its LICENSE refers to the project's page",
    "stmol": "MIT, by its LICENSE",
}


def report(requirements: str, *more: str) -> Mapping[str, Any]:
    """What pip would install of such a file into an empty environment, with what it would download."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(path), *more]
        command = [sys.executable, "-m", "pip", "install", *options, "-r", str(ROOT / requirements)]
        subprocess.run(command, check=True)
        document: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return document


def lock_lines(packages: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each package that has one file for this platform, wherever it is downloaded."""
    lines = []
    for package in packages:
        name, version = package["metadata"]["name"], package["metadata"]["version"]
        if not name.lower().startswith(BY_INDEX):
            sha256 = package["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.append(f"{name}=={version} --hash=sha256:{sha256}")
    return sorted(lines, key=str.lower)


def write_locks() -> None:
    app = lock_lines(report("requirements.txt")["install"])
    write_lock(LOCK, app)
    for name, more in BESIDE.items():
        write_lock(ROOT / f"{name}.lock", not_in_app(app, lock_lines(report(f"{name}.txt", *more)["install"])))


def not_in_app(app: Iterable[str], lines: Iterable[str]) -> list[str]:
    """Those whose package is not the app's already."""
    names = {line.partition("==")[0] for line in app}
    return [line for line in lines if line.partition("==")[0] not in names]


def write_lock(path: Path, lines: Iterable[str]) -> None:
    where = f"{sysconfig.get_platform()}, Python {sys.version_info.major}.{sys.version_info.minor}"
    head = [
        f"# Made by `make lock` for {where}: the one file of each package that pip takes there.",
        f"# Not in it, since indexes have builds of their own: {', '.join(f'{name}*' for name in BY_INDEX)}.",
        "# `HASHED=1 make ...` installs by it, and then what it leaves out.",
    ]
    path.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


def licence_of(package: importlib.metadata.Distribution) -> str:
    values = {key: package.metadata.get_all(key) or [] for key in ("License-Expression", "Classifier", "License")}
    classifiers = [line.split(" :: ")[-1] for line in values["Classifier"] if line.startswith("License")]
    named = "".join(values["License-Expression"]) or "; ".join(classifiers) or "".join(values["License"]).split("\n")[0]
    return named or UNNAMED.get(package.name, "")


def licences() -> list[tuple[str, str, str]]:
    packages = {package.name.lower(): package for package in importlib.metadata.distributions()}
    return [(package.name, package.version, licence_of(package)) for _, package in sorted(packages.items())] + SHIPPED


def main() -> None:
    match sys.argv[1:]:
        case ["lock"]:
            write_locks()
        case ["licences"]:
            for row in licences():
                print("\t".join(row))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
