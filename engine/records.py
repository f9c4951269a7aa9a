"""The shared records: frozen dataclasses that check themselves, in the project's vocabulary.

Coordinates are in angstrom. Positions in text count characters from 0; ``end`` is exclusive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from rdkit import Chem

Role = Literal["COPY", "FREE", "BOUNDARY"]
Kind = Literal[
    "exact", "letters", "punctuation", "extra_digit", "fourth_number", "missing_comma", "trailing_mark", "missing_z",
    "integer", "cut", "unverified",
]  # fmt: skip
Descriptors = Literal["plain", "with-hydrogens"]
"""How enriched text writes a bare heteroatom that has hydrogens: ``[O]``, ``[N]``, or ``[OH]``, ``[NH2]``."""
DESCRIPTORS: tuple[Descriptors, ...] = get_args(Descriptors)
SPELLED: Mapping[Descriptors, str] = {"plain": "[O], [N] (plain)", "with-hydrogens": "[OH], [NH2] (with-hydrogens)"}
ValueFlag = Literal["non_finite", "outlier", "zero", "repeated", "denormal", "pointer", "constant"]
"""What a logged value can be flagged with."""

MOST_DECIMALS = 12
MOST_INTEGER_DIGITS = 6


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """How a model writes a coordinate: truncated to ``most_decimals``, trailing zeros dropped to ``least_decimals``.

    Where these are none, the point goes with the last zero: ``0``, ``-2``, ``0.25``.
    """

    least_decimals: int = 4
    most_decimals: int = 4
    most_integer_digits: int = 3

    def __post_init__(self) -> None:
        if not 0 <= self.least_decimals <= self.most_decimals <= MOST_DECIMALS or not self.most_decimals:
            decimals = f"{self.least_decimals}, {self.most_decimals}"
            raise ValueError(f"decimals must satisfy 0 <= least <= most <= {MOST_DECIMALS}, most not 0, got {decimals}")
        if not 1 <= self.most_integer_digits <= MOST_INTEGER_DIGITS:
            raise ValueError(f"most_integer_digits is 1 to {MOST_INTEGER_DIGITS}, not {self.most_integer_digits}")

    @property
    def most_ang(self) -> float:
        """What a coordinate has to stay below."""
        return 10.0**self.most_integer_digits

    @property
    def floor_ang(self) -> float:
        """RMSD of a conformer as written from the conformer itself: root mean square of what truncation takes."""
        return 10.0**-self.most_decimals

    def value_ang(self, number: str) -> float | None:
        """The coordinate that a complete number means; None where it means none."""
        return float(number)

    def is_full(self, number: str) -> bool:
        """Whether it has as many decimals as the model ever writes, so that nothing can follow: ``0.0590`` of four."""
        return len(number.partition(".")[2]) >= self.most_decimals

    @property
    def words(self) -> str:
        """Which writer it is."""
        if self.least_decimals == self.most_decimals:
            return f"always {self.most_decimals} decimal{'s' if self.most_decimals > 1 else ''}"
        dropped = "further zeros" if self.least_decimals else "trailing zeros and a trailing point"
        return f"{self.least_decimals} to {self.most_decimals} decimals, {dropped} dropped"


@dataclass(frozen=True, slots=True)
class BinFormat(NumberFormat):
    """Numbers of bins in place of decimals: ``0512`` is the 512th bin of ``bin_ang``, counted from ``-range_ang`` on.

    All have the same number of digits: no sign, no point, and no length of its own.
    """

    least_decimals: int = 0
    bin_ang: float = 0.042
    range_ang: float = 21.0

    def __post_init__(self) -> None:
        count = 2 * self.range_ang / self.bin_ang if 0 < self.bin_ang <= self.range_ang < 10**6 else math.inf
        if count >= 10**MOST_INTEGER_DIGITS or abs(count - round(count)) > 1e-6:
            subject = f"bins of {self.bin_ang:g} over {-self.range_ang:g} to {self.range_ang:g} angstrom"
            raise ValueError(f"{subject} are not a whole number of bins below {10**MOST_INTEGER_DIGITS:,}")

    @property
    def bins(self) -> int:
        return round(2 * self.range_ang / self.bin_ang)

    @property
    def digits(self) -> int:
        return max(3, len(str(self.bins)))

    @property
    def most_ang(self) -> float:
        return self.range_ang

    @property
    def floor_ang(self) -> float:
        """Each axis is off by -bin / 2 to bin / 2, evenly: sqrt(3 * bin**2 / 12)."""
        return self.bin_ang / 2

    def number_of(self, value_ang: float) -> str:
        """As ``numpy.digitize`` counts: the first bin is 1."""
        return f"{min(int((value_ang + self.range_ang) / self.bin_ang) + 1, self.bins):0{self.digits}d}"

    def value_ang(self, number: str) -> float | None:
        """The centre of the bin."""
        is_bin = number.isdecimal() and len(number) == self.digits and 1 <= int(number) <= self.bins
        return round((int(number) - 0.5) * self.bin_ang - self.range_ang, 9) if is_bin else None

    def is_full(self, number: str) -> bool:
        return len(number) >= self.digits

    @property
    def words(self) -> str:
        return f"{self.bins:,} bins of {self.bin_ang:g} Å from {-self.range_ang:g} to {self.range_ang:g} Å"


def read_number_format(stored: Mapping[str, Any]) -> NumberFormat:
    """The format from its fields, as a run's sheet has them; TypeError or ValueError where they are none."""
    return (BinFormat if "bin_ang" in stored else NumberFormat)(**stored)


