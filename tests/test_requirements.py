"""The pins: complete, exact, installed as written, and each importable under its own name."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import supply_chain
from tests.support import ROOT, of_soak

PIN = re.compile(r"([A-Za-z0-9][\w.-]*)==(\d[\w.]*)")


def lines(path: Path) -> list[str]:
    without_comments = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in without_comments if line and not line.startswith("-r ")]


def pins(name: str) -> dict[str, str]:
    matches = [(line, PIN.fullmatch(line)) for line in lines(ROOT / name)]
    loose = [line for line, match in matches if match is None]
    assert not loose, f"{name}: not pinned by ==: {loose}"
    return {match[1]: match[2] for _, match in matches if match}


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-stmol.txt", "requirements-dev.txt"])
def test_the_environment_holds_the_pinned_versions(name: str) -> None:
    # A build may add a local part to the version that was asked for, as torch's CPU build does: 2.13.0+cpu.
    installed = {package: importlib.metadata.version(package).partition("+")[0] for package in pins(name)}
    assert installed == pins(name)


# --- the installed engine ---------------------------------------------------------------------------------------------

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements(*extras: str) -> dict[str, Requirement]:
    chosen = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    return {requirement.name: requirement for requirement in map(Requirement, [*PROJECT["dependencies"], *chosen])}


def test_what_an_install_takes_holds_the_tested_versions() -> None:
    pinned = {
        name: version
        for file in (f"requirements{part}.txt" for part in ("", "-stmol", "-dev", "-xtb", "-parity"))
        for name, version in pins(file).items()
    }
    everything = requirements(*PROJECT["optional-dependencies"])
    assert {name: pinned[name] for name, wanted in everything.items() if pinned[name] not in wanted.specifier} == {}
    assert set(pins("requirements.txt")) <= set(everything)


def test_the_engine_alone_brings_neither_the_app_nor_ray() -> None:
    assert not {"streamlit", "plotly", "stmol", "ray", "submitit"} & set(requirements())
    imported = {
        name.partition(".")[0]
        for path in (ROOT / "engine").rglob("*.py")
        if path.name not in ("vllm.py", "kernels.py")  # by vLLM alone, in its own environment; where there is Triton
        for node in ast.parse(path.read_text(encoding="utf-8")).body  # what is asked for on import, not on use
        for name in _imported(node)
    }
    ours = {name.replace("-", "_").replace("pillow", "PIL") for name in requirements()} | {"engine"}
    ours |= {"regex", "tokenizers"}  # which transformers requires
    assert imported <= ours | sys.stdlib_module_names


def _imported(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


@of_soak
def test_an_installed_engine_finds_what_ships_and_keeps_runs_with_the_user(tmp_path: Path) -> None:
    """As the wheel lays it out: ``data/`` in the package, no checkout around it."""
    site = tmp_path / "site"
    shutil.copytree(ROOT / "engine", site / "engine", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "engine" / "_data").symlink_to(ROOT / "data")
    environment = {**os.environ, "PYTHONPATH": str(site), "XDG_DATA_HOME": str(tmp_path / "user")}
    environment.pop("DRIFTSCOPE_STORE", None)
    argv = ("run", "CO", "--model", "demo-qwen", "--json")
    code = "import sys; from engine.cli.main import main; sys.exit(main())"
    made = subprocess.run([sys.executable, "-c", code, *argv], cwd=tmp_path, env=environment, capture_output=True)
    assert made.returncode == 0, made.stderr
    (row,) = json.loads(made.stdout)
    assert (tmp_path / "user" / "driftscope" / "store" / "runs" / f"run_id={row['run_id']}").is_dir()


LOADED_ALONE = """
import importlib.abc, importlib.metadata, re, sys
allowed = set(sys.argv[1].split())
owners = importlib.metadata.packages_distributions()
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        names = {re.sub("[-_.]+", "-", owner).lower() for owner in owners.get(name.partition(".")[0], ())}
        if names and not names & allowed:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import stmol
stmol.makeobj, stmol.add_model, stmol.showmol
"""


def test_stmol_loads_with_what_the_two_commands_install_and_nothing_more() -> None:
    """As in a new environment, whatever is installed in this one."""
    allowed = locked(supply_chain.LOCK) | normal(pins("requirements-stmol.txt"))
    assert not {"jupyterlab", "notebook", "nbconvert"} & set(allowed)
    command = [sys.executable, "-c", LOADED_ALONE, " ".join(allowed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    asked = [Requirement(line) for line in importlib.metadata.requires("stmol") or ()]
    ours = pins("requirements.txt") | pins("requirements-stmol.txt")
    assert [need.name for need in asked if ours[need.name] not in need.specifier] == []


# --- the lock and the licences --------------------------------------------------------------------------------------


def normal(pinned: dict[str, str]) -> dict[str, str]:
    return {re.sub("[-_.]+", "-", name).lower(): version for name, version in pinned.items()}


def locked(path: Path) -> dict[str, str]:
    versions = dict(re.findall(r"^(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}$", path.read_text(), re.MULTILINE))
    assert len(versions) == len(lines(path)), "each line has one hash, and no package is there twice"
    return normal(versions)


def test_the_lock_has_a_hash_for_every_pin_but_torchs() -> None:
    actual, wanted = locked(supply_chain.LOCK), normal(pins("requirements.txt"))
    assert not any(name.startswith(supply_chain.BY_INDEX) for name in actual)
    del wanted["torch"]
    assert {name: actual.get(name) for name in wanted} == wanted


@pytest.mark.parametrize("name", supply_chain.BESIDE)
def test_the_locks_beside_it_have_what_it_lacks(name: str) -> None:
    app, extra = locked(supply_chain.LOCK), locked(ROOT / f"{name}.lock")
    assert not app.keys() & extra.keys()
    wanted = normal(pins(f"{name}.txt"))
    wanted.pop("torch", None)
    assert {package: (app | extra).get(package) for package in wanted} == wanted


def test_every_package_has_a_licence() -> None:
    assert [name for name, _, licence in supply_chain.licences() if not licence] == []
