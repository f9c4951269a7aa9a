"""An LP as a request to a server names it: what goes out as ``vllm_xargs`` and is ``extra_args`` there.

Only flat values: strings and whole numbers. A server's address, a model or a file is never among them. Torch is not
imported here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.errors import ConstraintError, nearest, shown
from engine.lp.constraint import LpParameters
from engine.lp_records import LpRecord, lp_record
from engine.records import DESCRIPTORS, Descriptors, NumberFormat, read_number_format

PREFIX = "driftscope_"
NAME = f"{PREFIX}lp"
"""The key without which a request is none of ours."""
MOST, MOST_CHARS = 64, 200_000
"""Conformers that a request may ask for, and characters that an argument may have."""
KEYS = tuple(
    f"{PREFIX}{name}"
    for name in ("lp", "smiles", "descriptors", "placeholder", "form", "conformers", "conformers_before", "never_end")
)


@dataclass(frozen=True, slots=True)
class ServedLp:
    """``smiles`` as it stands in the prompt; ``descriptors`` None for those that the LP forces, else plain ones.
    Whether this is a molecule, and one that the LP can write, is not known here."""

    lp: str
    smiles: str
    descriptors: Descriptors | None = None
    parameters: LpParameters = field(default_factory=LpParameters)

    @property
    def record(self) -> LpRecord:
        return lp_record(self.lp)

    @property
    def style(self) -> Descriptors:
        return self.descriptors or self.record.descriptors or "plain"

    def arguments(self) -> dict[str, str | int]:
        """What a request says, without what is usual."""
        usual, chosen = LpParameters(), self.parameters
        said: dict[str, str | int] = {NAME: self.lp, f"{PREFIX}smiles": self.smiles}
        if self.descriptors:
            said[f"{PREFIX}descriptors"] = self.descriptors
        if chosen.form != usual.form:
            said[f"{PREFIX}form"] = json.dumps(asdict(chosen.form))
        for name in ("placeholder", "conformers", "conformers_before", "never_end"):
            value = getattr(chosen, name)
            if value != getattr(usual, name):
                said[f"{PREFIX}{name}"] = int(value) if isinstance(value, bool) else value
        return said

    @classmethod
    def of(cls, arguments: Mapping[str, Any] | None) -> ServedLp | None:
        """None where a request has none of our keys; an error where they cannot be met."""
        ours = {key: value for key, value in (arguments or {}).items() if str(key).startswith(PREFIX)}
        if not ours:
            return None
        for key in ours:
            if key not in KEYS:
                raise ConstraintError(f"a request has no argument {shown(key)}", nearest(key, KEYS))
        lp, smiles = _text(ours, "lp"), _text(ours, "smiles")
        if not lp or not smiles:
            raise ConstraintError(f"a request names both {NAME} and {PREFIX}smiles", "Give both, or neither")
        descriptors = _text(ours, "descriptors")
        if descriptors and descriptors not in DESCRIPTORS:
            raise ConstraintError(f"there are no descriptors {shown(descriptors)}", nearest(descriptors, DESCRIPTORS))
        parameters = LpParameters(
            _text(ours, "placeholder"),
            _form(ours),
            never_end=bool(_count(ours, "never_end", 0)),
            conformers=_count(ours, "conformers", 1),
            conformers_before=_count(ours, "conformers_before", 0),
        )
        style = descriptors if descriptors in DESCRIPTORS else None
        request = cls(lp, smiles, style, parameters)
        _check(request)
        return request


def _text(ours: Mapping[str, Any], name: str) -> str:
    value = ours.get(f"{PREFIX}{name}", "")
    if isinstance(value, str) and len(value) <= MOST_CHARS:
        return value
    raise ConstraintError(f"{PREFIX}{name} is a text, not {shown(repr(value))}", "Give it in quotes")


def _count(ours: Mapping[str, Any], name: str, usual: int) -> int:
    value = ours.get(f"{PREFIX}{name}", usual)
    if isinstance(value, int) and 0 <= value <= MOST:
        return value
    raise ConstraintError(f"{PREFIX}{name} is a whole number, not {shown(repr(value))}", f"Give one from 0 to {MOST:,}")


def _form(ours: Mapping[str, Any]) -> NumberFormat:
    said = _text(ours, "form")
    if not said:
        return LpParameters().form
    try:
        return read_number_format(json.loads(said))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        problem = f"{PREFIX}form is no form of numbers: {error}"
        raise ConstraintError(problem, "Give the fields of one as JSON, as a run's sheet has them") from error


def _check(request: ServedLp) -> None:
    """What is known without a tokenizer."""
    record = request.record
    if record.is_guarded and not record.asks_tokens:
        raise ConstraintError(
            f"{record.name} takes tokens back, which a logits processor cannot", "Use exact or shaped here"
        )
    record.placeholder_of(request.parameters.form, request.parameters.placeholder)
    record.check_form(request.parameters.form)
    record.check_conformers(request.parameters.conformers)
    if record.needs_coordinates and not request.parameters.placeholder:
        raise ConstraintError(
            f"{record.name} is fitted to coordinates, which a server has none of",
            f"Give {PREFIX}placeholder, such as the fitted one",
        )
