"""Both engines on the same token ids: their logs, how far they agree, and what late reads give."""

from __future__ import annotations

import json
import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from engine.chem.enriched import skeleton_of
from engine.chem.smiles import parse_smiles
from engine.decode.generation import Generation
from engine.decode.log_recorder import LogFile, names_of_line
from engine.decode.plan import Plan, default_limit, preset
from engine.decode.steps import Choice, StopReason
from engine.models.loading import LoadedModel
from engine.records import Molecule
from tools.llama_cpp.converting import write_gguf
from tools.llama_cpp.figures import AnswerAgreement, LogitAgreement, Rows
from tools.llama_cpp.late import LateRequest, Values, read_late
from tools.llama_cpp.session import LlamaSetting, Session, Weights, quantised

log = logging.getLogger(__name__)

ENGINE = "llama.cpp"
TRANSFORMERS = "transformers, one pass"
LATE_TOKENS, LATE_VALUES = 24, 10
"""Of a text, and of each of its rows: as many as the reports' logs have."""
SPARE = 8
"""Positions of a context beyond what is written."""
PLAN = Plan("none", sampling=preset("greedy"), batch_size=1)
FIRST_IDS = 10
"""Always logged, as in the reports' logs."""


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceAnswer:
    """One answer of ours. ``rows`` [T, V] are those of tokens, before any LP."""

    molecule: Molecule
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    passed: bool
    limit: int  # most tokens that any engine may write
    rows: Rows


class Writer:
    """A loaded model that writes one molecule after another, always in the same order."""

    def __init__(self, loaded: LoadedModel, molecules: Sequence[Molecule]) -> None:
        self.loaded, self.molecules = loaded, list(molecules)
        self.size = loaded.tokenizer.vocab_size
        self._generation = Generation(loaded, [], PLAN)

    def text(self, number: int, log: LogFile | None = None) -> ReferenceAnswer:
        """The answer for one molecule; ``log`` is given its logits at every step."""
        molecule = self.molecules[number]
        generation, rows = self._generation.more([molecule], [number]), list[Rows]()
        log_tap = None if log is None else log.tap(self.loaded, PLAN.sampling, PLAN.seed, lambda _: molecule.smiles)

        def tap(choice: Choice) -> None:
            rows.append(choice.raw[:, : self.size].to("cpu", torch.float32, copy=True).numpy())
            if log_tap is not None:
                log_tap(choice)

        generation.tap = tap
        (sample,) = generation.run()
        prompt = generation.requests[0].prompt
        return ReferenceAnswer(
            molecule,
            prompt,
            sample.token_ids,
            sample.check.passed,
            default_limit(molecule.heavy_atoms),
            np.concatenate(rows),
        )

    @property
    def end(self) -> int:
        end = self.loaded.tokenizer.end_id
        assert end is not None, "the backend asks for it first"
        return end

    def passes(self, number: int, answer: Sequence[int]) -> bool:
        """Whether another engine's answer passes, by the same rule as ours."""
        reason: StopReason = "end" if answer and answer[-1] == self.end else "length"
        read = self._generation.reader.read(self.molecules[number], answer, [False] * len(answer), reason)
        return read.check.passed

    def by_transformers(self, text: ReferenceAnswer) -> Rows:
        """[T, V] by the model's own code, in one pass over the whole text."""
        ids = torch.tensor([[*text.prompt, *text.answer[:-1]]], device=self.loaded.device)
        with torch.inference_mode():
            rows = self.loaded.model(ids).logits[0, len(text.prompt) - 1 :, : self.size]
        return np.asarray(rows.float().cpu().numpy())


def molecules_of(smiles: Iterable[str]) -> list[Molecule]:
    molecules = list(map(parse_smiles, smiles))
    for molecule in molecules:
        skeleton_of(molecule)  # some have no enriched form, which is an error here
    return molecules


def ids_to_log(answers: Iterable[Sequence[int]], count: int) -> tuple[int, ...]:
    """The first ids of the vocabulary, and the most common ones of the answers."""
    seen = Counter(id_ for answer in answers for id_ in answer)
    common = [id_ for id_, _ in sorted(seen.items(), key=lambda item: (-item[1], item[0])) if id_ >= FIRST_IDS]
    return tuple(sorted([*range(min(FIRST_IDS, count)), *common[: max(0, count - FIRST_IDS)]]))


@dataclass(frozen=True, slots=True)
class ParityPlan:
    settings: tuple[LlamaSetting, ...]
    values: int  # of each row that are logged
    first: bool = False  # those of the first ids, as the reports' logs have them; else also the commonest ones
    ours: bool = True  # whether our own rows are logged too
    threads: int = 1
    late: int = 0  # processes that read late


