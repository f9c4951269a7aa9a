"""What ``generate`` shows: live coloured text, progress, a summary; and its JSON and SDF."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.cli.output import StatusLine, bar, write
from engine.errors import EnrichedError, visible
from engine.figures.words import counted
from engine.folders import exporting
from engine.lp_records import lp_record
from engine.models.devices import threads_of
from engine.records import CHECK_COLUMNS

if TYPE_CHECKING:
    from engine.decode.generation import Generation
    from engine.decode.samples import Sample
    from engine.decode.steps import Back, Event
    from engine.records import NumberFormat, ReaderName

DIM, BOLD, RED, YELLOW, GREEN, PLAIN = "\033[2m", "\033[1m", "\033[31m", "\033[33m", "\033[32m", "\033[0m"
UNLIKELY = 0.01
"""Forced tokens with a lower probability are listed with the diagnostics."""
MOST_UNLIKELY = 5
OF_SAMPLE = "sample_id generation smiles text token_ids forced stop_reason tokens forced_tokens".split()
"""Keys of a sample's JSON, beside those of its check."""


class GenerationDisplay:
    """One generation on a terminal. A single sample is written token by token; several are counted, shown when done."""

    def __init__(self, generation: Generation, *, is_quiet: bool) -> None:
        self.generation, self.is_quiet = generation, is_quiet
        self.colours = not is_quiet and sys.stdout.isatty()
        self.is_live = self.colours and len(generation.requests) == 1
        self.line = StatusLine(is_quiet=self.is_live)
        self.tokens = self.done = self.shown = 0
        self.waiting: dict[int, Sample] = {}
        self.began = time.monotonic()

    def event(self, event: Event) -> None:
        from engine.decode.steps import Back, Step

        if isinstance(event, Step):
            self.tokens += 1
            tokenizer = self.generation.loaded.tokenizer
            if self.is_live and event.token_id != tokenizer.end_id:
                piece = _printable(tokenizer.decode([event.token_id]))
                sys.stdout.write(f"{DIM}{piece}{PLAIN}" if event.forced else piece)
                sys.stdout.flush()
        elif isinstance(event, Back):
            self._went_back(event)
        else:
            self.done += 1
            if not self.is_quiet:
                self._show_next()
        if self.line.is_due:
            total = len(self.generation.requests)
            rate = self.tokens / max(time.monotonic() - self.began, 1e-9)
            self.line.draw(
                f"{bar(self.done / total)} {self.done}/{total} molecules, {self.tokens:,} tokens, {rate:,.0f} tokens/s"
            )

    def _went_back(self, back: Back) -> None:
        """Struck out where the terminal shows the text as it comes: what is written already stays on it."""
        if self.is_live:
            wrong = ", ".join(dict.fromkeys(place.check for place in back.wrong))
            sys.stdout.write(f"{RED}✗ {wrong}, back to block {back.block}{PLAIN}\n")

    def _show_next(self) -> None:
        """Those that are done, in the order asked, up to the first that is not."""
        done = self.generation.samples[-1]
        self.waiting[done.sample_id] = done
        while (sample := self.waiting.pop(self.shown, None)) is not None:
            self._sample(sample)
            self.shown += 1

    def close(self) -> None:
        self.line.clear()
        if not self.is_quiet:
            for number in sorted(self.waiting):  # behind one that was stopped
                self._sample(self.waiting[number])
            sys.stderr.write(summary(self.generation) + "\n")
        for text in self.generation.counters.notes:
            sys.stderr.write(text + "\n")

    def _sample(self, sample: Sample) -> None:
        self.line.clear()
        if self.is_live:
            sys.stdout.write("\n")
        sys.stdout.write(_heading(sample, colours=self.colours) + "\n")  # colours are commands, which `write` escapes
        if not self.is_live or sample.text != sample.raw_text:
            sys.stdout.write((_coloured(sample) if self.colours else _printable(sample.text)) + "\n")
        for line in _unlikely_forced(sample, self.generation):
            write(line)


def summary(generation: Generation) -> str:
    samples, counters = generation.samples, generation.counters
    blocks = [block for sample in samples for block in sample.blocks]
    bad = sum(not set(block.kinds) <= {"exact", "unverified"} for block in blocks)
    rate = counters.tokens / counters.decode_s if counters.decode_s else 0.0
    threads = threads_of(generation.loaded.device)
    guarded = [sample.guarding for sample in samples if sample.guarding is not None]
    guard = ""
    if guarded:
        reasons = ", ".join(
            f"{count:,} {check} with {counters.thrown_by[check]:,} tokens"
            for check, count in sorted(counters.redrawn.items())
        )
        guard = (
            f"\nguard: blocks drawn anew {counted(sum(counters.redrawn.values()), 'time')}"
            f"{f' ({reasons})' if reasons else ''}, "
            f"{counters.thrown_tokens:,} tokens thrown away, {sum(bool(one.unmended) for one in guarded)} of "
            f"{len(guarded)} answers with something left wrong"
        )
    return (
        f"{sum(sample.check.passed for sample in samples)} of {len(samples)} passed, "
        f"{sum(sample.check.decodes for sample in samples)} decode, "
        f"{sum(sample.check.clean for sample in samples)} clean; {bad} of {len(blocks)} blocks not exact; "
        f"{counters.tokens:,} tokens ({counters.forced_tokens:,} forced) decoded in {counters.decode_s:.2f} s, "
        f"{rate:,.0f} tokens/s, {counters.forward_passes:,} passes; "
        f"{generation.loaded.entry.name}, {generation.plan.lp}, {generation.plan.backend}, {generation.loaded.device}"
        f"{'' if threads is None else ', ' + counted(threads, 'thread')}{guard}"
    )


