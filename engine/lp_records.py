"""One record per LP: what every floor knows of an LP without compiling it.

A new LP is one file in ``engine/lp/`` with a function ``build`` (see ``engine.lp.constraint``) and one record here, or
one file of another package with both (``engine.installed``). The command line, the pages, the number of FREE positions
and the kinds of blocks follow from the record.
"""

from __future__ import annotations

import logging
import math
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Literal, get_args

from engine.errors import ConstraintError, nearest, shown
from engine.installed import modules_of
from engine.records import BinFormat, CodeFormat, Descriptors, NumberFormat
from engine.user_files import parsed_json

log = logging.getLogger(__name__)

DEFAULT_PLACEHOLDER = "0.0000,0.0000,0.0000"
SHORT_PLACEHOLDER = "0.000,0.000,0.000"
NO_LP, DEFAULT_LP = "none", "exact"
"""What every LP is compared with, and what runs where none is named."""
CONFORMER_CONTROL = "group-conformers"


def usual_placeholder(form: NumberFormat) -> str:
    """What drift is counted against where the LP has no placeholder of its own."""
    if isinstance(form, CodeFormat):
        return "0"
    if not isinstance(form, BinFormat):
        return DEFAULT_PLACEHOLDER
    return form.comma.join([f"{(form.bins + 1) // 2:0{form.digits}d}"] * 3)


@dataclass(frozen=True, slots=True)
class PositionRule:
    """Which tokens a position LP lets into FREE positions, known by their characters; added tokens are no exception.

    A token is *of numbers* when it is made of ``0-9 . , -`` alone, and has a *bad pair* when it holds ``..``, ``,,``,
    ``--``, ``.,``, ``,.``, ``.-`` or ``-,``. The tags of prompt and answer and the tokens that begin or end a text
    never come, whatever their characters.
    """

    blocked: str = "<>"  # no token that holds one of these
    numbers_only: bool = False  # no token that is not of numbers
    no_bad_pairs: bool = False  # no token of numbers that has one
    look_ahead: int = 0  # so near to the closing token, no token that ``ahead`` names
    ahead: Literal["marks", "marks and points", "any with a mark"] = "marks"
    no_first_comma: bool = False  # at a block's first position no token of commas alone
    no_added: bool = False  # no added token at all


GuardCheck = Literal["bonds", "angles", "clash", "flat", "stereo"]
GUARD_CHECKS: tuple[GuardCheck, ...] = get_args(GuardCheck)


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """How long a guard tries. ``most_thrown``: blocks that it may throw away, in multiples of the molecule's."""

    retries: int = 3  # of a block
    back: int = 3  # times that a block may send the text back to an earlier one
    checks: tuple[GuardCheck, ...] = GUARD_CHECKS
    most_thrown: float = 1.0

    def __post_init__(self) -> None:
        if not all(0 <= limit < math.inf for limit in (self.retries, self.back, self.most_thrown)):
            raise ConstraintError(
                f"a guard cannot try {self.retries} times, go back {self.back} times "
                f"and throw away {self.most_thrown:g} blocks for each of the molecule",
                "Give finite numbers of 0 or more",
            )


