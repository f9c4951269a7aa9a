"""Preference pairs of a run, one token against another behind the same prefix, as TRL's ``DPOTrainer`` reads them.

Each likely token that ``shaped`` struck is a pair with the token that was taken in its place; such tokens are known of
samples with kept steps. Of a run of any LP that was searched, the token that lost a molecule is a pair with the nearest
one that would have left a right place (`right_tokens`). A line has ``prompt``, ``chosen`` and ``rejected`` as texts
(TRL's standard format), the same as ids, and what the pair is of; TRL reads no other keys.

A pair is written only where texts and ids agree by the Hugging Face tokenizer: prompt and token, put together, are cut
into the very ids that were written. TRL appends an end token to both texts, which these pairs do not mean; the ids are
there so that a trainer can take them as they are (docs/training.md).
"""

from __future__ import annotations

import gzip
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from engine.chem.enriched import OPEN_TAG, prompt_of
from engine.errors import RunError, TokenizerError
from engine.inspection.right_tokens import LostToken, RightTokens
from engine.inspection.runs import RunFacts, facts_of, number_format, run_tokenizer
from engine.inspection.sample import molecule_asked
from engine.store import reports as keys
from engine.store.entries import Entry
from engine.store.files import writing_errors
from engine.store.schema import LOST, STEPS
from engine.store.store import Store
from engine.text.tokenizers import TextTokenizer
from engine.user_files import parsed_json, writing

GROUP = 200
"""Samples whose pairs are held at once."""
STRUCK, LOST_TOKEN = "struck", "lost"
"""Sources of pairs."""
NO_PLACE_BEFORE = "no right place was left before the block that was lost"
TOKENISES_OTHERWISE = "the text is tokenised otherwise"
NO_IDS = "the sample has no token ids"
_SAMPLES = """
SELECT sample_id, smiles, text, token_ids, extra FROM samples
WHERE run_id = $run AND sample_id IN (SELECT unnest($ids)) ORDER BY sample_id
"""
_STRUCK = """
SELECT run_id, sample_id, pos, token_id, struck, ln_p, ln_share, top_k FROM steps
WHERE run_id = $run AND len(struck) > 0 AND sample_id IN (SELECT unnest($ids)) ORDER BY sample_id, pos
"""
_LOST = """
SELECT sample_id, lost.conformer, pos, tokens_by, is_before, steps.ln_p
FROM lost LEFT JOIN steps USING (run_id, sample_id, pos)
WHERE run_id = $run AND sample_id IN (SELECT unnest($ids))
QUALIFY row_number() OVER (PARTITION BY sample_id ORDER BY lost.conformer, lost.block) = 1
"""
_WITH_LOST = "SELECT DISTINCT sample_id FROM lost WHERE run_id = $run AND tokens_by <> 'characters'"
_WITH_STRUCK = "SELECT DISTINCT sample_id FROM steps WHERE run_id = $run AND len(struck) > 0"
_ABOUT = ("run_id", "sample_id", "pos", "source", "ln_p_chosen", "ln_p_rejected", "ln_share")
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Preference:
    """A token that is preferred to another at a position of a sample; logs are natural, None where not known."""

    run_id: str
    sample_id: int
    pos: int  # in the answer's ids
    chosen: int
    rejected: int
    source: str
    ln_p_chosen: float | None = None  # before the LP
    ln_p_rejected: float | None = None
    ln_share: float | None = None  # of the mass under ``exact`` at this step that leaves a right place


@dataclass(slots=True)
class PairCounts:
    """What was written, by source, and what was left out, by reason."""

    samples: int = 0  # with a pair
    pairs: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)


def write_pairs(
    store: Store, run_id: str, path: Path, progress: Callable[[int, int], None] = lambda done, samples: None
) -> PairCounts:
    """Write the pairs of a run as JSON lines, gz by the file's suffix; the file is there whole or not at all."""
    entry = store.entry(run_id)
    run = facts_of(entry)
    tokenizer, why_not = run_tokenizer(run)
    if tokenizer is None:
        raise TokenizerError(f"{entry.id} has no pairs: {why_not.rstrip('.')}", "Give a run whose tokenizer is here")
    samples = _samples_with_pairs(store, entry)
    counts = PairCounts()
    with ExitStack() as stack:
        stack.enter_context(writing_errors(path, "Give another place"))
        file: IO[bytes] | gzip.GzipFile = stack.enter_context(writing(path))
        if path.name.lower().endswith(".gz"):
            file = stack.enter_context(gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0))
        for start in range(0, len(samples), GROUP):
            group = samples[start : start + GROUP]
            for line in _lines(store, run, tokenizer, group, counts):
                file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            progress(start + len(group), len(samples))
    return counts


def _samples_with_pairs(store: Store, entry: Entry) -> list[int]:
    found: set[int] = set()
    for part, sql in ((STEPS, _WITH_STRUCK), (LOST, _WITH_LOST)):
        if part.name in entry.parts:
            found.update(store.table(sql, {"run": entry.id}, of=[entry.id])["sample_id"].to_pylist())
    if not found:
        steps = "no token was struck in its kept steps" if STEPS.name in entry.parts else "it has no kept steps"
        lost = "none is known to have lost a molecule"
        raise RunError(
            f"{entry.id} has no preference pairs: {steps}, and {lost}",
            "Write molecules with `run --lp shaped --keep-steps N`, or search the run's own with `lost RUN`",
        )
    return sorted(found)


