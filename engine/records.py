"""The shared records: frozen dataclasses that check themselves, in the project's vocabulary.

Coordinates are in angstrom. Positions in text count characters from 0; ``end`` is exclusive.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from rdkit import Chem

Role = Literal["COPY", "FREE", "BOUNDARY"]
Kind = Literal[
    "exact", "letters", "punctuation", "extra_digit", "fourth_number", "missing_comma", "trailing_mark", "missing_z",
    "integer", "cut", "unverified",
    "missing_digit", "outside_bins", "tail_bin", "missing_semicolon", "two_atoms",  # of bins alone
    "missing_code", "doubled_code", "outside_codes", "misplaced_code",  # of codes alone
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
    def opening(self) -> str:
        """What is before the three numbers of an atom."""
        return "<"

    @property
    def comma(self) -> str:
        return ","

    @property
    def closing(self) -> str:
        return ">"

    def write(self, numbers: Sequence[str]) -> str:
        """An atom's block, which follows its descriptor: ``<0.1,0.25,-1.2>``."""
        return self.opening + self.comma.join(numbers) + self.closing

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


BinMode = Literal["cartesian_binned", "uniform", "quantile"]
"""``cartesian_binned``: bins of one size counted by ``numpy.digitize``, the last of which has no upper end;
``uniform``: equal bins with a tail on both sides; ``quantile``: the same, of unequal bins."""
BIN_MODES: tuple[BinMode, ...] = get_args(BinMode)
LEAST_BIN_DIGITS, MOST_BINS = 3, 99_999


