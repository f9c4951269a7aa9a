"""What a run is measured by: one row a measure, for every table, chart, picker and command that shows runs.

A figure is a column of the run's sheet, or one column over another. ``sample`` is SQL for the same figure of one
sample: runs are compared by it, molecule by molecule. A new figure is a row here, and a column in ``store/schema.py``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engine.figures.statistics import Interval, quotient, wilson
from engine.figures.words import listed
from engine.lp_records import stored_name
from engine.records import RULE_HELP
from engine.store.entries import (
    FORMER_COUNTS,
    Entry,
    constrained_words,
    has_former_counts,
    is_branch,
    is_pool,
    is_profiled,
    label_words,
    model_name,
    run_value,
)
from engine.store.schema import SAMPLES
from engine.user_files import parsed_json

TIME_CAUTION = (
    "Pace is wall time over samples, or over tokens. No interval covers other load on the machine: repeat both runs "
    "before you trust a difference of a few per cent."
)
TIME_DOUBT = 0.05
TOTALS = ("wall_s", "tokens", "forward_passes")
"""Which grow with the number of samples, and are compared as wholes."""
STATED = ("cov_r", "cov_p", "mat_r", "mat_p")
DRIFT_BLOCKS = "of_blocks.drift_blocks"


@dataclass(frozen=True, slots=True)
class Measure:
    name: str  # in JSON
    words: str  # on a page
    unit: str  # "%" of shares, which are kept from 0 to 1
    part: str = ""  # column of the run; none where only its samples, steps or report say it
    whole: str = ""  # what it is over, if anything
    scale: float = 1
    sample: str = ""  # SQL over ``samples`` and the sums of its blocks, null where not known
    over: str = ""  # SQL: what a sample's figure is over, so that long answers count for more
    better: Literal["less", "more", ""] = ""
    help: str = ""
    is_main: bool = True  # shown before a user asks for all

    @property
    def is_time(self) -> bool:
        return self.part == "wall_s"

    @property
    def has_ratio(self) -> bool:
        return bool(self.sample) or self.name in (*TOTALS, *STATED)


def share(name: str, words: str, part: str, whole: str, sample: str, better: Any = "more", **more: Any) -> Measure:
    return Measure(name, words, "%", part, whole, sample=sample, better=better, **more)


def of_blocks(name: str, words: str, part: str, sample: str, help_: str) -> Measure:
    """A share of blocks; two runs are compared by how many such blocks a sample has."""
    return share(name, words, part, "blocks", sample, "less", help=help_)


def of_conformers(name: str, words: str, part: str, whole: str, each: str, help_: str) -> Measure:
    """A share of conformers, of which an answer may have several."""
    of_sample = f"list_sum({each}::INT[]) / len({each})"
    return share(name, words, part, whole, of_sample, over=f"len({each})", help=help_, is_main=False)


GEOMETRY = "CASE WHEN geometry_right THEN {} END"
MEASURES = (
    Measure("wall_s", "wall time", "s", "wall_s", help="From building templates to checking the last answer"),
    Measure("wall_s_a_sample", "wall time per sample", "s", "wall_s", "samples", sample="wall_part_s", better="less",
            help="Wall time over samples"),
    Measure("ms_a_token", "wall time per token", "ms", "wall_s", "tokens", 1000,
            sample="1000 * wall_part_s / nullif(tokens, 0)", over="tokens", better="less",
            help="Wall time over tokens"),
    Measure("decode_s", "decoding", "s", "decode_s", help="Part of the wall time: from prompt to last token",
            is_main=False),
    Measure("tokens", "tokens", "", "tokens", help="Of all answers, with end tokens", is_main=False),
    Measure("tokens_a_sample", "tokens per sample", "", "tokens", "samples", sample="tokens", better="less",
            help="With forced tokens"),
    Measure("forward_passes", "forward passes", "", "forward_passes", help="Through the model, prefills included"),
    share("forced_share", "forced tokens", "forced_tokens", "tokens", "forced_tokens / nullif(tokens, 0)", "",
          over="tokens", help="Tokens forced by the LP"),
    Measure("molecules", "molecules", "", "molecules", help="Distinct molecules", is_main=False),
    Measure("samples", "samples", "", "samples", help="Answers", is_main=False),
    share("pass_rate", "passed", "passes", "samples", "passed::INT", help=RULE_HELP["passed"]),
    share("decodes_rate", "decodes", "decodes", "samples", "decodes::INT", help=RULE_HELP["decodes"]),
    share("clean_rate", "clean", "clean", "samples", "clean::INT", help=RULE_HELP["clean"]),
    Measure("conformers", "conformers", "", "conformers", help="Of all answers", is_main=False),
    of_conformers("passed_conformers_rate", "passed, of conformers", "passed_conformers", "conformers", "passed_each",
                  "Over conformers; an answer of several passes if all of its do"),
    of_conformers("clean_conformers_rate", "clean, of conformers", "clean_conformers", "conformers", "clean_each",
                  "Over conformers; an answer of several is clean if all of its are"),
    Measure("differ_least_ang", "least RMSD between conformers", "Å", sample="differ_least_ang", better="more",
            help="Heavy atoms, between the conformers of one answer; mean over answers with several", is_main=False),
    Measure("differ_mean_ang", "RMSD between conformers", "Å", sample="differ_mean_ang", better="more",
            help="The mean over all pairs of one answer; mean over answers with several", is_main=False),
    Measure("canonical_share", "cut as the tokenizer cuts", "%", sample="canonical::INT", better="more",
            help="Answers whose tokens are those of their text; a byte grammar also writes others"),
    Measure("log_w", "log w, LP and filters", "nat per sample",
            help="Sum of ln p − ln q over a sample's tokens, at the sampling's temperature; 0: the model's own"),
    Measure("effective_share", "effective samples", "%", help="Of those with kept steps: (sum w)² / sum w² over them"),
    Measure("reported_pass_rate", "passed, by its file", "%", help="As an imported file counts, by its own rule"),
    Measure("blocks", "blocks", "", "blocks", help="Coordinate blocks found", is_main=False),
    of_blocks("junk_letters_share", "with letters", "junk_letters",
              "CASE WHEN has_blocks THEN coalesce(of_blocks.junk_letters, 0) END", "The reports' first count of junk"),
    of_blocks("junk_nonnumeric_share", "not numeric", "junk_nonnumeric",
              "CASE WHEN has_blocks THEN coalesce(of_blocks.junk_nonnumeric, 0) END",
              "Anything but digits . , -: their second count"),
    of_blocks("cut_share", "cut", "cut_blocks", "cut_blocks", "Closed by force inside their numbers"),
    of_blocks("unverified_share", "unverified", "unverified_blocks", "",
              "Closed by force; not known whether cut"),
    of_blocks("misread_share", "misread by the group's reader", "misread_blocks", "",
              "Blocks that it puts over 0.01 Å off what they state, or reads where no number is"),
    Measure("misread_most_ang", "misread at most by", "Å", "misread_most_ang",
            help="The farthest block that states three numbers"),
    Measure("bad_blocks", "blocks neither exact nor unverified", "", "bad_blocks", sample="bad_blocks", better="less",
            is_main=False),
    Measure("drift_mean", "drift", "tokens per block", help="Where known: + is junk-prone, − is cut", is_main=False),
    Measure("drift_abs_mean", "mean absolute drift", "tokens per block", sample="of_blocks.drift_abs",
            over=DRIFT_BLOCKS, help="Where known. It is no count of damage", is_main=False),
    Measure("redrawn_blocks", "redrawn", "", "redrawn_blocks",
            help="How often a guard had blocks drawn again: one was wrong, or under shaped at a dead end"),
    Measure("thrown_tokens", "tokens thrown away", "", "thrown_tokens", help="By the guard; not among the tokens"),
    Measure("unmended_samples", "still wrong after the guard", "", "unmended_samples",
            help="Samples with a failed check when its tries were used up"),
    Measure("dead_ends", "dead ends", "", "dead_ends", sample="dead_ends", better="less",
            help="Under shaped: how often no token left a right place"),
    Measure("struck_tokens", "struck tokens", "", "struck_tokens", sample="struck_tokens", is_main=False,
            help="Under shaped: likely tokens that were struck, since they leave no right place"),
    share("usable_rate", "usable", "usable", "judged", "usable::INT",
          help="Of judged answers: clean, stereo right, geometry right; of several conformers all"),
    of_conformers("usable_conformers_rate", "usable, of conformers", "usable_conformers", "judged_conformers",
                  "usable_each", "Over judged conformers, several of which may be in one answer"),
    share("usable_of_asked", "usable, of conformers asked for", "usable_conformers", "conformers_asked", "",
          help="Over those asked for: an answer with fewer than asked counts its missing ones as not usable",
          is_main=False),
    share("stereo_right_rate", "stereo right", "stereo_right", "stereo_judged", "stereo_right::INT",
          help="Of answers for which the SMILES specifies any: all right"),
    share("geometry_right_rate", "geometry right", "geometry_right", "geometry_judged", "geometry_right::INT",
          help="Of those with a conformer to judge: no check failed"),
    Measure("strain_kcal", "strain", "kcal/mol", "strain_kcal", sample=GEOMETRY.format("strain_kcal"), better="less",
            help="Above the relaxed conformer; mean over answers with right geometry"),
    Measure("strain_kcal_per_atom", "strain per heavy atom", "kcal/mol", better="less", help="The same, per heavy atom",
            sample=GEOMETRY.format("CASE WHEN same_graph IS NOT FALSE THEN strain_kcal / nullif(heavy_atoms, 0) END")),
    Measure("strain_moved_ang", "RMSD after relaxation", "Å", sample=GEOMETRY.format("strain_moved_ang"),
            better="less", help="Heavy atoms; mean where geometry is right"),
    Measure("rmsd_ang", "RMSD", "Å", "rmsd_ang", sample="rmsd_ang", better="less",
            help="Mean over answers: heavy atoms, to the nearest of the references"),
    Measure("cov_r", "COV-R, stated", "%", better="more", help="As a report or its file states it"),
    Measure("cov_p", "COV-P, stated", "%", better="more", help="As a report or its file states it"),
    Measure("mat_r", "MAT-R, stated", "Å", better="less", help="As a report or its file states it"),
    Measure("mat_p", "MAT-P, stated", "Å", better="less", help="As a report or its file states it"),
)  # fmt: skip
BY_NAME = {measure.name: measure for measure in MEASURES}
OF_SEVERAL = frozenset(m.name for m in MEASURES if "conformers" in m.name or m.name.startswith("differ_"))
"""Shown at once where an answer has several conformers."""
SAMPLED = tuple(measure for measure in MEASURES if measure.sample)
"""Those that runs are compared by, sample by sample."""


def figure(entry: Entry, name: str) -> float | None:
    """What a run's sheet says of a measure. None where it does not: never 0, and no other run's."""
    measure = BY_NAME[name]
    if measure.part:
        part = run_value(entry, measure.part)
        return quotient(part, run_value(entry, measure.whole), measure.scale) if measure.whole else part
    if name in STATED:
        return stated(entry)[name]
    if name == "reported_pass_rate":
        passes, failures = entry.row.get("reported_passes"), entry.row.get("reported_failures")
        return None if passes is None or failures is None else quotient(passes, passes + failures)
    return None  # its samples or steps say it


def rate(entry: Entry, name: str) -> Interval | None:
    """A share of counts with Wilson's 95 % interval; without one where the counts cannot be."""
    value, measure = figure(entry, name), BY_NAME[name]
    if value is None:
        return None
    part, whole = entry.row[measure.part], entry.row[measure.whole]
    return Interval(value, *wilson(part, whole)) if 0 <= part <= whole else Interval(value)