def _lines(
    store: Store, run: RunFacts, tokenizer: TextTokenizer, sample_ids: Sequence[int], counts: PairCounts
) -> Iterator[dict[str, Any]]:
    """The lines of some samples."""
    of_group = {"run": run.run_id, "ids": list(sample_ids)}
    struck: dict[int, list[Preference]] = {}
    for step in store.table(_STRUCK, of_group, of=[run.run_id]).to_pylist():
        struck.setdefault(step["sample_id"], []).extend(_struck(step))
    samples = store.table(_SAMPLES, of_group, of=[run.run_id]).to_pylist()
    marks = {mark["sample_id"]: mark for mark in store.table(_LOST, of_group, of=[run.run_id]).to_pylist()}
    lost = _lost(run, tokenizer, samples, marks, counts)
    for sample in samples:
        before = counts.pairs.total()
        for ids, preferences in (
            (sample["token_ids"], struck.get(sample["sample_id"], [])),
            lost.get(sample["sample_id"], ([], [])),
        ):
            for line in _written(tokenizer, sample, ids, preferences, counts):
                yield line | {"smiles": sample["smiles"]}
        counts.samples += counts.pairs.total() > before


def _written(
    tokenizer: TextTokenizer,
    sample: Row,
    ids: Sequence[int] | None,
    preferences: Sequence[Preference],
    counts: PairCounts,
) -> Iterator[dict[str, Any]]:
    """The lines of preferences at places of these ids."""
    if not ids or not preferences:
        counts.left_out.update({NO_IDS: len(preferences)} if preferences else {})
        return
    for preference, texts in zip(preferences, _texts(tokenizer, sample, ids, preferences), strict=True):
        if texts is None:
            counts.left_out[TOKENISES_OTHERWISE] += 1
        else:
            counts.pairs[preference.source] += 1
            yield texts | {name: getattr(preference, name) for name in _ABOUT}


def _lost(
    run: RunFacts, tokenizer: TextTokenizer, samples: Sequence[Row], marks: Mapping[int, Row], counts: PairCounts
) -> dict[int, tuple[list[int], list[Preference]]]:
    """By sample its ids, and the pair of the first token that lost it; what has none is counted."""
    asked: list[tuple[Row, Sequence[int], LostToken]] = []
    opening = tokenizer.id_of(OPEN_TAG)
    for sample in samples:
        if (mark := marks.get(sample["sample_id"])) is None or mark["tokens_by"] == "characters":
            continue
        if mark["is_before"]:
            counts.left_out[NO_PLACE_BEFORE] += 1
            continue
        is_written = mark["tokens_by"] == "written"
        ids = sample["token_ids"] if is_written else tokenizer.encode(sample["text"])
        molecule, _, _ = molecule_asked(sample, run.descriptors, by_text=not is_written, form=number_format(run))
        start = 0
        if mark["conformer"] > 1:  # each is asked like the first
            start = max((pos for pos, id_ in enumerate(ids[: mark["pos"] + 1]) if id_ == opening), default=0)
        asked.append((mark, ids, LostToken(molecule, ids[start:], mark["pos"] - start)))
    if not asked:
        return {}
    right = RightTokens(tokenizer, number_format(run)).nearest([token for *_, token in asked])
    pairs = {}
    for (mark, ids, token), chosen in zip(asked, right, strict=True):
        if isinstance(chosen, str):
            counts.left_out[chosen] += 1
            continue
        rejected, number = token.ids[token.pos], mark["sample_id"]
        pair = Preference(run.run_id, number, mark["pos"], chosen, rejected, LOST_TOKEN, ln_p_rejected=mark["ln_p"])
        pairs[number] = (list(ids), [pair])
    return pairs


def _struck(step: Row) -> Iterator[Preference]:
    """A pair for each token that was struck at a step."""
    p_raw = {likely["token_id"]: likely["p_raw"] for likely in step["top_k"] or ()}
    for rejected in step["struck"]:
        p = p_raw.get(rejected)
        yield Preference(
            run_id=step["run_id"],
            sample_id=step["sample_id"],
            pos=step["pos"],
            chosen=step["token_id"],
            rejected=rejected,
            source=STRUCK,
            ln_p_chosen=step["ln_p"],
            ln_p_rejected=math.log(p) if p else None,
            ln_share=step["ln_share"],
        )


def _texts(
    tokenizer: TextTokenizer, sample: Row, ids: Sequence[int], preferences: Sequence[Preference]
) -> Iterator[dict[str, Any] | None]:
    """The three texts and their ids of each preference; None where the texts are not cut into the ids."""
    # What precedes the answer: of a report file's sample as the file has it.
    prompt = str(parsed_json(sample["extra"] or "{}").get(keys.BEFORE, prompt_of(sample["smiles"])))
    answer, starts, _ = tokenizer.spans(ids)
    texts = [
        (
            prompt + answer[: starts[each.pos]],
            tokenizer.raw(each.chosen).decode(errors="replace"),
            tokenizer.raw(each.rejected).decode(errors="replace"),
        )
        for each in preferences
    ]
    whole = {prompt}
    for before, chosen, rejected in texts:
        whole |= {before, before + chosen, before + rejected}
    encodings = tokenizer.backend.encode_batch(list(whole), add_special_tokens=True)
    cut = {text: encoding.ids for text, encoding in zip(whole, encodings, strict=True)}  # with what it puts before them
    for preference, (before, chosen, rejected) in zip(preferences, texts, strict=True):
        written = [*cut[prompt], *ids[: preference.pos]]
        is_same = cut[before] == written
        is_same &= cut[before + chosen] == [*written, preference.chosen]
        is_same &= cut[before + rejected] == [*written, preference.rejected]
        of_ids = {"prompt_ids": written, "chosen_ids": [preference.chosen], "rejected_ids": [preference.rejected]}
        yield {"prompt": before, "chosen": chosen, "rejected": rejected} | of_ids if is_same else None