def _heading(sample: Sample, *, colours: bool) -> str:
    state, colour = ("clean", GREEN) if sample.check.clean else ("passed", YELLOW)
    if not sample.check.decodes:
        state = "passed, does not decode"
    if not sample.check.passed:
        state, colour = "; ".join(sample.check.issues), RED
    stopped = "" if sample.stop_reason == "end" else f" (stopped: {sample.stop_reason})"
    name = f"{sample.smiles} #{sample.generation + 1}" if sample.generation else sample.smiles
    return f"{BOLD}{name}{PLAIN} {colour}{state}{PLAIN}{stopped}" if colours else f"{name} {state}{stopped}"


def _coloured(sample: Sample) -> str:
    """The text with damaged blocks in red and unverified ones in yellow."""
    from engine.text.blocks import find_blocks

    parts, position = [], 0
    for block, judged in zip(find_blocks(sample.text), sample.blocks, strict=False):
        is_damaged = not set(judged.kinds) <= {"exact", "unverified"}
        colour = RED if is_damaged else YELLOW if "unverified" in judged.kinds else ""
        parts.append(f"{DIM}{_printable(sample.text[position : block.start])}{PLAIN}")
        parts.append(f"{colour}{_printable(sample.text[block.start : block.end])}{PLAIN if colour else ''}")
        position = block.end
    return "".join([*parts, f"{DIM}{_printable(sample.text[position:])}{PLAIN}"])


def _unlikely_forced(sample: Sample, generation: Generation) -> list[str]:
    """Forced tokens that the model gave a low probability."""
    if not sample.diagnoses:
        return []
    steps = zip(sample.token_ids, sample.forced, sample.diagnoses, strict=True)
    unlikely = sorted(
        (step.p_raw, step.rank_raw, id_) for id_, forced, step in steps if forced and step.p_raw < UNLIKELY
    )
    piece = generation.loaded.tokenizer.piece
    least = min(step.allowed_mass for step in sample.diagnoses)
    return [
        f"  least mass that the LP allowed: {least:.3g}; {len(unlikely)} forced tokens below p {UNLIKELY:g}",
        *(f"  forced {piece(id_)!r}: p {p:.2g}, rank {rank:,}" for p, rank, id_ in unlikely[:MOST_UNLIKELY]),
    ]


def _printable(text: str) -> str:
    """Generated text is untrusted: nothing in it may move a terminal's cursor."""
    return "".join(visible(char) for char in text)


def document(generation: Generation, skipped: Sequence[dict[str, str]]) -> dict[str, Any]:
    counters, plan = generation.counters, generation.plan
    guard = {"tokens_thrown": counters.thrown_tokens, "blocks_redrawn": sum(counters.redrawn.values())}
    return {
        "model": generation.loaded.entry.name,
        "lp": plan.lp,
        "placeholder": generation.placeholder,
        "descriptors": generation.descriptors,
        "backend": plan.backend,
        "sampling": asdict(plan.sampling),
        "seed": plan.seed,
        "device": str(generation.loaded.device),
        "threads": threads_of(generation.loaded.device),
        "template_s": generation.template_s,
        **asdict(counters),
        **(guard if lp_record(generation.lp).is_guarded else {}),
        "samples": [sample_document(sample) for sample in generation.in_order()],
        "skipped": list(skipped),
    }


def sample_document(sample: Sample) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(sample, name) for name in OF_SAMPLE}
    row |= {name: getattr(sample.check, name) for name in CHECK_COLUMNS}
    row["blocks"] = [asdict(block) for block in sample.blocks]
    if sample.guarding is not None:
        row |= sample.guarding.figures
        row["unmended"] = [asdict(wrong) for wrong in sample.guarding.unmended]
    if sample.raw_text != sample.text:
        row["raw_text"] = sample.raw_text
    if sample.diagnoses:
        row["steps"] = [asdict(step) for step in sample.diagnoses]
    return row


def write_sdf(path: Path, samples: Sequence[Sample], form: NumberFormat, reader: ReaderName = "strict") -> None:
    """All conformers that can be read, and a note of how many cannot."""
    from engine.chem.enriched import as_decimals
    from engine.chem.structure_files import to_sdf
    from engine.text.readers import decode_with

    mols, unread = [], 0
    for sample in samples:
        try:
            mols.append(decode_with(reader, as_decimals(sample.text, form)).mol)
        except EnrichedError:
            unread += 1
    with exporting(path) as file:
        file.write(to_sdf(mols).encode())
    failed = f", {unread} samples cannot be read, by the {reader} reader" if unread else ""
    sys.stderr.write(f"{path}: {len(mols)} conformers{failed}\n")