@dataclass(frozen=True, slots=True)
class BinFormat(NumberFormat):
    """Numbers of bins in place of decimals: no sign, no point, and the same digits for all.

    Bin 1 begins at the first edge, bin ``bins`` ends at the last. The group writes them bare, ``[C]128130125;``, and a
    coordinate outside has a number too: 0 below, ``bins + 1`` above (`tails`). Its older form has brackets,
    ``[C]<0512,0498,0501>``, and no tails.
    """

    least_decimals: int = 0
    edges: tuple[float, ...] = ()  # bins + 1, ascending, in angstrom
    mode: BinMode = "cartesian_binned"
    is_bare: bool = True

    def __post_init__(self) -> None:
        if self.mode not in BIN_MODES:
            raise ValueError(f"the mode of bins is one of {', '.join(BIN_MODES)}, not {self.mode}")
        if not 1 <= self.bins <= MOST_BINS:
            raise ValueError(
                f"bins are 1 to {MOST_BINS:,}, and their edges one more: here are {len(self.edges):,} edges"
            )
        if not all(low < high for low, high in pairwise(self.edges)) or not math.isfinite(
            self.edges[-1] - self.low_ang
        ):
            raise ValueError("the edges of bins are not finite numbers in ascending order")

    @classmethod
    def equal(cls, start_ang: float, end_ang: float, size_ang: float) -> BinFormat:
        """Bare bins that begin at ``numpy.arange(start, end, size)``; the last may be narrower."""
        return cls(edges=_equal_edges(start_ang, end_ang, size_ang), mode="cartesian_binned")

    @classmethod
    def in_brackets(cls, size_ang: float, range_ang: float) -> BinFormat:
        """The older form: a whole number of bins from -range to range."""
        count = 2 * range_ang / size_ang if 0 < size_ang <= range_ang < math.inf else math.inf
        if count > MOST_BINS or abs(count - round(count)) > 1e-6:
            subject = f"bins of {size_ang:g} over {-range_ang:g} to {range_ang:g} angstrom"
            raise ValueError(f"{subject} are not a whole number of at most {MOST_BINS:,} bins")
        starts = _equal_edges(-range_ang, range_ang, size_ang)[: round(count)]
        return cls(edges=(*starts, range_ang), mode="cartesian_binned", is_bare=False)

    @classmethod
    def uniform(cls, low_ang: float, high_ang: float, bins: int) -> BinFormat:
        """Bare bins of one size, and a tail on both sides."""
        inner = (low_ang + index * (high_ang - low_ang) / bins for index in range(1, bins))
        return cls(edges=(low_ang, *inner, high_ang), mode="uniform")

    @property
    def name(self) -> str:
        return "bins"

    @property
    def bins(self) -> int:
        return len(self.edges) - 1

    @property
    def low_ang(self) -> float:
        return self.edges[0]

    @property
    def high_ang(self) -> float:
        return self.edges[-1]

    @property
    def tails(self) -> tuple[int, ...]:
        """The numbers of what is outside the range, which say on which side and not where."""
        if not self.is_bare:
            return ()
        return (0,) if self.mode == "cartesian_binned" else (0, self.bins + 1)

    @property
    def digits(self) -> int:
        """Of each number: those of the greatest, at least three."""
        return max(LEAST_BIN_DIGITS, len(str(self.bins + self.is_bare)))

    @property
    def opening(self) -> str:
        return "" if self.is_bare else "<"

    @property
    def comma(self) -> str:
        return "" if self.is_bare else ","

    @property
    def closing(self) -> str:
        return ";" if self.is_bare else ">"

    @property
    def most_ang(self) -> float:
        return math.inf if self.is_bare else self.high_ang

    @property
    def floor_ang(self) -> float:
        """Each axis is off by up to half a bin, evenly: sqrt(3 * bin**2 / 12), of the mean square where bins differ."""
        return math.sqrt(sum((high - low) ** 2 for low, high in pairwise(self.edges)) / self.bins) / 2

    def number_of(self, value_ang: float) -> str:
        """As ``numpy.searchsorted(edges, value, side="right")`` counts; the last edge itself is in the last bin."""
        bin_ = bisect_right(self.edges, value_ang)
        has_upper_tail = self.bins + 1 in self.tails and value_ang > self.high_ang
        return f"{bin_ if has_upper_tail else min(bin_, self.bins):0{self.digits}d}"

    def index_of(self, number: str) -> int | None:
        """The bin, or tail, that a number as written means; None where it means none."""
        if not (number.isascii() and number.isdecimal() and len(number) == self.digits):
            return None
        bin_ = int(number)
        return bin_ if 1 <= bin_ <= self.bins or bin_ in self.tails else None

    def is_tail(self, number: str) -> bool:
        return self.index_of(number) in self.tails

    def bounds_ang(self, number: str) -> tuple[float, float] | None:
        """Where a coordinate of this number may be, an upper end excluded; a tail has no outer end."""
        bin_ = self.index_of(number)
        if bin_ is None:
            return None
        low = self.edges[bin_ - 1] if bin_ else -math.inf
        has_no_end = bin_ > self.bins or (bin_ == self.bins and self.is_bare and self.mode == "cartesian_binned")
        return low, math.inf if has_no_end else self.edges[bin_]

    def value_ang(self, number: str) -> float | None:
        """The middle of the bin; the range's end of a tail, and of the top number where it has no upper end."""
        bounds = self.bounds_ang(number)
        if bounds is None:
            return None
        low, high = bounds
        if math.isinf(low):
            return self.low_ang
        return self.high_ang if math.isinf(high) else (low + high) / 2

    def is_full(self, number: str) -> bool:
        return len(number) >= self.digits

    @property
    def words(self) -> str:
        widths = [high - low for low, high in pairwise(self.edges)]
        is_quantile = self.mode == "quantile"
        width = f"{min(widths):.3g} to {max(widths):.3g}" if is_quantile else f"{widths[0]:.3g}"
        kind = "quantile bins" if is_quantile else "bins"
        example = f"[C]{self.write(['1'.zfill(self.digits)] * 3)}"
        return f"{self.bins:,} {kind} of {width} Å from {self.low_ang:g} to {self.high_ang:g} Å, written {example}"


@dataclass(frozen=True, slots=True)
class CodeFormat(NumberFormat):
    """A code behind every token of the SMILES in place of numbers: ``[C]<123>(<45>[O]<678>)<90>``.

    Only a decoder knows where the atoms are, and only of a whole text: a code by itself has no place.
    """

    levels: tuple[int, ...] = ()  # of each dimension of the codebook (FSQ): 12 times 2 are 4,096 codes
    decoder: str = ""  # its name (`engine.chem.codes`); empty where there is none
    weights: str = ""  # its file; empty where it has its own

    def __post_init__(self) -> None:
        if not self.levels or min(self.levels) < 2 or not self.codes <= MOST_BINS:
            raise ValueError(f"the levels of codes are numbers of 2 or more, and make at most {MOST_BINS:,} codes")

    @property
    def name(self) -> str:
        return "codes"

    @property
    def codes(self) -> int:
        return math.prod(self.levels)

    @property
    def comma(self) -> str:
        return ""

    @property
    def most_ang(self) -> float:
        return math.inf

    @property
    def floor_ang(self) -> float:
        """Not known: a decoder does not say how far it is off."""
        return 0.0

    def value_ang(self, number: str) -> float | None:
        return None

    def index_of(self, number: str) -> int | None:
        """The code that this text is; None where it is none."""
        is_written = number.isascii() and number.isdecimal() and str(int(number)) == number
        return int(number) if is_written and int(number) < self.codes else None

    def is_full(self, number: str) -> bool:
        return True

    @property
    def words(self) -> str:
        decoder = f"decoder {self.decoder}" if self.decoder else "without a decoder"
        return f"{self.codes:,} codes, one behind each token of the SMILES, written [C]<1>, {decoder}"


