"""Figures of the demo runs in two checkouts, side by side: `python -m tests.contract.figures BEFORE AFTER [--all]`.

Each checkout's own command line reads its own `data/demo`. Runs are matched by model, LP and descriptors, since their
ids hold the time; an LP's former name counts as its present one. Without `--all` only figures that differ are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PRESENT = {
    "position-blocklist": "group-v2.1",
    "position-blocklist-short": "group-v3.9",
    "position-allowlist": "group-v4.3",
}
IDS = ("run_id", "id", "control", "test")


def asked(checkout: Path, *words: str) -> Any:
    command = [sys.executable, "-m", "engine", *words, "--json"]
    env = os.environ | {"DRIFTSCOPE_STORE": "data/demo"}
    done = subprocess.run(command, cwd=checkout, capture_output=True, text=True, env=env)
    if done.returncode:
        print(f"{checkout}: {' '.join(words)}: {done.stderr.strip()}", file=sys.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else None


def leaves(value: Any, place: str) -> Iterator[tuple[str, float]]:
    """Numbers by their path; rows of a list by what names them."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield place, float(value)
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield from leaves(inner, f"{place}.{key}")
    for number, inner in enumerate(value) if isinstance(value, list) else ():
        name = next((str(inner[key]) for key in ("lp", "name") if key in inner), "") if isinstance(inner, dict) else ""
        yield from leaves(inner, f"{place}[{PRESENT.get(name, name) or number}]")


def figures(checkout: Path) -> dict[str, float]:
    runs = [run for run in asked(checkout, "runs") if run["origin"] == "measured"]
    names = {}
    for run in runs:
        lp = PRESENT.get(run["lp"], run["lp"])
        own = "with-hydrogens" if lp.startswith("group-") else "plain"
        other = run.get("descriptors") not in (None, own)
        names[run["run_id"]] = f"{run['model_alias']} {lp}{' ' + run['descriptors'] if other else ''}"
    found: dict[str, float] = {}
    for run in runs:
        name = names[run["run_id"]]
        found |= leaves({key: value for key, value in run.items() if key not in IDS}, f"{name}: run")
        base = next(id_ for id_, other in names.items() if other == f"{run['model_alias']} none")
        if base != run["run_id"]:
            (row,) = (row for row in asked(checkout, "compare", base, run["run_id"]) if row["part"] == "test")
            found |= leaves(row, f"{name}: compare with none")
        found |= leaves(asked(checkout, "cost-of-lp", run["run_id"], "--kept") or {}, f"{name}: cost-of-lp")
    for model in dict.fromkeys(run["model_alias"] for run in runs):
        found |= leaves(asked(checkout, "advise", "--model", model) or {}, f"{model}: advise")
    return found


def main() -> None:
    before, after = (figures(Path(place)) for place in sys.argv[1:3])
    width = max(map(len, before | after), default=0)
    for place in before | after:
        values = before.get(place), after.get(place)
        if values[0] != values[1] or "--all" in sys.argv:
            print(place.ljust(width), *("-".rjust(14) if value is None else f"{value:14.6g}" for value in values))


if __name__ == "__main__":
    main()
