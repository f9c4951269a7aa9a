"""The LP advisor: which LP to use for a model under one setting, from runs that were measured here.

It reads the newest measured run of each LP, of one setting (``advice/settings.py``), over the molecules that all of
them share, and applies one rule (``advice/rule.py``). The reports' rule stands beside it (``advice/reports_rule.py``).
No figure of a report or of an imported file goes in. It runs no model: ``advice/probe.py`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.chem.molecule_sets import load_run_set
from engine.decode.presets import preset
from engine.errors import DriftscopeError, RegistryError, RunError, nearest, shown
from engine.evidence.advice.commands import first_command, probe_command, run_command
from engine.evidence.advice.figures import LpFigures, Measured, Want, measure
from engine.evidence.advice.predicted import predicted_of
from engine.evidence.advice.reports_rule import ReportsRule, reports_rule
from engine.evidence.advice.rule import LEAST_RATE, Decision, decide, rule_words
from engine.evidence.advice.settings import (
    CANDIDATES,
    Evidence,
    OtherSetting,
    Setting,
    SettingFilter,
    evidence_of,
    figures_elsewhere,
    models_of,
    settings_of,
)
from engine.evidence.advice.words import cautions, name_of, reason, sentence, unknown
from engine.figures.words import counted
from engine.lp_records import LPS, full_name
from engine.models.registry import load_registry
from engine.store.entries import Entry, model_name
from engine.store.store import Store

ANY = SettingFilter()


@dataclass(frozen=True, slots=True)
class AdviceRequest:
    """Candidates, what is wanted, and the setting. Empty ``runs`` are all of the store.

    Without a ``want``, usable answers where all of them are judged, clean ones where not.
    """

    lps: tuple[str, ...] = CANDIDATES
    want: Want | None = None
    least: float = LEAST_RATE
    filter: SettingFilter = ANY
    runs: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.least <= 1:
            raise RunError(f"{self.least:g} is no least rate", "Give a share above 0, up to 1, such as 0.9")


USUAL = AdviceRequest()


@dataclass(frozen=True, slots=True)
class ModelData:
    """A model with measured runs; ``lps`` are those of the setting that has most of them."""

    model: str
    runs: int
    settings: int
    lps: tuple[str, ...]
    setting: str


@dataclass(frozen=True, slots=True)
class Advice:
    """``reasons`` has one sentence an LP, in the order of ``measured.lps``."""

    model: str
    request: AdviceRequest
    want: Want
    setting: Setting
    measured: Measured
    decision: Decision
    reports: ReportsRule
    sentence: str
    rule: str
    reasons: tuple[str, ...]
    cautions: tuple[str, ...]
    unknown: tuple[str, ...]
    missing: tuple[str, ...]  # LPs that were asked about and have no run that may be used
    others: tuple[OtherSetting, ...]  # runs of other settings
    left_out: tuple[str, ...]  # other runs of the model, and why
    commands: tuple[str, ...]  # what to run for what is missing; then the probe
    probe: str

    def expected_s(self, figures: LpFigures, molecules: int) -> float:
        """To answer so many molecules once."""
        return molecules * figures.seconds_a_sample.value

    def expected_usable(self, figures: LpFigures, molecules: int) -> float:
        """Wanted answers among so many."""
        return molecules * figures.rate(self.want).value


def models_with_data(store: Store) -> list[ModelData]:
    """Models with measured runs, the last written first; no file but the sheets is opened."""
    models = []
    for model, entries in models_of(store.found().entries).items():
        settings = settings_of(entries)
        best, runs = next(iter(settings.items()))
        names = {str(entry.row.get("lp") or "") for entry in runs}
        lps = (*(lp for lp in LPS if lp in names), *sorted(names - set(LPS)))
        models.append(ModelData(model, len(entries), len(settings), lps, best.words))
    return models


def advise(store: Store, model: str, request: AdviceRequest = USUAL) -> Advice:
    """Which LP to use for ``alias`` or ``alias:step``; an error says what to run where nothing was measured."""
    request = replace(request, lps=tuple(dict.fromkeys(full_name(lp) for lp in request.lps)))
    entries = store.found().entries
    if request.runs:
        entries = tuple(entry for entry in entries if entry.id in request.runs)
    known = models_of(entries)
    name = find_model(model, list(known))
    if name not in known:
        unfit = sum(model_name(entry.row) == name and entry.row["origin"] == "measured" for entry in entries)
        words = [f"{unfit} without a time, samples, or for equal work"] if unfit else []
        words += [text for text in [figures_elsewhere(entries, name)] if text]
        why = f" ({'; '.join(words)})" if words else ""
        gain = predicted_of(name).removesuffix(".")
        raise RunError(f"no run of {name} was measured here{why}{gain and '. '}{gain}", _run_first(name, request))
    evidence = _evidence(name, known[name], request)
    measured = measure(store, evidence.runs, request.seed)
    return _advice(evidence, measured, request, figures_elsewhere(entries, name))


def find_model(model: str, known: Sequence[str]) -> str:
    """``alias:step``, known from runs or the registry; an alias alone means the step with runs, else its last one."""
    if model in known:
        return model
    of_alias = [name for name in known if name.partition(":")[0] == model]
    if len(of_alias) == 1:
        return of_alias[0]
    registry = load_registry()
    try:
        return registry.find(model).name
    except RegistryError as error:
        if of_alias:
            return of_alias[0]
        near = nearest(model, [*known, *(entry.name for entry in registry.entries)])
        raise RunError(f"there is no model {shown(model)}", near) from error


def _evidence(model: str, entries: Sequence[Entry], request: AdviceRequest) -> Evidence:
    if request.filter.sampling and all(entry.row.get("sampling") != request.filter.sampling for entry in entries):
        preset(request.filter.sampling)  # an unknown name is a mistake, not a setting without runs
    by_setting = settings_of(entries)
    fitting = [setting for setting in by_setting if request.filter.fits(setting)]
    if not fitting:
        there = "; ".join(setting.words for setting in list(by_setting)[:3])
        raise RunError(
            f"no run of {model} was measured with {request.filter.words}, but with {there}", _run_first(model, request)
        )
    return evidence_of(model, fitting[0], by_setting, request.lps)


def _advice(evidence: Evidence, measured: Measured, request: AdviceRequest, elsewhere: str) -> Advice:
    want, least = _want(measured, request), request.least
    decision = decide(measured, want, least)
    apart = [f"{name_of(lp)}: its run asked other molecules, or its answers have no times" for lp in measured.apart]
    missing = tuple(lp for lp in request.lps if lp not in measured.names)
    versions = {entry.row.get("git_commit") for lp in measured.names for entry in evidence.runs[lp][:1]}
    probe = probe_command(evidence.model, request.lps, evidence.setting, request.want)
    size, is_held_out = _molecules(evidence, measured)
    is_compared = {"exact", "none"} <= set(measured.names)
    gain = "" if is_compared else predicted_of(evidence.model, evidence.setting)
    more = run_command(evidence.model, missing, evidence.setting, size if is_held_out else None)
    return Advice(
        model=evidence.model,
        request=request,
        want=want,
        setting=evidence.setting,
        measured=measured,
        decision=decision,
        reports=reports_rule(measured, decision, want, least),
        sentence=sentence(decision, measured, want, least),
        rule=rule_words(want, least),
        reasons=tuple(reason(standing, measured, want, least, decision) for standing in decision.standings),
        cautions=cautions(decision, measured, want),
        unknown=(*unknown(measured, evidence.setting, missing, len(versions), want), *filter(None, [gain])),
        missing=missing,
        others=evidence.others,
        left_out=tuple(part for part in (*apart, *evidence.left_out, elsewhere) if part),
        commands=(more, probe) if missing else (probe,),
        probe=probe,
    )


def _want(measured: Measured, request: AdviceRequest) -> Want:
    unjudged = [figures.run_id for figures in measured.lps if figures.usable is None]
    if request.want == "usable" and unjudged:
        what = f"{counted(len(unjudged), 'run has', 'runs have')} answers without a verdict on their molecule"
        raise RunError(what, f"Judge them first: `python -m engine judge {unjudged[0]}`; or --want clean")
    return request.want or ("clean" if unjudged else "usable")


def _molecules(evidence: Evidence, measured: Measured) -> tuple[int, bool]:
    """How many a further run should ask, and whether they are the first held-out ones, as `run` asks them."""
    runs = [of_lp[0] for of_lp in evidence.runs.values()]
    size = max((entry.row.get("molecules") or 0 for entry in runs), default=0)
    try:
        return size, size > 0 and set(measured.smiles) <= set(load_run_set(size))
    except DriftscopeError:  # more than ship
        return size, False


def _run_first(model: str, request: AdviceRequest) -> str:
    return f"Measure it: `{first_command(model, request.lps, request.filter, request.want)}`"