Alphabet = BinFormat | CodeFormat
"""What a file of bins can hold, and a text alone does not say."""


def _equal_edges(start_ang: float, end_ang: float, size_ang: float) -> tuple[float, ...]:
    """``numpy.arange(start, end, size)`` to the last bit, and the end."""
    if not 0 < size_ang <= end_ang - start_ang < math.inf or (end_ang - start_ang) / size_ang > MOST_BINS:
        subject = f"{start_ang:g} to {end_ang:g} angstrom in bins of {size_ang:g}"
        raise ValueError(f"{subject} is not a range of 1 to {MOST_BINS:,} bins")
    step = (start_ang + size_ang) - start_ang
    count = math.ceil((end_ang - start_ang) / size_ang)
    return (*(start_ang + index * step for index in range(count)), end_ang)


def read_number_format(stored: Mapping[str, Any]) -> NumberFormat:
    """The format from its fields, as a run's sheet has them; TypeError or ValueError where they are none."""
    if "bin_ang" in stored:  # as sheets formerly had them
        return BinFormat.in_brackets(stored["bin_ang"], stored["range_ang"])
    if "levels" in stored:
        return CodeFormat(**{**stored, "levels": tuple(map(int, stored["levels"]))})
    if "edges" in stored:
        return BinFormat(**{**stored, "edges": tuple(map(float, stored["edges"]))})
    return NumberFormat(**stored)


FIXED4 = NumberFormat()
"""Always four decimals: the format's first form."""
TRIMMED4 = NumberFormat(least_decimals=1)
"""One to four decimals, further trailing zeros dropped, as the embedded models write them."""
SHORTEST4 = NumberFormat(least_decimals=0)
"""Up to four decimals, trailing zeros and then a trailing point dropped, as the reports' models write them."""
GROUP_UNIFORM = BinFormat.uniform(-10.5748, 10.5102, 256)
"""The group's uniform bins, which the embedded `demo-bins` writes too."""
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
    passed_each: tuple[bool, ...] = ()  # by conformer; ``passed`` and ``clean`` are of all of them
    clean_each: tuple[bool, ...] = ()
    why_not_clean: tuple[str, ...] = ()  # besides the issues: each damaged block, and the conformer that it is of


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """One thing that is wrong with a molecule in space, at which atoms of its text."""

    check: str
    atoms: tuple[int, ...]
    detail: str


def is_open(failed_checks: Iterable[str]) -> bool:
    """Whether nothing was judged, since only a decoder knows what a text of codes says."""
    return set(failed_checks) == {"codes"}


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
    right_each: tuple[bool, ...] = ()  # by conformer: stereo and geometry

    def is_usable(self, clean: bool) -> bool:
        """Clean text, stereo right or none specified, geometry right; what could not be judged is not right."""
        return clean and self.is_right

    @property
    def is_right(self) -> bool:
        """Another molecule's geometry and stereo may be as they should; it is not the one that was asked for."""
        is_other = any(failed.check == "graph" for failed in self.failed)
        is_stereo_right = self.stereo_right is True or self.stereo_sites == 0
        return is_stereo_right and self.geometry_right is True and not is_other

    def which_usable(self, clean_each: Sequence[bool]) -> tuple[bool, ...] | None:
        """By conformer, given which of them are clean; None where not as many were judged as were checked."""
        right = self.right_each or (self.is_right,)
        if len(right) != len(clean_each):
            return None
        return tuple(clean and is_right for clean, is_right in zip(clean_each, right, strict=True))


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
_COUNTED = ("blocks", "unverified_blocks", "why_not_clean")
CHECK_COLUMNS = tuple(column.name for column in fields(Check) if column.name not in _COUNTED)
"""What the table ``samples`` and the JSON of ``generate`` have of a check, under the same names."""
