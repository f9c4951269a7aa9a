"""Whether a run was constrained by its LP, as its columns say: what its canary counted, and what proves more.

That all tokens are in the language of an LP is no proof that it acted: a model may write so by itself. Our own loops
prove it by the steps at which the LP was asked, a server by a probe: its prompt names one molecule and the LP's
arguments another, which has to be written.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from engine.chem.enriched import CLOSE_TAG
from engine.decode.samples import Sample
from engine.errors import DriftscopeError
from engine.figures.words import counted
from engine.inspection.canary import CAUSES, KINDS, STOPPED, Answer, Canary, Finding, Tally
from engine.inspection.runs import RunFacts, facts_of, number_format, run_tokenizer
from engine.inspection.sample import molecule_asked
from engine.lp.constraint import Constraint, LpParameters, build_constraint
from engine.lp.grammar import GrammarConstraint
from engine.lp.table import Program
from engine.lp.unconstrained import Unconstrained
from engine.lp_records import CONFORMER_CONTROL, NO_LP, UNKNOWN_LP, split_cleanup
from engine.records import Molecule
from engine.store.entries import Entry, constrained_words, number_format_of
from engine.store.schema import SAMPLES
from engine.store.staging import rewrite_run
from engine.text.tokenizers import TextTokenizer
from engine.user_files import parsed_json

if TYPE_CHECKING:
    from engine.decode.generation import Generation

Constrained = Literal["yes", "no", "not checked", "in its language", "not in its language", "no LP"]
ASKED = "its LP was asked at each step, and allows each token"
PROVED = (
    "each token is in the LP's language; asked for one molecule by its prompt and for another by its LP, the server "
    "wrote that of the LP"
)
NO_PROOF = "each token is in the LP's language; whether the LP was asked at each step is not known"
GROUP = 64
"""Stored samples that are looked at together."""
FINDINGS, PROOFS = "lp_findings", "lp_proofs"
"""Of a run's notes: [rank, words] of each group's worst finding, and what the probes of its server said."""
PROBED = "probed_samples"
"""Of a group's sums: its samples, where the process that wrote them had probed its server before; no column."""
MOST_FINDINGS, PROGRAMS = 1_000, 64
"""Of stored samples: findings that are kept, the first ones; and molecules whose programs are."""


@dataclass(frozen=True, slots=True)
class Verdict:
    constrained: Constrained
    constrained_why: str


def follow(generation: Generation, samples: Iterable[Sample]) -> Tally | None:
    """What the canary says of samples that were written together; None without an LP."""
    if isinstance(generation.constraint, Unconstrained) and not isinstance(generation.constraint, GrammarConstraint):
        return None
    answers = [
        Answer(
            sample.sample_id,
            generation.molecule_of(sample.sample_id),
            generation.request_of(sample.sample_id).program,
            sample.token_ids,
            sample.raw_text,
            sample.stop_reason,
            sample.unseen,
        )
        for sample in samples
    ]
    canary = Canary(generation.constraint, generation.loaded.tokenizer)
    canary.look_at_all(answers)
    return canary.tally


def proof_of(generation: Generation, cancelled: Callable[[], bool] = lambda: False) -> bool | None:
    """Whether its server holds to its LP now; None where that is not known. Nothing more is asked for where a limit of
    time or a stop cut answers off."""
    if any(sample.stop_reason in STOPPED for sample in generation.samples):
        return None
    try:
        return generation.proof(cancelled)
    except DriftscopeError:  # the server is away, or refuses the probe
        return None


def sums_of(tally: Tally | None) -> dict[str, int]:
    """By column of ``runs``."""
    if tally is None:
        return {}
    counts = (tally.followed, tally.seen, tally.faulty)
    return dict(zip(("followed_samples", "seen_samples", "unconstrained_samples"), counts, strict=True))


def findings_of(tally: Tally | None) -> list[list[Any]]:
    """The worst one, for a run's notes."""
    return [] if tally is None or tally.worst is None else [[tally.worst.rank, tally.worst.words]]


