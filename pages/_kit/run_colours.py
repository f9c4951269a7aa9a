"""A colour for each stored run, the same wherever the run is drawn: its LP is the hue, grey is no LP.

Runs of one LP differ in lightness, from the fourth on in hue too, in the order in which they were made, so that a new
run changes no other's colour; a deleted run, and an imported one with an older date, move later ones of their LP and
origin. What was reported is paler than what was measured. With dozens of runs some colours are near each other, with
hundreds of one LP some are the same: a screen has no more.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, datetime
from functools import cache

from engine.lp_records import FORMER, LPS, NO_LP, stored_lp
from engine.store.entries import Entry, run_value
from engine.store.store import Store, is_temporary
from pages._kit.theme import DARK, palette

FIRST_HUE, GOLDEN_ANGLE, GREY_HUE = -37.5, 137.508, 250.0
LIGHTS, DARKS = (0.52, 0.635, 0.40), (0.74, 0.60, 0.88)  # lightness of the first three in either theme
CHROMA = {"measured": 0.14, "imported": 0.09, "reported": 0.05}
GREY, TINTED = 0.012, 0.045
ORIGIN_STEP = 0.035  # of lightness: greys have too little chroma to tell origins by
TRIES = 8  # for a colour that no run has yet


def run_colours(store: Store) -> dict[str, str]:
    """By the id of a run, for the theme that the reader sees. By LP and origin, in the order of age."""
    is_dark = palette() is DARK
    colours: dict[str, str] = {}
    taken: set[str] = set()
    counts: Counter[tuple[str, str]] = Counter()
    for entry in sorted(store.listing().entries, key=_age):
        origin = entry.row["origin"]
        lp = stored_lp(str(run_value(entry, "lp"))).name.removeprefix(FORMER)
        group = lp, origin if origin in CHROMA else "measured"
        for _ in range(TRIES):
            colours[entry.id] = _colour(*group, counts[group], is_dark)
            counts[group] += 1
            if colours[entry.id] not in taken:
                break
        taken.add(colours[entry.id])
    return colours


def _age(entry: Entry) -> tuple[bool, datetime, str]:
    """What no rewrite of a run changes. Those that are not stored come last: some pages do not have them."""
    return is_temporary(entry), entry.row.get("created_at") or datetime.min.replace(tzinfo=UTC), entry.id


@cache
def _colour(lp: str, origin: str, place: int, is_dark: bool) -> str:
    round_, level = divmod(place, 3)
    # 0, 1/2, 1/4, 3/4, 1/8 ... of a turn, van der Corput's sequence: however many there are, they are spread over it.
    turn = 360 * sum(int(digit) / 2 ** (at + 1) for at, digit in enumerate(reversed(f"{round_:b}")))
    step = ORIGIN_STEP * [*CHROMA].index(origin)
    lightness = DARKS[level] + step if is_dark else LIGHTS[level] - step
    if lp == NO_LP:
        return oklch(lightness, TINTED if round_ else GREY, GREY_HUE + turn)
    # Those that runs have most come first: by the golden angle the first ones are far from each other.
    names = sorted(LPS, key=lambda name: not LPS[name].is_candidate)
    rank = names.index(lp) if lp in LPS else len(names)
    return oklch(lightness, CHROMA[origin], FIRST_HUE + GOLDEN_ANGLE * rank + turn)


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """A colour of Björn Ottosson's OKLCH, with less chroma where a screen has not that much."""
    a, b = chroma * math.cos(math.radians(hue)), chroma * math.sin(math.radians(hue))
    cones = [(lightness + of_a * a + of_b * b) ** 3 for of_a, of_b in _TO_CONES]
    linear = [sum(share * cone for share, cone in zip(row, cones, strict=True)) for row in _TO_RGB]
    if chroma > 0.001 and not all(0 <= part <= 1 for part in linear):
        return oklch(lightness, 0.95 * chroma, hue)
    parts = [12.92 * part if part <= 0.0031308 else 1.055 * part ** (1 / 2.4) - 0.055 for part in linear]
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


_TO_CONES = ((0.3963377774, 0.2158037573), (-0.1055613458, -0.0638541728), (-0.0894841775, -1.2914855480))
_TO_RGB = (
    (4.0767416621, -3.3077115913, 0.2309699292),
    (-1.2684380046, 2.6097574011, -0.3413193965),
    (-0.0041960863, -0.7034186147, 1.7076147010),
)