@dataclass(frozen=True, slots=True)
class LpRecord:
    """``closed_by``: whether the model itself chose to close a block, or the LP forced the closing token."""

    name: str
    help: str  # one line
    module: str  # has build(name, tokenizer, vocab_rows, parameters)
    closed_by: Literal["model", "lp", "unknown"]
    placeholder: str = ""  # the default one; "" where the LP has none
    rule: PositionRule = PositionRule()
    descriptors: Descriptors | None = None  # that it forces whatever the model learnt; None: the checkpoint's
    needs_coordinates: bool = False  # its placeholder is fitted to reference conformers of the molecules
    offers_cleanup: bool = False  # whether the pages offer it with a cleanup
    unguarded: str = ""  # the LP with its masks; each block is looked at as it closes, and redrawn where it is wrong
    asks_tokens: bool = False  # guarded too, and each token is asked before it is written
    guard: GuardSettings = GuardSettings()  # the usual one, where it is guarded
    is_candidate: bool = False  # for the advice which LP to use
    writes_bins: bool = True  # where numbers are those of bins
    writes_codes: bool = False  # where there are codes in place of numbers
    several: bool = False  # conformers in one answer
    by_server: bool = False  # only a server holds to it

    @property
    def is_guarded(self) -> bool:
        return bool(self.unguarded)

    def writes(self, form: NumberFormat) -> bool:
        if isinstance(form, CodeFormat):
            return self.writes_codes
        return self.writes_bins or not isinstance(form, BinFormat)

    def check_form(self, form: NumberFormat) -> None:
        """``ConstraintError`` for numbers that it does not write."""
        if isinstance(form, CodeFormat) and not self.writes_codes:
            needs = "needs places while it writes, and codes have none before the text is whole"
            why = needs if self.is_guarded else "is for numbers, and codes are single tokens"
            able = " or ".join(other.name for other in LPS.values() if other.writes_codes and other.is_candidate)
            raise ConstraintError(f"the LP {self.name} {why}", f"Use {able}")
        if not self.writes(form):
            problem = f"the LP {self.name} is for decimals, not for bins, which all have the same length"
            raise ConstraintError(problem, f"Use another one, such as {DEFAULT_LP}, or leave --bins out")

    def check_conformers(self, conformers: int) -> None:
        """``ConstraintError`` for more in an answer than it writes."""
        if conformers > 1 and not self.several:
            able = ", ".join(other.name for other in LPS.values() if other.several)
            raise ConstraintError(f"the LP {self.name} writes one conformer per answer", f"Use one of {able}")

    def placeholder_of(self, form: NumberFormat, chosen: str = "") -> str:
        """Else the default one for such numbers: those of bins all have the same length."""
        if chosen and not self.placeholder:
            raise ConstraintError(f"the LP {self.name} has no placeholder", "Leave --placeholder out")
        if chosen:
            return chosen
        return usual_placeholder(form) if self.placeholder and isinstance(form, BinFormat) else self.placeholder