FIXED4 = NumberFormat()
"""Always four decimals: the format's first form."""
TRIMMED4 = NumberFormat(least_decimals=1)
"""One to four decimals, further trailing zeros dropped, as the embedded models write them."""
SHORTEST4 = NumberFormat(least_decimals=0)
"""Up to four decimals, trailing zeros and then a trailing point dropped, as the reports' models write them."""
WIDEST = NumberFormat(0, MOST_DECIMALS, MOST_INTEGER_DIGITS)
"""What any model may write: all that reads as a number at all."""


@dataclass(frozen=True, slots=True)
class Molecule:
    """A molecule ready for a template: canonical SMILES and what is at each atom, in text order."""

    smiles: str
    source: str  # what the user typed
    descriptors: tuple[str, ...]  # bracketed, one an atom of the SMILES text: "[C]", "[C@@H]"
    elements: tuple[str, ...]
    heavy_atoms: int
    mol: Chem.Mol = field(compare=False, repr=False)  # hydrogens suppressed, atoms in text order

    @property
    def atoms(self) -> int:
        return len(self.descriptors)


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a text. ``piece`` is printable: bytes that are no whole character read ``\\xe5``."""

    id: int
    piece: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Block:
    """One generated block against its template: a row of the table ``blocks``."""

    block: int
    atom: int  # index in SMILES text order
    element: str
    text: str  # between the brackets, as generated
    x: float | None
    y: float | None
    z: float | None
    template_free: int
    needed: int | None  # None where only the model could say
    drift: int | None
    kinds: tuple[Kind, ...]
    junk_text: str
    junk_tokens: int
    continued_text: str | None = None
    conformer: int = 1  # of the answer, from 1


@dataclass(frozen=True, slots=True)
class Check:
    """What is right and wrong with one generated answer."""

    passed: bool  # the reports' rule: no issue named; junk may pass
    decodes: bool  # the runner's rule: the group's reader takes every block, junk or not
    clean: bool  # passed, one block an atom, and every block exact or unverified
    issues: tuple[str, ...]
    parsed: bool
    parse_error: str | None
    same_graph: bool
    exact_match: bool  # the SMILES as written, not only the graph
    extracted_smiles: str  # the answer without its blocks
    generated_smiles: str | None  # the same, canonical; None where it does not parse
    has_real_coordinates: bool
    blocks: int
    unverified_blocks: int
    conformers: int = 1  # of the answer, each of which was checked
    why_not_clean: tuple[str, ...] = ()  # besides the issues: each damaged block, and the conformer that it is of


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """One thing that is wrong with a molecule in space, at which atoms of its text."""

    check: str
    atoms: tuple[int, ...]
    detail: str


@dataclass(frozen=True, slots=True)
class MoleculeVerdict:
    """Whether a molecule is right in space, besides the `Check` of its text."""

    stereo_sites: int
    stereo_sites_right: int
    stereo_right: bool | None  # None where the SMILES specifies nothing, or not every symmetry of it was tried
    geometry_right: bool | None  # None where nothing could be judged
    failed: tuple[FailedCheck, ...]
    strain_kcal: float | None = None  # None where not asked for
    strain_moved_ang: float | None = None
    strain_field: str | None = None

    def is_usable(self, clean: bool) -> bool:
        """Clean text, stereo right or none specified, geometry right; what could not be judged is not right."""
        return clean and (self.stereo_right is True or self.stereo_sites == 0) and self.geometry_right is True


ReaderName = Literal["strict", "group"]
VerdictName = Literal[  # on a claim
    "reproduced", "contradicted", "internally inconsistent", "not shown on these models", "not testable here"
]
READER_HELP = "strict refuses damaged numbers; group reads as the group's runner does: the last number of each part"
RULE_HELP = {
    "passed": "The reports' rule: no issue named; junk may pass",
    "decodes": "The rule of the group's runner since v3.9: its reader takes every block, junk or not",
    "clean": "Ours: passed, decodes, and every block exact or unverified",
}
"""What each of the three words for a text says, for every page and command that shows one."""
RULES_HELP = " ".join(f"{word}: {meaning}." for word, meaning in RULE_HELP.items())
_COUNTED = ("blocks", "unverified_blocks", "conformers", "why_not_clean")
CHECK_COLUMNS = tuple(column.name for column in fields(Check) if column.name not in _COUNTED)
"""What the table ``samples`` and the JSON of ``generate`` have of a check, under the same names."""