def stated(entry: Entry) -> dict[str, float | None]:
    """Coverage that a report or its file states beyond the columns, in any spelling: ``COV-R``, ``mat_p_ang``."""
    try:
        extra = parsed_json(entry.row.get("extra") or "{}")
    except ValueError:
        extra = {}
    coverage: dict[str, float | None] = dict.fromkeys(STATED)
    for key, value in extra.items() if isinstance(extra, Mapping) else ():
        name = key.lower().replace("-", "_").removesuffix("_ang")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in coverage and is_number and abs(value) <= sys.float_info.max:  # a whole number may be larger
            coverage[name] = float(value)
    return coverage


PARTS = ("template", "prefill", "forward", "constraint", "sampling")
UNEXPLAINED, UNCOUNTED = "unexplained", "not counted"


def time_parts(run: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of a run's wall time by its own clock, and what that does not explain; all of it where it counted no
    part. Empty where nothing is known."""
    wall_s = run.get("wall_s")
    parts = {part: run[f"{part}_s"] for part in PARTS if run.get(f"{part}_s") is not None}
    if wall_s is None:
        return parts
    if not parts:
        return {UNCOUNTED: wall_s}
    return parts | {UNEXPLAINED: max(0.0, wall_s - math.fsum(parts.values()))}


# --- names ------------------------------------------------------------------------------------------------------------


def lp_words(entry: Entry) -> str:
    name = stored_name(run_value(entry, "lp"), is_former=not entry.row.get("descriptors"))
    return f"{name} {FORMER_COUNTS}".lstrip() if has_former_counts(entry) else name


def engine_words(entry: Entry) -> str:
    """What wrote it where that is not our own loop: plain ``generate`` (hf), or a server."""
    backend = run_value(entry, "backend")
    return backend if backend in ("hf", "server") else ""


def model_words(entry: Entry) -> str:
    """``alias:step``, or the family alone."""
    return model_name(entry.row) or str(run_value(entry, "model_family"))


def run_name(entry: Entry) -> str:
    """Model, LP and engine, the origin unless measured, whether profiled; where no model is named the label, the file
    or the id."""
    first = model_words(entry) or label_words(entry) or entry.id
    return " · ".join(filter(None, (first, lp_words(entry), *run_marks(entry))))


def run_marks(entry: Entry) -> list[str]:
    origin = "" if entry.row["origin"] == "measured" else entry.row["origin"]
    branch = "branch" if is_branch(entry) else ""
    return list(filter(None, (engine_words(entry), origin, branch, "profiled" if is_profiled(entry) else "")))


def run_names(entries: Sequence[Entry]) -> dict[str, str]:
    """By id, as short as tells these apart: ``exact``, ``demo-qwen:final · exact``, with the label, or the id."""

    def short(entry: Entry) -> str:
        return " · ".join([lp_words(entry), *run_marks(entry)]) if lp_words(entry) else run_name(entry)

    for name in (short, run_name, lambda entry: f"{run_name(entry)} · {label_words(entry) or entry.id}"):
        names = {entry.id: name(entry) for entry in entries}
        if len(set(names.values())) == len(names):
            return names
    return {entry.id: entry.id for entry in entries}


def has_samples(entry: Entry) -> bool:
    """Whether it can be looked into, paired and drawn from; a reported run cannot."""
    return SAMPLES.name in entry.parts and entry.parts[SAMPLES.name].rows > 0


def conformers_per_answer(entry: Entry) -> int | None:
    """As asked for; None where that is not known."""
    stated = entry.row.get("conformers_per_answer")
    return 1 if stated is None and entry.row["origin"] == "measured" else stated


def constrained_notes(entries: Sequence[Entry], names: Mapping[str, str]) -> list[str]:
    """Of runs whose LP did not act on every token: they are not what an LP would have written."""
    faults = {
        "no": "its LP did not act on every token",
        "not in its language": "its LP does not allow all of its tokens",
    }
    words = {entry.id: faults.get(constrained_words(entry) or "") for entry in entries}
    return [
        f"{names[entry.id]}: {words[entry.id]} ({entry.row.get('constrained_why') or 'cause unknown'})."
        for entry in entries
        if words[entry.id]
    ]


def pool_notes(entries: Sequence[Entry], names: Mapping[str, str]) -> list[str]:
    """What a pool is, and what is known of it."""
    pools = listed([names[entry.id] for entry in entries if is_pool(entry)])
    known = "only stereo, geometry, strain, RMSD and coverage are known, not texts, tokens or time"
    return [f"{pools}: conformers of another program, of which {known}."] if pools else []


def answer_notes(entries: Sequence[Entry], names: Mapping[str, str]) -> list[str]:
    """Of runs whose answers hold different numbers of conformers, or keep another sample's first tokens."""
    notes = [
        f"{names[entry.id]}: goes on from one token of {entry.row['branch_of']}, so it says what comes of that place, "
        "not how its LP writes, and its time is that of the rest."
        for entry in entries
        if is_branch(entry)
    ]
    each = {names[entry.id]: conformers_per_answer(entry) for entry in entries}
    known = {name: count for name, count in each.items() if count is not None}
    if len(set(known.values())) > 1:
        counts = listed([f"{count} ({name})" for name, count in known.items()])
        notes.append(
            f"Conformers per answer differ: {counts}. A sample is an answer: figures per sample are not per conformer."
        )
    return notes