_V39 = PositionRule(no_bad_pairs=True, look_ahead=2, ahead="marks and points")
_V43 = replace(_V39, blocked="", numbers_only=True, no_first_comma=True)
_GROUPS: tuple[tuple[str, str, str, PositionRule], ...] = (
    ("v2.1", "< and > are blocked where numbers belong", DEFAULT_PLACEHOLDER, PositionRule(look_ahead=1)),
    ("v3.4", "only digits and marks there", DEFAULT_PLACEHOLDER, replace(_V43, look_ahead=4, no_first_comma=False)),
    ("v3.8", "reconstructed from v3.9: ()[] blocked too", DEFAULT_PLACEHOLDER,
     replace(_V39, blocked="<>()[]", look_ahead=4)),
    ("v3.9", "< > and pairs such as .. and -, are blocked", SHORT_PLACEHOLDER, _V39),
    ("v4.0", "as v3.9, and []@+ are blocked", SHORT_PLACEHOLDER, replace(_V39, blocked="<>[]@+")),
    ("v4.3", "only digits and marks, no comma first (v5.0 is the same)", SHORT_PLACEHOLDER, _V43),
)  # fmt: skip
_RECORDS = (
    LpRecord(NO_LP, "no constraint", "engine.lp.unconstrained", "model", is_candidate=True, several=True,
             writes_codes=True),
    *(
        LpRecord(f"group-{version}", f"the group's {version}, by position; {summary}", "engine.lp.position", "lp",
                 placeholder, rule, "with-hydrogens", offers_cleanup=not rule.numbers_only,
                 is_candidate=version in ("v2.1", "v4.3"))
        for version, summary, placeholder, rule in _GROUPS
    ),
    LpRecord("adaptive-placeholder", "by position, with a placeholder fitted to coordinates", "engine.lp.position",
             "lp", DEFAULT_PLACEHOLDER, needs_coordinates=True, writes_bins=False),
    LpRecord("truncating", "by position; the model may end a block early", "engine.lp.truncating", "model",
             DEFAULT_PLACEHOLDER, is_candidate=True, writes_bins=False),
    LpRecord(DEFAULT_LP, "an automaton of the numbers themselves: no drift, no junk, no cut", "engine.lp.exact",
             "model", is_candidate=True, several=True, writes_codes=True),
    LpRecord("guarded", "exact, and a block that makes the molecule wrong is redrawn", "engine.lp.exact", "model",
             unguarded=DEFAULT_LP, is_candidate=True),
    LpRecord("shaped", "exact, and only tokens that leave the atom a right place", "engine.lp.shaped", "model",
             unguarded=DEFAULT_LP, asks_tokens=True, guard=GuardSettings(retries=3, back=6, most_thrown=2.0),
             is_candidate=True),
    LpRecord("grammar", "the molecule's regex, by a server's structured outputs (--backend server)",
             "engine.lp.grammar", "model", by_server=True),
    *(
        LpRecord(name, f"the group's control of several conformers: {summary}", "engine.lp.group_conformers", "model",
                 several=True, writes_codes=True)
        for name, summary in (
            (CONFORMER_CONTROL, "so many, then the end; free inside"),
            (f"{CONFORMER_CONTROL}-open", "so many, the end is not forced; free inside"),
            (f"{CONFORMER_CONTROL}-grpo", "as in its training: only [SMILES] and padding never come"),
        )
    ),
)  # fmt: skip
LEGAL_ROWS = {(DEFAULT_LP, "qwen3"): 18, (DEFAULT_LP, "llama3"): 1_118}
"""Tokens that an LP may allow, by tokenizer, where they are few."""
LPS = {record.name: record for record in _RECORDS}

FORMER = "former:"
"""Before the name that a stored run has: its LP as it was before the LPs here became the group's own."""
_FORMER_BLOCKLIST = PositionRule(no_added=True)
_FORMER_SHORT = replace(_FORMER_BLOCKLIST, look_ahead=2, ahead="any with a mark")
_FORMER_RULES = {
    "position-blocklist": (DEFAULT_PLACEHOLDER, _FORMER_BLOCKLIST),
    "position-blocklist-short": (SHORT_PLACEHOLDER, _FORMER_SHORT),
    "position-allowlist": (SHORT_PLACEHOLDER, replace(_FORMER_SHORT, numbers_only=True, no_first_comma=True)),
}
FORMER_NAMES = frozenset(_FORMER_RULES)


def _former(record: LpRecord) -> LpRecord:
    help = f"{record.name} as runs had it before the group's own rules were known"
    return replace(record, name=f"{FORMER}{record.name}", descriptors="plain", is_candidate=False, help=help)


_FORMER_RECORDS = (
    *(_former(LpRecord(name, "", "engine.lp.position", "lp", *rules)) for name, rules in _FORMER_RULES.items()),
    *(_former(replace(LPS[name], rule=_FORMER_BLOCKLIST)) for name in ("adaptive-placeholder", "truncating")),
)
_FORMER = {record.name: record for record in _FORMER_RECORDS}


def guard_checks(names: str) -> tuple[GuardCheck, ...]:
    """The checks of a list such as ``bonds,stereo``, in their usual order."""
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in GUARD_CHECKS:
            raise ConstraintError(f"the guard has no check {shown(name)}", nearest(name, GUARD_CHECKS))
    return tuple(check for check in GUARD_CHECKS if check in wanted)


