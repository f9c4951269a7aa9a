"""The reports' claims as data: what each one says, in our words, and the check that judges it.

``data/claims/NNN.toml`` holds a report's claims, ``tokenisation.toml`` those that a tokenizer alone decides. A claim
has no verdict: that is computed (``verdicts``). Each claim knows the range that its figure was rounded from: half of
its last digit either way, half of ``rounded_to``, or a tenth for what the report calls approximate (``about``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.errors import FileFormatError, shown
from engine.evidence.formula import Range
from engine.evidence.tokenisation import QUANTITIES
from engine.paths import DATA, read_toml

FOLDER = DATA / "claims"
TOKENS_FILE = "tokenisation.toml"
REPORTS = ("000", "001", "002", "003", "004", "005")
ABOUT = 0.1
"""How far off a figure may be that its report gives with a tilde or calls an estimate."""
NOTHING: Mapping[str, Any] = MappingProxyType({})
KEYS = frozenset(
    "id section also statement subject value unit about rounded_to range at_least at_most values check note".split()
) | {"highlight"}


@dataclass(frozen=True, slots=True)
class Claim:
    """``values`` are all figures that the statement covers; ``least`` to ``most`` is what still counts as ``value``.

    Both ends are None for a statement without a figure. ``also`` names the other sections that repeat it. The reports'
    conclusions rest on claims that are a ``highlight``.
    """

    id: str
    report: str
    section: str
    statement: str
    subject: str
    value: float | None
    unit: str
    values: tuple[float, ...]
    check: str
    arguments: Mapping[str, Any]
    also: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    reported: str = ""  # the figure as the report has it
    note: str = ""
    decimals: int = 0
    highlight: bool = False

    @property
    def range(self) -> Range | None:
        """The figure for arithmetic; None where the claim has none."""
        if self.value is None or self.least is None or self.most is None:
            return None
        return Range(self.least, self.value, self.most)

    @property
    def sections(self) -> tuple[str, ...]:
        return (self.section, *self.also)


def load_claims(folder: Path = FOLDER) -> tuple[Claim, ...]:
    """All claims, report by report and section by section."""
    claims: list[Claim] = []
    for report in REPORTS:
        claims += _claims_in(folder / f"{report}.toml", partial(_claim, report=report))
    claims += token_claims(folder)
    places = [(report, section) for report in REPORTS for section in sections_of(report, folder)]
    order = {place: number for number, place in enumerate(places)}
    lost = next(
        (claim.id for claim in claims if any((claim.report, name) not in order for name in claim.sections)), None
    )
    if lost is not None:
        raise FileFormatError(f"the claim {shown(lost)} stands in no section of its report", "Mend it, or the list")
    ids = [claim.id for claim in claims]
    twice = next((id_ for id_ in ids if ids.count(id_) > 1), None)
    if twice is not None:
        raise FileFormatError(f"{shown(folder, 200)} has the claim {shown(twice)} twice", "Give one another id")
    return tuple(sorted(claims, key=lambda claim: order[claim.report, claim.section]))


def token_claims(folder: Path = FOLDER) -> list[Claim]:
    """The figures that a tokenizer alone decides, as the Tokenizer lab shows them."""
    return _claims_in(folder / TOKENS_FILE, lambda table: _claim(_of_tokens(table), table["report"]))


def sections_of(report: str, folder: Path = FOLDER) -> tuple[str, ...]:
    """The report's sections in its order, by our short names."""
    return tuple(_read(folder / f"{report}.toml")["sections"])


def files_of() -> list[Path]:
    """The files that claims are read from."""
    return [*(FOLDER / f"{report}.toml" for report in REPORTS), FOLDER / TOKENS_FILE]


def _claims_in(path: Path, read: Callable[[dict[str, Any]], Claim]) -> list[Claim]:
    tables = _read(path)
    try:
        return [read(table) for table in tables["claim"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{shown(path, 200)} is no file of claims: {error}", "Mend it there") from error


def _read(path: Path) -> dict[str, Any]:
    return read_toml(path, "file of claims", dict, parse_float=Decimal)


def _claim(table: dict[str, Any], report: str) -> Claim:
    id_ = f"{report}-{table['id']}"
    unknown = set(table) - KEYS
    if unknown:
        raise ValueError(f"{id_} has the unknown key {min(unknown)}")
    check = {name: _plain(value) for name, value in table["check"].items()}
    value, least, most, reported = _figure(table, id_)
    first = [end for end in (value, *([least, most] if value is None else [])) if end is not None]
    more = [float(figure) for figure in table.get("values", [])]
    return Claim(
        id=id_,
        report=report,
        section=table["section"],
        statement=table["statement"],
        subject=table["subject"],
        value=value,
        unit=table.get("unit", ""),
        values=tuple(dict.fromkeys([*first, *more])),
        check=check.pop("by"),
        arguments=MappingProxyType(check),
        also=tuple(table.get("also", ())),
        least=least,
        most=most,
        reported=reported,
        note=table.get("note", ""),
        decimals=_decimals(table.get("value", 0)),
        highlight=bool(table.get("highlight", False)),
    )


def _figure(table: dict[str, Any], id_: str) -> tuple[float | None, float | None, float | None, str]:
    """Value, least, most, and the words for them."""
    if "range" in table:
        least, most = table["range"]
        if least >= most:
            raise ValueError(f"{id_} runs from {least} to {most}")
        return None, float(least), float(most), f"{least:,} to {most:,}"
    if "at_least" in table:
        return None, float(table["at_least"]), None, f"{table['at_least']:,} or more"
    if "at_most" in table:
        return None, None, float(table["at_most"]), f"{table['at_most']:,} or less"
    if "value" not in table:
        return None, None, None, ""
    value = float(table["value"])
    decimals = _decimals(table["value"])
    step = float(table.get("rounded_to", 10.0**-decimals if decimals else 0))
    half = max(step / 2, ABOUT * abs(value) if table.get("about") else 0.0)
    return value, value - half, value + half, ("about " if table.get("about") else "") + _written(table["value"])


def _written(value: int | Decimal) -> str:
    """The figure as the report writes it, with commas."""
    is_power = isinstance(value, Decimal) and int(value.as_tuple().exponent) > 0
    return f"{float(value):g}" if is_power else f"{value:,}"


def _decimals(value: int | Decimal) -> int:
    return max(0, -int(value.as_tuple().exponent)) if isinstance(value, Decimal) else 0


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_plain(item) for item in value)
    return float(value) if isinstance(value, Decimal) else value


def _of_tokens(table: dict[str, Any]) -> dict[str, Any]:
    """A figure of the Tokenizer lab as the table of a claim like the others."""
    name, tokenizer, text = table["quantity"], table["tokenizer"], table.get("text", "")
    label = QUANTITIES[name].label
    if "reported_at_least" in table:
        figure = {"at_least": table["reported_at_least"]}
    else:
        figure = {"range" if isinstance(table["reported"], list) else "value": table["reported"]}
    words = _figure(figure, table["id"])[-1]
    of = f" of `{text}`" if text else ""
    return {
        **{key: table[key] for key in ("section", "also", "note", "highlight") if key in table},
        **figure,
        "id": table["id"].removeprefix(f"{table['report']}-"),
        "statement": f"{label[0].upper()}{label[1:]}{of} under {tokenizer}: {words}.",
        "subject": f"{label}, {tokenizer}",
        "unit": QUANTITIES[name].unit,
        "check": {"by": "tokens", "quantity": name, "tokenizer": tokenizer, "text": text},
    }
