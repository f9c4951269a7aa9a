"""Published COV and MAT, and whether a run may stand next to them: where all that a figure depends on agrees.

What this module does not know is whether a set of references is the one that a paper used: a set says so by its name
(`geom-drugs-test` has all words of GEOM-Drugs and of its split test), and whoever named it vouches for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec

from engine.figures.conventions import BY_NAME, PER_REFERENCE
from engine.figures.coverage_metrics import FIGURES
from engine.figures.words import counted
from engine.paths import DATA, read_toml

FILE = "published_coverage.toml"
Statistic = Literal["mean", "median"]


class Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of a paper's table."""

    name: str
    source: str
    dataset: str
    split: str
    samples: Literal["2K"]
    threshold_ang: float
    statistic: Statistic
    convention: str = ""  # empty: its source does not say how it counts
    conformers: int | None = None  # samples in all, where stated
    cov_r: float | None = None
    cov_p: float | None = None
    mat_r_ang: float | None = None
    mat_p_ang: float | None = None

    def figures(self) -> dict[str, float | None]:
        return {name: getattr(self, name) for name in FIGURES}


@dataclass(frozen=True, slots=True)
class EvaluationSetting:
    """What the figures of a run depend on, besides the convention."""

    references: str  # the set's name; empty: ETKDG's, made here
    samples_per_reference: tuple[float, float]  # the least and the most of any molecule
    threshold_ang: float
    not_asked: int = 0  # molecules of the set that the run was never asked for
    missing: int = 0  # molecules of the set without a conformer, where those that were not asked for are not known
    asked: int | None = None  # samples in all
    statistic: Statistic = "mean"


@cache
def load_published() -> tuple[Published, ...]:
    return read_toml(DATA / FILE, "a file of published figures", _parsed)


def _parsed(document: Mapping[str, Any]) -> tuple[Published, ...]:
    figures = msgspec.convert(document.get("figure", []), tuple[Published, ...])
    if unknown := [figure.convention for figure in figures if figure.convention not in ("", *BY_NAME)]:
        raise ValueError(f"there is no convention {unknown[0]}")
    return figures


def differences(published: Published, setting: EvaluationSetting, convention: str) -> Iterator[str]:
    """In words, each thing in which a run's figures by a convention are not what the published one is; none: they may
    stand next to each other."""
    yield from _differences_of_set(published, setting)
    least, most = setting.samples_per_reference
    if least < PER_REFERENCE:
        share = f"{least:.2g}" if least == most else f"{least:.2g} to {most:.2g}"
        yield f"samples: {share} per reference, not {PER_REFERENCE}"
    if published.conformers is not None and setting.asked not in (None, published.conformers):
        yield f"samples in all: {setting.asked:,}, not {published.conformers:,}"
    if setting.threshold_ang != published.threshold_ang:
        yield f"threshold: {setting.threshold_ang:g} Å, not {published.threshold_ang:g} Å"
    if not published.convention:
        yield "convention: its source does not say how it counts"
    elif convention != published.convention:
        yield f"convention: {convention}, not {published.convention}"
    if setting.statistic != published.statistic:
        yield f"statistic: {setting.statistic}, not {published.statistic}"


def _differences_of_set(published: Published, setting: EvaluationSetting) -> Iterator[str]:
    """In the references, and in which of their molecules count."""
    if not setting.references:
        yield f"references: made by ETKDG, not {published.dataset} {published.split}"
    else:
        words = _words(setting.references)
        if not _words(published.dataset) <= words:
            yield f"references: {setting.references}, not {published.dataset}"
        elif not _words(published.split) <= words:
            yield f"split: {setting.references}, not {published.split}"
    if setting.not_asked:
        yield f"molecules: {counted(setting.not_asked, 'molecule')} of the set were not asked for"
    if setting.missing and published.convention and BY_NAME[published.convention].missing == "left out":
        yield f"molecules: {counted(setting.missing, 'molecule')} of the set have no conformer and are left out"


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def shown_next_to(setting: EvaluationSetting) -> Iterator[tuple[Published, list[str]]]:
    """Each published figure, with what keeps it from standing next to a run that is evaluated in this setting by all
    conventions."""
    for published in load_published():
        yield published, list(differences(published, setting, published.convention))
