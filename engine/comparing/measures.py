"""What is compared sample by sample: each measure with its unit, and which way is better.

A measure is one number per sample, null where it is not known: RMSD where it was not asked for, drift where no block
has a known one, junk where a run has no blocks. Nothing is put in a null's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Better = Literal["less", "more", "neither"]


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of ``reading.RunSamples``.

    Over several samples it is their mean, and a share is a mean of noughts and ones. What is a quotient in each sample
    is one of sums over several: ``over`` names what it is taken over, so that a long answer counts for more.
    """

    name: str
    what: str
    unit: str  # "" for a count, "share" for a share
    better: Better
    over: str = ""  # a column of ``RunSamples.weights``
    caution: str = ""  # what its interval does not know
    doubt: float = 0.0  # a ratio no further from 1 is not believed of one run each, whatever its interval


TIME_CAUTION = (
    "Pace is wall time over samples, or over tokens. No interval covers other load on the machine: repeat both runs "
    "before you trust a difference of a few per cent."
)
TIME_DOUBT = 0.05


def _by_name(*measures: Measure) -> dict[str, Measure]:
    return {measure.name: measure for measure in measures}


MEASURES = _by_name(
    Measure("wall_part_s", "wall time per sample", "s", "less", "", TIME_CAUTION, TIME_DOUBT),
    Measure("tokens", "tokens of a sample", "", "less"),
    Measure("ms_a_token", "wall time per token", "ms", "less", "tokens", TIME_CAUTION, TIME_DOUBT),
    Measure("forced_share", "tokens forced by the LP", "share", "neither", "tokens"),
    Measure("passed", "samples without an issue, by the reports' rule", "share", "more"),
    Measure("decodes", "samples whose every block the group's reader takes, junk or not", "share", "more"),
    Measure("clean", "samples that passed with every block exact or unverified", "share", "more"),
    Measure("usable", "judged samples that are clean, with stereo and geometry right", "share", "more"),
    Measure("stereo_right", "samples with every specified centre and double bond as the SMILES says", "share", "more"),
    Measure("geometry_right", "samples without a failed check of their geometry", "share", "more"),
    Measure("strain_kcal", "above the relaxed conformer, where geometry is right", "kcal/mol", "less"),
    Measure("strain_kcal_per_atom", "the same per heavy atom", "kcal/mol", "less"),
    Measure("strain_moved_ang", "how far heavy atoms move when it relaxes, likewise", "angstrom", "less"),
    Measure("junk_letters", "blocks of a sample with a letter", "", "less"),
    Measure("junk_nonnumeric", "blocks of a sample with anything but digits . , -", "", "less"),
    Measure("cut_blocks", "blocks of a sample closed in the middle of their numbers", "", "less"),
    # Without an LP that counts positions no drift costs anything, so less of it is not better by itself.
    Measure("drift_abs", "mean absolute drift of a block, where known", "tokens", "neither", "drift_blocks"),
    Measure("rmsd_ang", "heavy atoms against the nearest reference conformer", "angstrom", "less"),
)
PACE = ("wall_part_s", "ms_a_token")
MORE = _by_name(
    Measure("bad_blocks", "blocks of a sample that are neither exact nor unverified", "", "less"),
    Measure("drift", "sum of known drifts: positive is junk-prone, negative is cut", "tokens", "neither"),
)
"""Those that a scatter shows too."""
COLUMNS: dict[str, Measure] = MEASURES | MORE
WEIGHTS = tuple(dict.fromkeys(column.over for column in COLUMNS.values() if column.over))