def guard_words(stored: str | None, lp: LpRecord) -> str:
    """What a run's guard (JSON) has other than its LP's usual one, such as ``retries 2``; empty where it is that."""
    usual = asdict(lp.guard) | {"weigh": 0}  # of runs that could be weighed
    try:
        settings = dict(parsed_json(stored or "{}"))
    except (ValueError, TypeError):
        return str(stored)
    words = []
    for name, stored_value in settings.items():
        value = tuple(stored_value) if name == "checks" and isinstance(stored_value, list) else stored_value
        if value != usual.get(name):
            shown_value = " ".join(map(str, value)) if isinstance(value, tuple) else value
            words.append(f"{name.replace('_', ' ')} {shown_value}")
    return ", ".join(words)


UNKNOWN_LP = LpRecord("unknown", "the LP is unknown: a clean block may have been cut", "", "unknown")
"""For stored texts of an LP that is not named or is not one of ours. It cannot be run."""

ALIASES = {
    "generic": "group-v2.1",
    "position-blocklist": "group-v2.1",
    "position-blocklist-short": "group-v3.9",
    "position-allowlist": "group-v4.3",
    **{version: f"group-{version}" for version, *_ in _GROUPS},
    "v5.0": "group-v4.3",
    "group-v5.0": "group-v4.3",
}
"""The reports' processor types and versions, and the names that these LPs went by here."""

CLEANUP = "cleanup"
"""The reports' third solution, a step after any LP: ``position-blocklist+cleanup``; alone it follows no LP."""


def lp_choices(*, has_server: bool = False) -> list[str]:
    """The names that a page offers: every LP that can be had, some with a cleanup, and the cleanup alone."""
    cleaned = [f"{record.name}+{CLEANUP}" for record in LPS.values() if record.offers_cleanup]
    return [*(name for name, record in LPS.items() if has_server or not record.by_server), *cleaned, CLEANUP]


def split_cleanup(name: str) -> tuple[str, bool]:
    """The LP of a name, and whether a cleanup follows."""
    if name == CLEANUP:
        return NO_LP, True
    lp = name.removesuffix(f"+{CLEANUP}")
    return lp, lp != name


def lp_record(name: str) -> LpRecord:
    """The LP of this name, or of a report's name for it."""
    record = LPS.get(ALIASES.get(name, name)) or _FORMER.get(name)
    if record is None:
        raise ConstraintError(f"there is no LP {shown(name)}", nearest(name, [*LPS, *ALIASES, CLEANUP]))
    return record


def lp_of_text(name: str) -> LpRecord:
    """As ``lp_record``; a text may also have been written under ``unknown``."""
    return UNKNOWN_LP if name == UNKNOWN_LP.name else lp_record(name)


def stored_lp(name: str | None, *, is_former: bool = False) -> LpRecord:
    """The LP that a stored run names, without its cleanup; ``UNKNOWN_LP`` where it names none, or none of ours.

    ``is_former``: the run was stored before the LPs here became the group's; some names tell that themselves.
    """
    lp = split_cleanup(name or "")[0].removeprefix(FORMER)
    former = _FORMER.get(f"{FORMER}{lp}")
    if former is not None and (is_former or lp not in LPS):
        return former
    return LPS.get(ALIASES.get(lp, lp), UNKNOWN_LP)


def stored_name(name: str, *, is_former: bool) -> str:
    """What a person reads of a stored run's LP."""
    return f"{name} (former rules)" if stored_lp(name, is_former=is_former).name.startswith(FORMER) else name


def full_name(name: str) -> str:
    """The LP's own name for any that it goes by, with its cleanup."""
    lp, cleanup = split_cleanup(name)
    return lp_record(lp).name + (f"+{CLEANUP}" if cleanup else "")


def _add_installed() -> None:
    """The LPs of other packages, whose modules import this one: when all above is there. One that cannot be imported,
    or has a name that is taken, costs a warning."""
    for name, module in modules_of("driftscope.lps").items():
        try:
            record = import_module(module).RECORD
            if record.name in LPS or record.module != module:
                raise ValueError(f"its record is named {record.name} and {record.module}")
            LPS[record.name] = record
        except Exception as error:  # noqa: BLE001 - code of others
            log.warning("the LP %s of another package is left out: %s: %s", name, type(error).__name__, error)


_add_installed()