def verdict(
    sums: Mapping[str, Any],
    findings: Iterable[Sequence[Any]],
    proofs: Iterable[bool | None] = (),
    *,
    was_watched: bool = True,
) -> Verdict:
    """``sums`` has ``samples`` and the columns of ``sums_of``; ``proofs`` are of each process that asked a server.
    ``was_watched``: by its canary while it was written, so that what is wrong is known to be the LP's."""
    samples = int(sums.get("samples") or 0)
    followed, seen, faulty = (int(sums.get(name) or 0) for name in sums_of(Tally()))
    worst = min(findings, default=None, key=lambda finding: finding[0])
    is_proved = _is_proved(list(proofs), worst)
    if faulty:
        word: Constrained = "no" if was_watched else "not in its language"
        return Verdict(word, f"{counted(faulty, 'sample')} of {samples:,}: {worst[1] if worst else 'cause unknown'}")
    if is_proved is False:
        return Verdict("no", f"{CAUSES['ignored']}: its probe wrote the molecule of the prompt")
    also = f"; {worst[1]}" if worst else ""
    if not samples or followed < samples:
        return Verdict("not checked", f"{followed:,} of {counted(samples, 'sample')} followed{also}")
    if seen == samples:
        return Verdict("yes", ASKED + also)
    if is_proved:
        return Verdict("yes", PROVED + also)
    return Verdict("in its language", NO_PROOF + also)


def _is_proved(proofs: Sequence[bool | None], worst: Sequence[Any] | None) -> bool | None:
    """By probes. What was left without a token is proved by none."""
    if False in proofs:
        return False
    has_all = worst is None or worst[0] == KINDS.index("cut")
    return True if has_all and proofs and all(proofs) else None