@dataclass(slots=True)
class ParityResult:
    """One model's figures, by engine and setting."""

    name: str
    texts: int = 0
    passed: int = 0  # of ours
    tokens: int = 0
    agreed: defaultdict[str, LogitAgreement] = field(default_factory=lambda: defaultdict(LogitAgreement))
    written: defaultdict[str, AnswerAgreement] = field(default_factory=lambda: defaultdict(AnswerAgreement))
    bytes: dict[str, int] = field(default_factory=dict)


def compared(
    loaded: LoadedModel, molecules: Sequence[Molecule], plan: ParityPlan, log_file: Path, aside: Path
) -> ParityResult:
    """Write the log of all engines, and sum up how far they agree. GGUF files stay in the folder ``aside``.

    The order of entries is the same in every log.
    """
    writer, name = Writer(loaded, molecules), loaded.entry.name
    stem = name.replace(":", "-")
    whole = aside / f"{stem}.gguf"
    write_gguf(loaded, whole)
    files = {setting: whole if setting.is_whole else aside / f"{stem}-{setting.name}.gguf" for setting in plan.settings}
    for setting, path in files.items():
        if not setting.is_whole:
            quantised(whole, path, setting, plan.threads)
    ids = None
    if not plan.first:  # the commonest ids are those of answers, which are generated once before
        ids = ids_to_log((writer.text(number).answer for number in range(len(molecules))), plan.values)
    columns = [*range(min(plan.values, writer.size))] if ids is None else [*ids]
    result = ParityResult(name, bytes={setting.name: path.stat().st_size for setting, path in files.items()})
    with LogFile(log_file, plan.values if ids is None else ids) as lines, ExitStack() as stack:
        weights = {setting: stack.enter_context(Weights(path)) for setting, path in files.items()}
        for number, molecule in enumerate(molecules):
            text = writer.text(number, lines if plan.ours else None)
            result.texts += 1
            result.passed += text.passed
            result.tokens += len(text.answer)
            result.agreed[TRANSFORMERS].add(text.rows, writer.by_transformers(text))
            sizes = {"positions": len(text.prompt) + text.limit + SPARE, "threads": plan.threads}
            for setting in plan.settings:
                names = names_of_line(ENGINE, name, setting.name, weights[setting].rows)
                rows = np.empty_like(text.rows)  # [T, V] for each of our tokens, logged at the step
                with Session(weights[setting], setting, **sizes) as session:
                    for step, row in enumerate(session.along(text.prompt, text.answer)):
                        rows[step] = row[: writer.size]
                        lines.write(line(names, step, molecule.smiles, row[columns], ids, text.answer[step]))
                result.agreed[setting.name].add(text.rows, rows)
                with Session(weights[setting], setting, **sizes) as session:  # its own greedy answer
                    answer = session.greedy(text.prompt, text.limit, writer.end, writer.size)
                result.written[setting.name].add(text.answer, answer, passed=writer.passes(number, answer))
            log.info("%s: %d of %d texts", name, number + 1, len(molecules))
        # The first text's tokens, read too late, in one process after the other: that text once more each.
        text = writer.text(0)
        request = LateRequest(text.prompt, text.answer[:LATE_TOKENS], min(plan.values, LATE_VALUES))
        for process in range(plan.late):
            source = f"{text.molecule.smiles} process {process + 1}" if process else text.molecule.smiles
            for way, values in read_late(whole, request, aside).items():
                names = names_of_line(f"{ENGINE} read {way}", name, "f32", next(iter(weights.values())).rows)
                for entry in late_lines(names, source, values):
                    lines.write(entry)
    return result


def late_lines(names: Mapping[str, str], source: str, values: Values) -> Iterator[str]:
    """Without rows that could not be read at all, where an engine would have crashed."""
    for step, row in enumerate(values):
        if not np.isnan(row).all():
            yield line(names, step, source, row)


def line(
    names: Mapping[str, str],
    token_idx: int,
    source: str,
    values: Rows,
    ids: Sequence[int] | None = None,
    token: int | None = None,
) -> str:
    """One entry; each number as the shortest text that reads as the same one."""
    entry: dict[str, object] = {**names, "token_idx": token_idx, "source": source}
    if token is not None:
        entry["token"] = token
    if ids is not None:
        entry["ids"] = list(ids)
    return json.dumps({**entry, "values": [float(str(value)) for value in values]}) + "\n"
