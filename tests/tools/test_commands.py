"""Each command of tools that README, docs, data or the Makefile cite runs at a small size."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import ROOT, of_soak
from tests.tools.training.corpus_source import write_source

SMALL = {
    "bench.bins": "--tiny",
    "bench.card": "--tiny --rounds 1 --batch 1 --out {out}/gpu.json",
    "bench.constraint": "--quick",
    "bench.decode": "--quick --model demo-qwen:final --only fast",
    "bench.geometry": "--conformers 10",
    "bench.gpu": "--tiny",
    "bench.logits": "--entries 2000",
    "bench.number_laws": "--models demo-bins --blocks 4 --rounds 1",
    "bench.peers": "--row 1 --rounds 0 --steps 4",
    "bench.processor": "--model demo-qwen --lp shaped --molecules 1",
    "bench.right_molecules": "--model demo-qwen --molecules 2 --repeats 1 --threads 1",
    "bench.rmsd": "--molecules 2 --part 1",
    "bench.rollouts": "--completions 1000 --judged 400 --without 400",
    "bench.scale": "--samples 400 --molecules 4",
    "bench.served": "--steps 4 --steps-only",
    "bench.served_ids": "--model demo-qwen --lp exact --molecules 1 --sampled 4",
    "bench.sizes": "--tiny",
    "bench.store": "--runs 12 --samples 5 --blocks 5",
    "bench.text": "--molecules 20 --repeats 1",
    "bench.traces": "--events 5000 --repeats 1",
    "bench.whole_texts": "--texts 8 --lp exact --temperature 1.0",
    "training.references": "--molecules 2 --out {out}/references.tsv",
    "demo_coverage": "--into {out}/demo",
    "reported": "--into {out}/reported",
    "lost_third": "--model demo-qwen --lane exact --molecules 2 --samples 2 --wide-molecules 1 --wide-samples 2",
}
TRAINING = (
    "corpus --source {out}/source.csv.gz --molecules 24 --random-orders 1 --workers 2 --out {out}/corpus",
    "corpus --source {out}/source.csv.gz --molecules 8 --held-out --out {out}/corpus-held-out",
    "packing --corpus {out}/corpus --out {out}/packed",
    "packing --corpus {out}/corpus-held-out --out {out}/packed-held-out",
    "train --model demo-qwen --texts 40 --tokens-a-step 500 --prompts 2 --threads 1 --data {out}/packed "
    "--held-out {out}/packed-held-out --out {out}/training",
    "ship --checkpoint {out}/training/checkpoint.safetensors --data {out}/packed --out {out}/shipped.safetensors",
    "codes --corpus {out}/corpus --minutes 0.02 0.02 --out {out}/codes",
    "measure --model demo-qwen:final --molecules 1",
    "under_lps --model demo-qwen:final --molecules 1 --corpus {out}/corpus-held-out",
)
"""One after the other: each makes what the next one needs."""


def run(tool: str, words: str, out: Path) -> str:
    command = [sys.executable, "-m", f"tools.{tool}", *words.format(out=out).split()]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "DRIFTSCOPE_STORE": str(out / "store")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@of_soak
@pytest.mark.parametrize("tool", SMALL)
def test_it_runs(tool: str, tmp_path: Path) -> None:
    assert run(tool, SMALL[tool], tmp_path)


@of_soak
def test_a_model_is_made_from_molecules_to_its_card(tmp_path: Path) -> None:
    write_source(tmp_path / "source.csv.gz")
    for command in TRAINING:
        tool, _, words = command.partition(" ")
        run(f"training.{tool}", words, tmp_path)
    assert (tmp_path / "shipped.safetensors").is_file()


def test_every_command_that_is_cited_is_there_and_runs_above() -> None:
    files = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").glob("*.md"), *(ROOT / "data").rglob("*.md")]
    cited = {name for path in files for name in re.findall(r"-m tools\.([a-z_.]+[a-z_])", path.read_text("utf-8"))}
    names = {*SMALL, *(f"training.{command.partition(' ')[0]}" for command in TRAINING), "llama_cpp", "cli_docs"}
    names |= {"training.preference", "demo_served"}  # is tested with pairs of its own; needs vLLM
    assert cited <= names and all(find_spec(f"tools.{name}") for name in names)
