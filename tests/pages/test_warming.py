"""What a server makes ready before its first reader."""

from __future__ import annotations

import asyncio
import importlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASKED = """
import sys
from engine.chem.molecule_sets import USUAL_COUNT, load_molecule_set
from engine.lp.vocabulary import vocabulary_of
from engine.records import FIXED4
from engine.text.reference import reference_text
from engine.text.tokenizers import BUILT_IN, load_tokenizer
from pages._shared.warming import warm

warm()
misses = vocabulary_of.cache_info().misses
for name in BUILT_IN:
    vocabulary_of(load_tokenizer(name))
print(vocabulary_of.cache_info().misses - misses)
embedded = reference_text.cache_info().misses
for entry in load_molecule_set(limit=USUAL_COUNT):
    reference_text(entry.smiles, FIXED4)
print(reference_text.cache_info().misses - embedded)
print("pages._compare.charts_masks" in sys.modules, "plotly.graph_objs._heatmap" in sys.modules, "torch" in sys.modules)
"""


def test_tokenizers_parts_of_pages_and_plotly_are_ready_and_torch_is_left_to_its_worker() -> None:
    answer = subprocess.run([sys.executable, "-c", ASKED], cwd=ROOT, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["0", "0", "True", "True", "False"]


def test_a_server_begins_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = os.umask(0o077)
    app = importlib.import_module("app")
    os.umask(mask)
    began = threading.Event()
    monkeypatch.setattr(app, "_warm", began.set)
    monkeypatch.setattr(app.st, "get_option", lambda _: True)

    async def start() -> None:
        async with app._opened(app.app):
            assert await asyncio.to_thread(began.wait, 30)

    with ThreadPoolExecutor(1) as pool:  # a thread of browser tests may have a loop that runs
        pool.submit(asyncio.run, start()).result()
