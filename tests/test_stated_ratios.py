"""A ratio of decoding speeds says the size of the model that it was measured on, in the same paragraph."""

from __future__ import annotations

import re

import pytest

from engine.evidence.verdicts import load
from engine.models.loading import sized
from engine.paths import ROOT

STATED = re.compile(
    r"\btimes as (fast|many tokens per second)|\btimes faster|\d ?[x×] (faster|the tokens)", re.IGNORECASE
)
SIZED = re.compile(r"[\d.]+ (M|B|million) |0\.6 ?B")
OTHER = re.compile(r"RMSD|CPU with their start|largest difference")
"""Ratios in which no language model is."""
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "pages").rglob("*.py"))]


def unsized(text: str) -> list[str]:
    paragraphs = re.split(r"\n\s*\n", text)
    return [part for part in paragraphs if STATED.search(part) and not SIZED.search(part) and not OTHER.search(part)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_speed_ratio_names_the_size_of_its_model(path: object) -> None:
    assert unsized(path.read_text(encoding="utf-8")) == []  # type: ignore[attr-defined]


def test_a_verdict_on_a_speed_ratio_names_the_size_of_its_model() -> None:
    stated = [verdict.reason for verdict in load().verdicts if STATED.search(verdict.reason)]
    assert stated and not [reason for reason in stated if unsized(reason)]
    assert all("(2.4 M weights in the layers)" in sized(model) for model in ("demo-qwen", "demo-llama"))
