"""A published figure stands next to a run only where all that it depends on agrees: thirteen planted mismatches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from engine.comparing.published import EvaluationSetting, Published, differences, load_published, shown_next_to

AGREES = EvaluationSetting("geom-drugs-test", (2.0, 2.0), 0.75, asked=197_694)
BY_NAME = {published.name: published for published in load_published()}
DIFFUSION, LANGUAGE = BY_NAME["Torsional Diffusion"], BY_NAME["3DMolGen, 2 epochs, no LP"]


def test_where_all_agrees_nothing_differs() -> None:
    stated = [published for published in load_published() if published.convention]
    assert len(stated) >= 5 and len(load_published()) >= 8
    assert [list(differences(published, AGREES, published.convention)) for published in stated] == [[]] * len(stated)
    more = replace(AGREES, references="GEOM-DRUGS_test-2024", samples_per_reference=(2.0, 3.5))
    assert not list(differences(DIFFUSION, more, "torsional-diffusion"))


MISMATCHES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"references": ""}, {}, "references: made by ETKDG"),
    ({"references": "mine"}, {}, "references: mine, not GEOM-Drugs"),
    ({"references": "geom-qm9-test"}, {}, "references: geom-qm9-test, not GEOM-Drugs"),
    ({"references": "geom-drugs-valid"}, {}, "split: geom-drugs-valid, not test"),
    ({"not_asked": 12}, {}, "molecules: 12 molecules of the set were not asked for"),
    ({"missing": 12}, {"convention": "etflow"}, "molecules: 12 molecules of the set have no conformer"),
    ({"samples_per_reference": (1.0, 1.0)}, {}, "samples: 1 per reference, not 2"),
    ({"samples_per_reference": (0.1, 2.0)}, {}, "samples: 0.1 to 2 per reference, not 2"),
    ({"threshold_ang": 0.5}, {}, "threshold: 0.5 Å, not 0.75 Å"),
    ({}, {"threshold_ang": 1.25}, "threshold: 0.75 Å, not 1.25 Å"),
    ({}, {"convention": ""}, "convention: its source does not say how it counts"),
    ({}, {"statistic": "median"}, "statistic: mean, not median"),
]
"""A run's setting, a published figure's keys, and what the refusal begins with."""


@pytest.mark.parametrize(("setting", "published", "names"), MISMATCHES)
def test_a_mismatch_is_refused_by_its_name(setting: dict[str, Any], published: dict[str, Any], names: str) -> None:
    figure = msgspec.structs.replace(DIFFUSION, **published)
    (said,) = differences(figure, replace(AGREES, **setting), figure.convention)
    assert said.startswith(names)


def test_another_convention_is_refused_by_its_name() -> None:
    assert list(differences(DIFFUSION, AGREES, "runner")) == ["convention: runner, not torsional-diffusion"]


def test_the_number_of_samples_counts_where_it_is_stated() -> None:
    (said,) = differences(LANGUAGE, replace(AGREES, asked=64), "runner")
    assert said == "samples in all: 64, not 197,694"
    assert not list(differences(DIFFUSION, replace(AGREES, asked=64), "torsional-diffusion"))


def test_what_ships_is_the_table_that_papers_state() -> None:
    """Typed once more, from the papers' tables."""
    stated = {
        "Torsional Diffusion": (72.7, 55.2, 0.582, 0.778),
        "ET-Flow": (79.5, 74.4, 0.452, 0.541),
        "DiTMC-L": (79.2, 77.8, 0.432, 0.470),
        "AvgFlow-DiT-L": (82.0, 75.7, 0.409, 0.516),
        "MCF-L": (84.7, 66.8, 0.390, 0.618),
        "NExT-Mol DMT-L": (85.8, None, 0.375, None),
        "3DMolGen, 2 epochs, no LP": (68.1, 49.7, 0.60, 0.91),
        "3DMolGen, 4 epochs, no LP": (68.3, 52.4, 0.59, 0.82),
    }

    def row(figure: Published) -> list[float | None]:
        shares = [None if share is None else round(100 * share, 1) for share in (figure.cov_r, figure.cov_p)]
        return [*shares, figure.mat_r_ang, figure.mat_p_ang]

    assert {name: row(figure) for name, figure in BY_NAME.items()} == {name: list(row) for name, row in stated.items()}
    assert {figure.threshold_ang for figure in BY_NAME.values()} == {0.75}


def test_each_is_shown_or_says_why_not() -> None:
    shown = {figure.name: different for figure, different in shown_next_to(AGREES)}
    assert [name for name, different in shown.items() if not different] == [
        figure.name for figure in load_published() if figure.convention
    ]
    assert all(different for _, different in shown_next_to(replace(AGREES, threshold_ang=0.5)))