def columns(sums: Mapping[str, Any], notes: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Of a run that is published; none of one without an LP, or whose groups are all of an earlier version. What a
    process wrote that did not probe its server is not proved by the probes of others."""
    if not sums.get("followed_samples"):
        return {}
    proofs = notes.get(PROOFS, ())
    if sums.get(PROBED, 0) < sums["samples"]:
        proofs = [*proofs, None]
    return asdict(verdict(sums, notes.get(FINDINGS, ()), proofs))


def of_generation(generation: Generation, *, probes: bool = True) -> Verdict | None:
    """Of all that it wrote; None without an LP. ``probes``: a server is asked once more, whether it holds to the LP."""
    tally = follow(generation, generation.samples)
    if tally is None:
        return None
    is_probed = probes and generation.plan.backend == "server" and generation.samples
    proofs = [proof_of(generation)] if is_probed else []
    sums = {"samples": len(generation.samples), **sums_of(tally)}
    return verdict(sums, findings_of(tally), proofs)


# --- of what is stored ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Followed:
    """Stored samples, by the canary. ``why_not``: why none of them could be followed."""

    tally: Tally
    samples: int = 0
    findings: tuple[Finding, ...] = ()
    why_not: str = ""


def constraint_of_run(run: RunFacts, tokenizer: TextTokenizer, vocab_rows: int = 0) -> Constraint:
    """A stored run's LP, as far as its columns tell; ``vocab_rows`` are those of a model that is to be asked."""
    name = run.constraint if run.lp_record is UNKNOWN_LP else run.lp_record.name
    parameters = LpParameters(run.placeholder, number_format(run), conformers=run.conformers_per_answer or 1)
    return build_constraint(name, tokenizer, vocab_rows or tokenizer.vocab_size, parameters)


def follow_stored(run: RunFacts, entry: Entry, most: int) -> Followed:
    """Its first ``most`` samples."""
    tokenizer, why_not = run_tokenizer(run)
    record = run.lp_record
    if not run.constraint:
        why_not = "The run does not name its LP"
    elif record.name == NO_LP:
        why_not = "It has no LP"
    elif record.by_server or (record.name.startswith(CONFORMER_CONTROL) and entry.row.get("examples")):
        why_not = f"What {record.name} allows is not stored"
    if tokenizer is None or why_not:
        return Followed(Tally(), why_not=why_not.rstrip("."))
    try:
        canary = Canary(constraint_of_run(run, tokenizer), tokenizer)
    except DriftscopeError as error:
        return Followed(Tally(), why_not=f"Its LP cannot be made here: {error.what}")
    findings, number = list[Finding](), 0
    names = ["sample_id", "smiles", "text", "token_ids", "stop_reason", "extra"]
    asked = functools.lru_cache(maxsize=PROGRAMS)(functools.partial(_asked, run, canary.constraint))
    for batch in entry.batches(SAMPLES.name, names, GROUP):
        rows = batch.slice(0, most - number).to_pylist()
        number += len(rows)
        answers = [_stored_answer(run, row, canary, asked) for row in rows]
        findings += canary.look_at_all([answer for answer in answers if answer is not None])
        del findings[MOST_FINDINGS:]
        if number == most:
            break
    why_not = "" if canary.tally.followed else "It has no tokens that can be followed"
    return Followed(canary.tally, number, tuple(findings), why_not)


def _asked(run: RunFacts, constraint: Constraint, smiles: str, extra: str) -> tuple[Molecule, Program] | None:
    molecule, why_not, _ = molecule_asked({"smiles": smiles, "extra": extra}, run.descriptors, form=number_format(run))
    if not why_not:
        with suppress(DriftscopeError):
            return molecule, constraint.compile(molecule)
    return None


def _stored_answer(
    run: RunFacts, row: Mapping[str, Any], canary: Canary, asked: Callable[[str, str], tuple[Molecule, Program] | None]
) -> Answer | None:
    """None where its tokens or its molecule are not known."""
    ids, text, extra = row["token_ids"], row["text"], dict[str, Any]()
    with suppress(ValueError, TypeError):
        extra = dict(parsed_json(row["extra"] or "{}"))
    of_text = extra.pop("raw_text", None if split_cleanup(run.lp)[1] else text)  # a cleaned text is not that of the ids
    if not ids and text and run.lp_record.closed_by == "model" and not run.lp_record.placeholder:
        is_closed = text.rstrip().endswith(CLOSE_TAG)  # blanks behind it are of the file
        ids, of_text = canary.tokenizer.encode(text.rstrip() if is_closed else text), None
    if not ids or None in ids:
        return None
    found = asked(row["smiles"], json.dumps(extra))  # without what differs from row to row
    return None if found is None else Answer(row["sample_id"], *found, ids, of_text, row["stop_reason"])


def stored_verdict(entry: Entry, followed: Followed) -> Verdict:
    """What the run says of itself where it was watched; else what its stored tokens tell."""
    row = entry.row
    if constrained_words(entry) == "no LP":
        return Verdict("no LP", "the model wrote freely")
    if row.get("constrained"):
        return Verdict(row["constrained"], row.get("constrained_why") or "")
    return told_by_tokens(entry, followed)


def told_by_tokens(entry: Entry, followed: Followed) -> Verdict:
    if followed.why_not:
        return Verdict("not checked", followed.why_not)
    sums = {"samples": followed.samples, **sums_of(followed.tally)}
    found = verdict(sums, findings_of(followed.tally), was_watched=False)
    rest = entry.parts[SAMPLES.name].rows - followed.samples
    more = [f"{rest:,} not looked at"] if rest > 0 else []
    form = number_format_of(entry) if entry.row["origin"] == "imported" else None
    if form is not None and found.constrained == "not in its language":
        more.append(f"numbers as most of its texts have them: {form.words}")
    return replace(found, constrained_why="; ".join([found.constrained_why, *more]))


def columns_of_tokens(entry: Entry) -> dict[str, Any]:
    """Of a run with texts that was not watched while it was written: what all its stored tokens tell, where it does not
    say that yet."""
    if constrained_words(entry) not in ("not checked yet", "not checked"):
        return {}
    followed = follow_stored(facts_of(entry), entry, entry.parts[SAMPLES.name].rows)
    found = asdict(told_by_tokens(entry, followed))
    return {} if found.items() <= entry.row.items() else found


def with_verdict(entry: Entry) -> Entry:
    """The run of somebody else's texts, which says from here on whether they are in its LP's language."""
    found = columns_of_tokens(entry)
    return rewrite_run(entry, {}, found) if found else entry
